"""Close an attempt: poll, delete, record."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial

from plumbline.launch import progress, stores
from plumbline.launch.cluster import names, store_credentials
from plumbline.launch.cluster.observe.observation import LaunchObservation, StopCause, has_ended
from plumbline.launch.cluster.observe.polling import merge_observations, poll_ended_nodes, poll_launch, read_logs
from plumbline.launch.cluster.observe.verdict import classify_launch
from plumbline.launch.cluster.operate.attempts import GRACE_S, Attempt
from plumbline.launch.failures import UNSCALED, ApiRefused, Interrupted, Outcome, TrialFailure
from plumbline.launch.remote import tolerate
from plumbline.results import FailureClass, LaunchRecord, log_transport
from plumbline.results.document import NO_SCALE_OUT

_log = logging.getLogger(__name__)

_GONE_S = GRACE_S + 90.0


def close_attempt(attempt: Attempt, observation: LaunchObservation | None = None, stop: StopCause | None = None) -> LaunchRecord:
    """Poll once more, delete everything, wait until it is gone, and store the record of the attempt.

    Deletion is tried whatever else fails, and its own failure becomes the record's, because pods may still run. OSError if the home store
    cannot be written; the preliminary record then remains.
    """
    known = merge_observations(attempt.seen, observation) if observation else attempt.seen
    looking, selector = attempt.api(attempt.poll_patience_s), names.selector(attempt.trial)
    attempt.seen = poll_ended_nodes(looking, poll_launch(looking, selector, replace(known, stop=stop or known.stop)))
    # Deletion may take minutes, and this process may be ended meanwhile.
    tolerate("keep what was seen", attempt.save_state, None)
    text, tail = read_logs(looking, attempt.seen, most_s=attempt.poll_patience_s)
    _store_printed_result(attempt, text)
    scaler = tolerate("read the trial's scaler", partial(attempt.scaler_trouble, looking), None)
    failure, detail = _remove(attempt, selector)
    removed_at = datetime.now(timezone.utc)
    if failure is None:
        failure, detail = _final_outcome(attempt, scaler)
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


def settle_attempt(attempt: Attempt) -> LaunchRecord | None:
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


def _final_outcome(attempt: Attempt, scaler: str | None) -> Outcome:
    """`scaler`: what kept the trial's scaler from its work, None if nothing did."""
    try:
        validity = attempt.validity()
    except OSError as error:
        store = attempt.launcher.results_url
        why = f"the pods are gone, but {store} cannot be read: {error}"
        return "unreachable", store_credentials.explain_refusal(why, attempt.trial.provider, here=True)
    own = frozenset(each.name for each in (*attempt.launcher.init_containers, *attempt.launcher.sidecars))
    failure, detail = classify_launch(replace(attempt.seen, own=own, providers_nodes=attempt.providers_nodes), validity)
    if failure is None and scaler is not None and validity is not None and any(r.code == NO_SCALE_OUT for r in validity.reasons):
        return "bad_declaration", f"{UNSCALED}: {scaler}; it is not the provider's"
    if failure is None or detail is None or attempt.seen.stop is not None:
        return failure, detail
    return failure, store_credentials.explain_refusal(detail, attempt.trial.provider, here=False)
