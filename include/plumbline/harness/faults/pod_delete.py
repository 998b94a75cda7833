"""The fault pod_delete: the launcher deletes the trial's pod, and another pod of the same attempt continues from the newest valid checkpoint.

The first pod saves what later pods need, requests its deletion and waits. The next pod resumes and writes the document.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NoReturn

from plumbline.declarations import Trial
from plumbline.declarations.workloads import faults
from plumbline.harness.contention_monitor import MonitorSnapshot
from plumbline.harness.launcher_protocol import Deletion, request_pod_deletion
from plumbline.harness.measurement import TrialFailed, TrialJudgement, degraded
from plumbline.harness.persistent_state import PersistentState, save_monitor
from plumbline.harness.training.analysis import records
from plumbline.harness.training.analysis.records import TrainingIncident, TrainingRecords
from plumbline.harness.training.fault import register
from plumbline.harness.training.job.job_fault import HeldTrial, JobFault, ResumedTrial
from plumbline.harness.training.log_seal import ForgedLog, LogSeal, key_of_this_process
from plumbline.harness.training.plan import FaultPlan
from plumbline.harness.training.worker_protocol import LogLine, LogTail, RunName, RunRecord
from plumbline.whole_file import write_whole

_STATE_KEY = "replacement"
_KEY = "log_key"
_REQUEST_INTERVAL_S = 1.0
_LAUNCHER_TIMEOUT_S = 900.0
"""How long Airflow may take beyond an outage of the cluster: a busy scheduler, a worker that starts."""
_SIGTERM_STATUS = 128 + signal.SIGTERM


def _deletion_timeout_s(trial: Trial) -> float:
    """Seconds that a pod waits for its deletion: the launcher's longest outage, and its reaction."""
    return _LAUNCHER_TIMEOUT_S + trial.provider.launcher.unreachable_s


def _save_for_next_pod(state: PersistentState, held: HeldTrial) -> None:
    for log in state.folder.glob("*.steps.jsonl"):
        with log.open("rb") as file:
            os.fsync(file.fileno())
    save_monitor(state, MonitorSnapshot.of(held.monitor, held.trial.validity))
    records = held.records
    state.put(
        _STATE_KEY,
        {
            "deletion": len(state.deletions) + 1,
            "held": {**asdict(held.attempt), "at_s": time.monotonic()},
            "runs": [
                {"name": name, "launched_s": run.launched_s, "shift_s": held.shifts_s.get(name, 0.0)} for name, run in records.runs.items()
            ],
            "incidents": [asdict(incident) for incident in records.incidents],
            "data_sha256": records.data_sha256,
            "fraction": held.fraction,
            # Written while the script is stopped, and gone before the next pod starts it again.
            _KEY: key_of_this_process().hex(),
        },
    )


def wait_for_deletion(number: int, patience: float, meanwhile: Callable[[], None]) -> NoReturn:
    """Ask for the deletion until it comes. TrialFailed if it does not.

    SIGTERM is the deletion on its way, and ends the process at once: a document of this pod would be taken for the trial's.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: os._exit(_SIGTERM_STATUS))
    until = time.monotonic() + patience
    while time.monotonic() < until:
        request_pod_deletion(number)
        meanwhile()
        time.sleep(_REQUEST_INTERVAL_S)
    raise TrialFailed(
        "harness_error",
        f"the launcher did not delete the pod within {patience:.0f} s; check that it may read the pod's log (pods/log), which carries the request",
    )


def resume_from_last_pod(state: PersistentState, fault: FaultPlan, ranks: int, started_s: float, *, script: bool = False) -> ResumedTrial:
    """The earlier pods' records, on this pod's clock.

    Monotonic clocks restart with a machine. The deleted pod's unfinished step is placed at the launcher's request, as the delay until then is an
    artefact of the injection. Until the pod is seen gone the launcher's clock counts, then the new pod's; the difference of their wall clocks
    adds to the start.

    `ranks`: on this node. `started_s`: monotonic, when this process began. `script`: whether they run one. TrialFailed if the saved state is of another deletion."""
    saved, deletion = state.get(_STATE_KEY), state.deletions[-1]
    key = _take_key(state, saved) if script else None
    if saved["deletion"] != len(state.deletions):
        raise TrialFailed(
            "harness_error",
            f"the launcher has deleted {len(state.deletions)} pods, and the state on the volume is of deletion {saved['deletion']}",
        )
    asked_s, gone_s, remark = _deletion_times(deletion, started_s)
    shift_s = asked_s - saved["held"]["at_s"]
    records = TrainingRecords(fault, data_sha256=saved["data_sha256"])
    shifts = {row["name"]: row["shift_s"] + shift_s for row in saved["runs"]}
    for row in saved["runs"]:
        records.runs[row["name"]] = _read_run(state.folder, row["name"], row["launched_s"] + shift_s, shifts[row["name"]], ranks, key)
    for row in saved["incidents"]:
        incident = TrainingIncident(**row)
        records.incidents.append(replace(incident, began_s=incident.began_s + shift_s, noticed_s=incident.noticed_s + shift_s))
    attempt = saved["held"]
    records.incidents.append(TrainingIncident(attempt["run"], PodDelete.name, asked_s, gone_s, attempt["step"], detail=remark))
    return ResumedTrial(records, saved["fraction"], shifts)


def _deletion_times(deletion: Deletion, started_s: float) -> tuple[float, float, str]:
    offset = time.time() - time.monotonic()
    detect_s = max(deletion.gone_s - deletion.asked_s, 0.0)
    gone_s = deletion.gone_s - offset
    if gone_s <= started_s:
        return gone_s - detect_s, gone_s, ""
    ahead = f"launcher clock ahead of node clock by ≥ {gone_s - started_s:.3g} s; pod start taken from its process start"
    return started_s - detect_s, started_s, ahead


def _take_key(state: PersistentState, saved: dict[str, Any]) -> bytes:
    """The key of the earlier pod's logs of a script, which is on the volume no more then: the script is about to be started again."""
    try:
        key = bytes.fromhex(saved.pop(_KEY))
    except (KeyError, TypeError, ValueError):
        raise TrialFailed(
            "harness_error", "the state on the volume has no key of the script's step logs; expected the earlier pod's"
        ) from None
    state.put(_STATE_KEY, saved)
    return key


