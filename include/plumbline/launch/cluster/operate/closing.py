"""Adopt or announce an attempt, and close it: poll, delete, record."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial

from plumbline.launch import progress, stores
from plumbline.launch.cluster import names, store_credentials
from plumbline.launch.cluster.observe.observation import LaunchObservation, StopCause, has_ended
from plumbline.launch.cluster.observe.polling import merge_observations, poll_first_node, poll_launch, read_logs, tolerate
from plumbline.launch.cluster.observe.verdict import classify_launch
from plumbline.launch.cluster.operate.attempts import GRACE_S, UNFINISHED, Attempt
from plumbline.launch.failures import ApiRefused, Interrupted, Outcome, TrialFailure, is_retryable, is_usable
from plumbline.results import FailureClass, InvalidResult, LaunchRecord, log_transport

_log = logging.getLogger(__name__)

_GONE_S = GRACE_S + 90.0


def adopt_or_announce(spec: Mapping[str, str], request: str | None = None) -> tuple[Attempt, LaunchRecord | None]:
    """The attempt of this try of the task, and its record if it is over already. `request`: the same in each retry of the task.

    Adopts an attempt that still runs. Records one that is over; that, or one that an earlier try of the request recorded, is the result if it
    was measured or failed in a way that a retry would not change. Otherwise announces the next attempt. OSError if a store, Unreachable if the cluster cannot be reached.
    """
    newest, record = Attempt.newest(spec), None
    earlier = [] if request is None else stores.attempts_for(request, stores.home(), spec)
    if newest is not None and _is_unsettled(newest):
        # Between a pod and its replacement nothing of the launch may exist.
        if newest.replaced.pending is not None or newest.lives():
            _log.info("Launch %s exists on the cluster: adopting it.", names.launch_name(newest.trial))
            return newest, None
        record = _settle_attempt(newest)
    elif newest is not None and newest.home.folder(newest.trial) in earlier:
        record = newest.home.launch(newest.home.folder(newest.trial))
        if record is not None and is_usable(newest.validity()):  # its pods were ended, or the task was, after it had been measured
            return newest, record.model_copy(update={"failure_class": None, "failure_detail": None})
    if newest is not None and record is not None and not is_retryable(record, newest.validity()):
        return newest, record
    return Attempt.next(spec), None


def settle_abandoned(spec: Mapping[str, str]) -> list[str]:
    """End and record the launches that a trial's ended task left unrecorded; their names.

    A task that a person marks between its pod's start and its worker's return has no trigger and no process that deletes the pod. Deletes
    only objects with the launch's own labels. OSError if a store cannot be reached; an unreachable cluster is recorded as the failure.
    """
    home, settled = stores.home(), []
    for folder in home.announced(spec["campaign_id"], spec["trial_id"]):
        try:
            attempt = Attempt.at(home, folder)
        except (FileNotFoundError, InvalidResult) as error:
            _log.warning("Skipping %s: %s", folder, error)
            continue
        if not attempt.trial.provider.launcher.outlasts_task or not _is_unsettled(attempt):
            continue
        name = names.launch_name(attempt.trial)
        if tolerate(f"look for launch {name}", attempt.lives, _is_unfinished(attempt)):
            _log.warning("No task watches launch %s: ending and recording it.", name)
            close_attempt(attempt, stop=StopCause("killed", "its task was ended in Airflow between worker and triggerer"))
        else:
            _settle_attempt(attempt)
        settled.append(name)
    return settled


def close_attempt(attempt: Attempt, observation: LaunchObservation | None = None, stop: StopCause | None = None) -> LaunchRecord:
    """Poll once more, delete everything, wait until it is gone, and store the record of the attempt.

    Deletion is tried whatever else fails, and its own failure becomes the record's, because pods may still run. OSError if the home store
    cannot be written; the preliminary record then remains.
    """
    known = merge_observations(attempt.seen, observation) if observation else attempt.seen
    looking, selector = attempt.api(attempt.poll_patience_s), names.selector(attempt.trial)
    attempt.seen = poll_first_node(looking, poll_launch(looking, selector, replace(known, stop=stop or known.stop)))
    # Deletion may take minutes, and this process may be ended meanwhile.
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
    """Store a result that the harness printed because its store was unavailable; an invalid one stays in the stored log."""
    try:
        if tolerate("bring the result home from the log", partial(stores.store_from_log, attempt.trial, log, attempt.home), False):
            _log.warning("%s was unavailable: took the result from the pod's log.", attempt.launcher.results_url)
    except log_transport.InvalidBlock as error:
        _log.error("%s", error)


def _is_unsettled(attempt: Attempt) -> bool:
    """Whether the attempt's record does not show its end."""
    try:
        record = attempt.home.launch(attempt.home.folder(attempt.trial))
    except InvalidResult:  # its pods may still exist
        return True
    return record is None or record.failure_class == "unreachable" or _is_unfinished(attempt)


def _is_unfinished(attempt: Attempt) -> bool:
    try:
        record = attempt.home.launch(attempt.home.folder(attempt.trial))
    except InvalidResult:
        return True
    return record is not None and (record.failure_class, record.failure_detail) == ("interrupted", UNFINISHED)


def _settle_attempt(attempt: Attempt) -> LaunchRecord | None:
    """Record the end of an attempt that no longer runs; None if its record cannot be improved. OSError if the pods' store cannot be read."""
    record = attempt.home.launch(attempt.home.folder(attempt.trial))
    if record is not None and record.failure_class == "unreachable" and attempt.validity() is None:
        # The store was unavailable before; it has no document, so the observed pods decide.
        ended = len(attempt.seen.pods) == attempt.seen.expected and all(map(has_ended, attempt.seen.pods))
        if not ended or classify_launch(attempt.seen, None)[0] == "unreachable":
            return None
    return close_attempt(attempt)


def _remove(attempt: Attempt, selector: str) -> Outcome:
    """Delete the launch's objects; the failure if a request failed."""
    stop = attempt.seen.stop
    # A cluster that was unreachable before gets less patience.
    patience_s = attempt.poll_patience_s if stop is not None and stop.reason == "unreachable" else attempt.launcher.unreachable_timeout
    try:
        stuck = attempt.api(patience_s).remove(attempt.owner, selector, wait_s=_GONE_S, secret=attempt.secret)
    except Interrupted:  # Airflow ends the task; the next try records the attempt
        raise
    except (TrialFailure, ApiRefused) as error:
        failure: FailureClass = error.failure_class if isinstance(error, TrialFailure) else "bad_declaration"
        before = f"before that, {stop.reason}: {stop.detail}" if stop else "its pods end at their own deadline"
        return failure, f"objects of the launch may still exist, because their deletion failed: {error}; {before}"
    if stuck:
        _log.warning("Still not deleted after %g s: %s. The hourly upkeep tries again.", _GONE_S, "; ".join(stuck))
    return None, None


def _final_outcome(attempt: Attempt) -> Outcome:
    try:
        validity = attempt.validity()
    except OSError as error:
        store = attempt.launcher.results_url
        why = f"the pods are gone, but {store} cannot be read: {error}"
        return "unreachable", store_credentials.explain_refusal(why, attempt.trial.provider, here=True)
    own = frozenset(each.name for each in (*attempt.launcher.init_containers, *attempt.launcher.sidecars))
    failure, detail = classify_launch(replace(attempt.seen, own=own), validity)
    if failure is None or detail is None or attempt.seen.stop is not None:
        return failure, detail
    return failure, store_credentials.explain_refusal(detail, attempt.trial.provider, here=False)
