"""How an attempt is taken up and how it is closed; without Airflow."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial

from plumbline.declarations import KubernetesLauncher
from plumbline.launch import progress, stores
from plumbline.launch.cluster import names, store_access
from plumbline.launch.cluster.api import Refused
from plumbline.launch.cluster.attempt import GRACE_S, UNFINISHED, Attempt
from plumbline.launch.cluster.base import Seen, Stop
from plumbline.launch.cluster.classify import classify
from plumbline.launch.cluster.look import logs, look, together, tolerated
from plumbline.launch.cluster.pod_state import over
from plumbline.launch.failures import Interrupted, TrialFailure, worth_another
from plumbline.launch.outcome import Outcome
from plumbline.results import BadResult, FailureClass, LaunchRecord, log_block

_log = logging.getLogger(__name__)

_GONE_S = GRACE_S + 90.0


def take_up(spec: Mapping[str, str]) -> tuple[Attempt, LaunchRecord | None]:
    """The attempt that a try of the task is about, and its record if it turns out to be over already.

    What an earlier try left running is adopted. What it left over is recorded, and if it was measured after all, or failed in a way that
    another try would not change, that is the result. Else the next attempt is announced. OSError if a store cannot be reached, Unreachable if the cluster cannot.
    """
    held = Attempt.newest(spec)
    if held is not None and _unsettled(held):
        # Between a pod and the one that takes its place nothing of it may be there.
        if held.replaced.pending is not None or held.lives():
            _log.info("Launch %s is on the cluster already: it is taken up again.", names.launch_name(held.trial))
            return held, None
        record = _settle(held)
        if record is not None and not worth_another(record, held.validity()):
            return held, record
    return Attempt.next(spec), None


def settle(spec: Mapping[str, str]) -> list[str]:
    """End and record what a trial's ended task left unrecorded; the names of these launches.

    A task that a person marks between its pod's start and its worker's return has neither a trigger nor a process that deletes the pod.
    Only objects with the launch's own labels are deleted. OSError if a store cannot be reached. A cluster that cannot be asked is
    recorded as `unreachable`, with the pods that may still run.
    """
    home, settled = stores.home(), []
    for folder in home.announced(spec["campaign_id"], spec["trial_id"]):
        try:
            attempt = Attempt.at(home, folder)
        except (FileNotFoundError, BadResult) as error:
            _log.warning("%s is not looked for on a cluster: %s", folder, error)
            continue
        if not isinstance(attempt.trial.provider.launcher, KubernetesLauncher) or not _unsettled(attempt):
            continue
        name = names.launch_name(attempt.trial)
        if tolerated(f"look for launch {name}", attempt.lives, _unfinished(attempt)):
            _log.warning("Nothing watches launch %s any more: it is ended and recorded.", name)
            close(attempt, stop=Stop("killed", "its task was ended in Airflow while neither a worker nor the triggerer had it"))
        else:
            _settle(attempt)
        settled.append(name)
    return settled


def close(attempt: Attempt, seen: Seen | None = None, stop: Stop | None = None) -> LaunchRecord:
    """Look once more, delete everything, wait until it is gone, and record what became of it; the record.

    Deletion is tried whatever else fails, and its own failure becomes the record's: somebody must know that pods may still run.
    OSError if the home store cannot be written; then the preliminary record stands.
    """
    known = together(attempt.seen, seen) if seen else attempt.seen
    looking, selector = attempt.api(attempt.looking_s), names.selector(attempt.trial)
    attempt.seen = look(looking, selector, replace(known, stop=stop or known.stop))
    # Deleting may take minutes, and whoever does it may be ended in between: how the pods ended is known only here then.
    tolerated("keep what was seen", attempt.keep_state, None)
    text, tail = logs(looking, attempt.seen, most_s=attempt.looking_s)
    _bring_home(attempt, text)
    failure, detail = _removed(attempt, selector)
    removed_at = datetime.now(timezone.utc)
    if failure is None:
        failure, detail = _verdict(attempt)
    if text:
        tolerated("store the log", partial(attempt.home.put, f"{attempt.home.folder(attempt.trial)}/launch.log", text), None)
    record = attempt.record(failure, detail, tail, removed_at)
    progress.forget(attempt.trial.trial_id)
    return record


def _bring_home(attempt: Attempt, log: bytes) -> None:
    """Take the result that the harness printed because its store was away. One that cannot be used is in the stored log."""
    try:
        if tolerated("bring the result home from the log", partial(stores.from_log, attempt.trial, log, attempt.home), False):
            _log.warning("%s was away: the result came home by the pod's log.", attempt.launcher.results_url)
    except log_block.BadBlock as error:
        _log.error("%s", error)


def _unsettled(attempt: Attempt) -> bool:
    """Whether its record says that nobody knows how it ended; then what is left of it, here or there, decides."""
    try:
        record = attempt.home.launch(attempt.home.folder(attempt.trial))
    except BadResult:  # whoever wrote it may have left its pods
        return True
    return record is None or record.failure_class == "unreachable" or _unfinished(attempt)


def _unfinished(attempt: Attempt) -> bool:
    try:
        record = attempt.home.launch(attempt.home.folder(attempt.trial))
    except BadResult:
        return True
    return record is not None and (record.failure_class, record.failure_detail) == ("interrupted", UNFINISHED)


def _settle(attempt: Attempt) -> LaunchRecord | None:
    """Record how it ended, of which nothing lives any more; None if that is recorded and nothing better is known.

    OSError if the pods' store cannot be read: whether the trial must run again cannot be decided then.
    """
    record = attempt.home.launch(attempt.home.folder(attempt.trial))
    if record is not None and record.failure_class == "unreachable" and attempt.validity() is None:
        # A store that did not answer hid whether there is a document; now that there is none, what was seen of the pods counts.
        ended = len(attempt.seen.pods) == attempt.seen.expected and all(map(over, attempt.seen.pods))
        if not ended or classify(attempt.seen, None)[0] == "unreachable":
            return None
    return close(attempt)


def _removed(attempt: Attempt, selector: str) -> Outcome:
    """Delete what the launch created; a failure if that could not even be asked for."""
    stop = attempt.seen.stop
    # A cluster that was given up already is asked once more, but not for as long again.
    patience_s = attempt.looking_s if stop is not None and stop.reason == "unreachable" else attempt.launcher.unreachable_timeout
    try:
        stuck = attempt.api(patience_s).remove(attempt.owner, selector, wait_s=_GONE_S, secret=attempt.secret)
    except Interrupted:  # Airflow ends the task: what was seen is kept, and the next try records it
        raise
    except (TrialFailure, Refused) as error:
        failure: FailureClass = error.failure_class if isinstance(error, TrialFailure) else "bad_declaration"
        before = f"before that, {stop.reason}: {stop.detail}" if stop else "its pods end at their own deadline at the latest"
        return failure, f"what the launch created may still be on the cluster, because deleting it failed: {error}; {before}"
    if stuck:
        _log.warning("Deletion was accepted, but still there after %g s: %s. The hourly upkeep tries again.", _GONE_S, "; ".join(stuck))
    return None, None


def _verdict(attempt: Attempt) -> Outcome:
    try:
        validity = attempt.validity()
    except OSError as error:
        store = attempt.launcher.results_url
        why = f"the pods are gone, but whether their result reached {store} cannot be seen from here: {error}"
        return "unreachable", store_access.explained(why, attempt.trial.provider, here=True)
    failure, detail = classify(attempt.seen, validity)
    if failure is None or detail is None or attempt.seen.stop is not None:
        return failure, detail
    return failure, store_access.explained(detail, attempt.trial.provider, here=False)