def _read_run(folder: Path, name: RunName, launched_s: float, shift_s: float, ranks: int, key: bytes | None) -> RunRecord:
    by_rank: dict[int, RunRecord] = {}
    for rank in range(ranks):
        by_rank[rank] = RunRecord(launched_s)
        for line in _read_lines(folder / (f"{name}.rank{rank}.steps.jsonl" if rank else f"{name}.steps.jsonl"), shift_s, key):
            by_rank[rank].add(line)
    record = by_rank[0]
    if key is not None:
        records.adopt_script(record, by_rank)
    if ranks > 1:
        record.by_rank = {rank: each.steps for rank, each in by_rank.items()}
        record.steps = records.merge_ranks(record.by_rank)
    return record


def _read_lines(path: Path, shift_s: float, key: bytes | None) -> list[LogLine]:
    """The lines of a log on this pod's clock. `key`: of a script's, which is sealed again with this pod's: it may be read once more, after
    another deletion. TrialFailed if the script wrote to it."""
    shift = round(shift_s * 1e9)
    try:
        lines = LogTail(path, key).new()
    except ForgedLog as error:
        raise TrialFailed("bad_declaration", str(error)) from error
    if key is not None:
        seal = LogSeal(path, key_of_this_process())
        write_whole(path, "".join(seal.seal(json.dumps(line).encode()).decode() + "\n" for line in lines), durable=True)
    return [_shift_line(line, shift) for line in lines]


def _shift_line(line: LogLine, shift: int) -> dict[str, Any]:
    return {**line, **{key: line[key] + shift for key in ("ns", "start") if key in line}}


@register
class PodDelete(JobFault):
    name, event, detected = "pod_delete", faults.PodDelete.event, "pod_seen_gone"

    def strike(self, held: HeldTrial) -> tuple[float, float]:
        """Save the trial's state and wait for the deletion, which ends this process. TrialFailed if it does not come."""
        state = held.state
        if state is None:
            raise TrialFailed("harness_error", f"the fault {self.name} has no volume to save the trial's state on")
        _save_for_next_pod(state, held)
        wait_for_deletion(
            len(state.deletions) + 1, _deletion_timeout_s(held.trial), lambda: held.report("waiting for the launcher to delete the pod")
        )

    def resume(
        self, state: PersistentState, fault: FaultPlan, ranks: int, started_s: float, *, script: bool = False
    ) -> ResumedTrial | None:
        return resume_from_last_pod(state, fault, ranks, started_s, script=script) if state.deletions else None

    def judge(self, records: TrainingRecords, state: PersistentState | None) -> Sequence[TrialJudgement]:
        """Pods whose replacement a second process of the launcher had to finish: the penalty holds the launcher's own outage."""
        deletions = state.deletions if state is not None else ()
        count = sum(deletion.late for deletion in deletions)
        if not count or not records.incidents:
            return []
        detail = f"the launcher was interrupted in {count} of {len(deletions)} replacements of the pod, and the restart penalty holds its absence"
        return [degraded("launcher_interrupted", detail)]
