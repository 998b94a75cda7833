"""Adopt or announce an attempt, and close it: poll, delete, record."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial

from plumbline.launch import progress, stores
from plumbline.launch.cluster import names, store_credentials
from plumbline.launch.cluster.api import ApiRefused
from plumbline.launch.cluster.observe import LaunchObservation, StopCause, has_ended
from plumbline.launch.cluster.observe.polling import merge_observations, poll_launch, read_logs, tolerate
from plumbline.launch.cluster.observe.verdict import classify_launch
from plumbline.launch.cluster.operate.attempts import GRACE_S, UNFINISHED, Attempt
from plumbline.launch.failures import Interrupted, Outcome, TrialFailure, is_retryable
from plumbline.results import FailureClass, InvalidResult, LaunchRecord, log_transport

_log = logging.getLogger(__name__)

_GONE_S = GRACE_S + 90.0


def adopt_or_announce(spec: Mapping[str, str]) -> tuple[Attempt, LaunchRecord | None]:
    """The attempt that a try of the task is about, and its record if it turns out to be over already.

    What an earlier try left running is adopted. What it left over is recorded, and if it was measured after all, or failed in a way that
    another try would not change, that is the result. Else the next attempt is announced. OSError if a store cannot be reached, Unreachable if the cluster cannot.
    """
    held = Attempt.newest(spec)
    if held is not None and _is_unsettled(held):
        # Between a pod and the one that takes its place nothing of it may be there.
        if held.replaced.pending is not None or held.lives():
            _log.info("Launch %s is on the cluster already: it is taken up again.", names.launch_name(held.trial))
            return held, None
        record = _settle_attempt(held)
        if record is not None and not is_retryable(record, held.validity()):
            return held, record
    return Attempt.next(spec), None


def settle_abandoned(spec: Mapping[str, str]) -> list[str]:
    """End and record what a trial's ended task left unrecorded; the names of these launches.

    A task that a person marks between its pod's start and its worker's return has neither a trigger nor a process that deletes the pod.
    Only objects with the launch's own labels are deleted. OSError if a store cannot be reached. A cluster that cannot be asked is
    recorded as `unreachable`, with the pods that may still run.
    """
    home, settled = stores.home(), []
    for folder in home.announced(spec["campaign_id"], spec["trial_id"]):
        try:
            attempt = Attempt.at(home, folder)
        except (FileNotFoundError, InvalidResult) as error:
            _log.warning("%s is not looked for on a cluster: %s", folder, error)
            continue
        if not attempt.trial.provider.launcher.runs_pods or not _is_unsettled(attempt):
            continue
        name = names.launch_name(attempt.trial)
        if tolerate(f"look for launch {name}", attempt.lives, _is_unfinished(attempt)):
            _log.warning("Nothing watches launch %s any more: it is ended and recorded.", name)
            close_attempt(
                attempt, stop=StopCause("killed", "its task was ended in Airflow while neither a worker nor the triggerer had it")
            )
        else:
            _settle_attempt(attempt)
        settled.append(name)
    return settled


def close_attempt(attempt: Attempt, seen: LaunchObservation | None = None, stop: StopCause | None = None) -> LaunchRecord:
    """Look once more, delete everything, wait until it is gone, and record what became of it; the record.

    Deletion is tried whatever else fails, and its own failure becomes the record's: somebody must know that pods may still run.
    OSError if the home store cannot be written; then the preliminary record stands.
    """
    known = merge_observations(attempt.seen, seen) if seen else attempt.seen
    looking, selector = attempt.api(attempt.poll_patience_s), names.selector(attempt.trial)
    attempt.seen = poll_launch(looking, selector, replace(known, stop=stop or known.stop))
    # Deleting may take minutes, and whoever does it may be ended in between: how the pods ended is known only here then.
    tolerate("keep what was seen", attempt.save_state, None)
    text, tail = read_logs(looking, attempt.seen, most_s=attempt.poll_patience_s)
    _store_printed_result(attempt, text)
    failure, detail = _remove(attempt, selector)
    removed_at = datetime.now(timezone.utc)
    if failure is None:
        failure, detail = _final_outcome(attempt)
    if text:
        tolerate("store the log", partial(attempt.home.put, f"{attempt.home.folder(attempt.trial)}/launch.log", text), None)
    record = attempt.record(failure, detail, tail, removed_at)
    progress.remove_progress(attempt.trial.trial_id)
    return record


def _store_printed_result(attempt: Attempt, log: bytes) -> None:
    """Take the result that the harness printed because its store was away. One that cannot be used is in the stored log."""
    try:
        if tolerate("bring the result home from the log", partial(stores.store_from_log, attempt.trial, log, attempt.home), False):
            _log.warning("%s was away: the result came home by the pod's log.", attempt.launcher.results_url)
    except log_transport.InvalidBlock as error:
        _log.error("%s", error)


def _is_unsettled(attempt: Attempt) -> bool:
    """Whether its record says that nobody knows how it ended; then what is left of it, here or there, decides."""
    try:
        record = attempt.home.launch(attempt.home.folder(attempt.trial))
    except InvalidResult:  # whoever wrote it may have left its pods
        return True
    return record is None or record.failure_class == "unreachable" or _is_unfinished(attempt)


def _is_unfinished(attempt: Attempt) -> bool:
    try:
        record = attempt.home.launch(attempt.home.folder(attempt.trial))
    except InvalidResult:
        return True
    return record is not None and (record.failure_class, record.failure_detail) == ("interrupted", UNFINISHED)


def _settle_attempt(attempt: Attempt) -> LaunchRecord | None:
    """Record how it ended, of which nothing lives any more; None if that is recorded and nothing better is known.

    OSError if the pods' store cannot be read: whether the trial must run again cannot be decided then.
    """
    record = attempt.home.launch(attempt.home.folder(attempt.trial))
    if record is not None and record.failure_class == "unreachable" and attempt.validity() is None:
        # A store that did not answer hid whether there is a document; now that there is none, what was seen of the pods counts.
        ended = len(attempt.seen.pods) == attempt.seen.expected and all(map(has_ended, attempt.seen.pods))
        if not ended or classify_launch(attempt.seen, None)[0] == "unreachable":
            return None
    return close_attempt(attempt)


def _remove(attempt: Attempt, selector: str) -> Outcome:
    """Delete what the launch created; a failure if that could not even be asked for."""
    stop = attempt.seen.stop
    # A cluster that was given up already is asked once more, but not for as long again.
    patience_s = attempt.poll_patience_s if stop is not None and stop.reason == "unreachable" else attempt.launcher.unreachable_timeout
    try:
        stuck = attempt.api(patience_s).remove(attempt.owner, selector, wait_s=_GONE_S, secret=attempt.secret)
    except Interrupted:  # Airflow ends the task: what was seen is kept, and the next try records it
        raise
    except (TrialFailure, ApiRefused) as error:
        failure: FailureClass = error.failure_class if isinstance(error, TrialFailure) else "bad_declaration"
        before = f"before that, {stop.reason}: {stop.detail}" if stop else "its pods end at their own deadline at the latest"
        return failure, f"what the launch created may still be on the cluster, because deleting it failed: {error}; {before}"
    if stuck:
        _log.warning("Deletion was accepted, but still there after %g s: %s. The hourly upkeep tries again.", _GONE_S, "; ".join(stuck))
    return None, None


def _final_outcome(attempt: Attempt) -> Outcome:
    try:
        validity = attempt.validity()
    except OSError as error:
        store = attempt.launcher.results_url
        why = f"the pods are gone, but whether their result reached {store} cannot be seen from here: {error}"
        return "unreachable", store_credentials.explain_refusal(why, attempt.trial.provider, here=True)
    failure, detail = classify_launch(attempt.seen, validity)
    if failure is None or detail is None or attempt.seen.stop is not None:
        return failure, detail
    return failure, store_credentials.explain_refusal(detail, attempt.trial.provider, here=False)
