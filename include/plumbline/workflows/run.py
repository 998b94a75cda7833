"""Run a planned trial and wait for its end."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType

from plumbline.archive import open_archive
from plumbline.declarations import Trial, installation, installation_paths
from plumbline.harness.launcher_protocol import ProgressLine
from plumbline.launch import progress, stores
from plumbline.launch.failures import QuotaExceeded, Stopped, is_retryable, is_usable, raise_failure
from plumbline.launch.registry import launcher_for
from plumbline.results import InvalidResult, ResultDocument, ResultStore, Validity
from plumbline.results.document import CONTENTION
from plumbline.workflows.collect import collect_or_leave, collect_trial
from plumbline.workflows.lane_outcome import Row
from plumbline.workflows.plan_trials import store_planned_trial
from plumbline.workflows.record import record_trial
from plumbline.workflows.validate import validate_group

_log = logging.getLogger(__name__)


@contextmanager
def stopped_by_sigterm() -> Iterator[None]:
    """Inside, SIGTERM raises Stopped, an Interrupted, in the main thread, so that launchers end what they started."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Stopped("the task was stopped")

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def run_trial(spec: Mapping[str, str], request: str | None = None) -> Row:
    """Launch one planned trial and wait for its end; once more if other load on this machine's cores made it invalid.

    Raises the typed exception of its failure class, after everything is stored. `request`: the same in each retry, which launches nothing if
    the attempt before it has a usable document or a failure that a retry would not change."""
    store = stores.home()
    trial = stores.planned_trial(store, spec)
    if request is not None and (launched := stores.attempts_for(request, store, spec)):
        record, validity = None, _validity(store, trial)
        with suppress(InvalidResult):
            record = store.launch(launched[-1])
        if is_usable(validity) and _spoilt(validity) is None:
            _log.info("an earlier try of this task measured %s", launched[-1])
            return {"trial_id": trial.trial_id, "exit_code": record.exit_code if record else 0}
        if record is not None and record.failure_class is not None and not is_retryable(record, validity):
            raise_failure(record, validity)
    launcher = launcher_for(trial.provider)
    if trial.selfcheck and (by := _checked_by(store, trial)) is not None:
        _log.info("the instrument was checked on this machine by %s", by)
        trial = trial.model_copy(update={"selfcheck": False})
    try:
        record = launcher.launch(trial, store, progress.write_progress)
        if trial.provider.launcher.cpus_here and (why := _spoilt(_validity(store, trial))) is not None:
            _log.warning("repeated once: %s", why)
            progress.write_progress(ProgressLine(trial.trial_id, "queued", 0.0, f"again: {why}"))
            record = launcher.launch(trial, store, progress.write_progress)
    except OSError as error:
        if (why := installation.full_disk_message(error)) is None:
            raise
        raise QuotaExceeded(why) from error
    finally:
        progress.remove_progress(trial.trial_id)
    _log.info("%s", record.log_tail)
    collect_or_leave(spec)
    raise_failure(record, _validity(store, trial) if record.failure_class else None)
    return {"trial_id": trial.trial_id, "exit_code": record.exit_code}


def _checked_by(store: ResultStore, trial: Trial) -> str | None:
    """The trial of this campaign whose selfcheck passed on this machine, on no other cores than this trial's: plans of other kinds and providers
    have a first trial each. None on providers' nodes, whose instrument is in each image."""
    own = trial.provider
    for other_id in store.trial_ids(trial.campaign_id) if own.launcher.cpus_here else ():
        other = stores.planned_trial(store, {"campaign_id": trial.campaign_id, "trial_id": other_id})
        there = other.provider
        alike = (there.launcher.machine_name, there.accelerator.kind) == (own.launcher.machine_name, own.accelerator.kind)
        if not (other.selfcheck and alike and set(there.launcher.cpus_here) <= set(own.launcher.cpus_here)):
            continue
        for folder in store.attempts(trial.campaign_id, other_id):
            with suppress(FileNotFoundError, InvalidResult):
                lines = store.document(folder).selfcheck
                if lines and all(line.status != "fail" for line in lines):
                    return other_id
    return None


def _spoilt(validity: Validity | None) -> str | None:
    """The other load that made a trial invalid, in words; None if none did."""
    if validity is None or validity.status != "invalid":
        return None
    return next((reason.detail for reason in validity.reasons if reason.code in CONTENTION), None)


def _validity(store: ResultStore, trial: Trial) -> Validity | None:
    """The validity of the trial's newest attempt; None without a valid document."""
    try:
        return store.document(store.attempts(trial.campaign_id, trial.trial_id)[-1]).validity
    except (FileNotFoundError, InvalidResult):
        return None


@dataclass(frozen=True)
class DirectTrial:
    """A trial that was measured and recorded at once: the document of its last attempt, and why the archive rejects it; empty if it does not."""

    document: ResultDocument
    rejected: tuple[str, ...] = ()


def run_directly(trial: Trial, on_progress: Callable[[ProgressLine], None] | None = None) -> DirectTrial:
    """Launch, collect, check and record one trial."""
    store = ResultStore(installation_paths().results_url)
    spec = {"campaign_id": trial.campaign_id, "trial_id": trial.trial_id}
    store_planned_trial(store, trial)
    launcher_for(trial.provider).launch(trial, store, on_progress)
    collect_trial(spec)
    (checked,) = validate_group(trial.provider.name, trial.workload.kind, [spec])
    with open_archive() as archive:
        recorded = record_trial(archive, checked)["recorded"][-1]
    verdict = checked["verdicts"][-1]
    why = [f"{reason['code']}: {reason['detail']}" for reason in verdict["reasons"]] if verdict["action"] == "reject" else []
    if recorded == "quarantined":
        why.append("the document is in quarantine: plumbline archive quarantine list")
    return DirectTrial(store.collected(store.attempts(trial.campaign_id, trial.trial_id)[-1]), tuple(why))
