"""The fault that deletes the trial's pod: what its training keeps for the next pod, and how that one takes it up.

Clocks. Monotonic ones begin anew with a machine, so a later pod puts the moments of the earlier ones onto its own: the half-done step of the
deleted pod is put where the launcher asked for the deletion. The time that the launcher took to act is an artefact of breaking the pod
on purpose, and is cut out. From then until the pod is seen gone the launcher's clock counts; from there on the new pod's. The wall clocks of
launcher and node meet in that one point, and by what they differ the start is longer or shorter.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from plumbline.declarations import Trial
from plumbline.harness.kept import Deletion, Kept
from plumbline.harness.measurement import TrialFailed
from plumbline.harness.observed import OBSERVED, Observed
from plumbline.harness.progress import ask_for_deletion
from plumbline.harness.training import merge
from plumbline.harness.training.attempts import Incident
from plumbline.harness.training.plan import FaultPlan, RunName
from plumbline.harness.training.records import Records
from plumbline.harness.training.steplog import Line, RunRecord, Tail
from plumbline.harness.watch import Watch

_NAME = "replacement"
_AGAIN_S = 1.0
_LAUNCHER_S = 900.0
"""How long Airflow may take beyond an outage of the cluster: a busy scheduler, a worker that starts."""
_ENDED_BY_SIGTERM = 128 + signal.SIGTERM


@dataclass(frozen=True)
class Held:
    """The attempt that waits for its end, and the step that it is in."""

    run: RunName
    step: int


@dataclass(frozen=True)
class Taken:
    """What a later pod goes on with. `fraction`: of the measurement's progress. `shifts_s`: by how much each run's log is put later to be on
    this pod's monotonic clock."""

    records: Records
    fraction: float
    shifts_s: dict[RunName, float]


def patience_s(trial: Trial) -> float:
    """How long a pod waits for its deletion: as long as the launcher may be unable to reach the cluster, and to do anything at all."""
    launcher = trial.provider.launcher
    return _LAUNCHER_S + (launcher.unreachable_timeout if launcher.kind == "kubernetes" else 0.0)


def keep(kept: Kept, records: Records, held: Held, watch: Watch, trial: Trial, fraction: float, shifts_s: Mapping[RunName, float]) -> None:
    """Keep what the next pod needs. `shifts_s`: of runs of earlier pods, from the clock that their logs were written by to ours."""
    for log in kept.folder.glob("*.steps.jsonl"):
        with log.open("rb") as file:
            os.fsync(file.fileno())
    kept.put(OBSERVED, Observed.of(watch, trial.validity).row())
    kept.put(
        _NAME,
        {
            "deletion": len(kept.deletions) + 1,
            "held": {**asdict(held), "at_s": time.monotonic()},
            "runs": [
                {"name": name, "launched_s": run.launched_s, "shift_s": shifts_s.get(name, 0.0)} for name, run in records.runs.items()
            ],
            "incidents": [asdict(incident) for incident in records.incidents],
            "data_sha256": records.data_sha256,
            "fraction": fraction,
        },
    )


def wait_for_deletion(number: int, patience: float, meanwhile: Callable[[], None]) -> None:
    """Ask for the deletion until it comes. TrialFailed if it does not.

    SIGTERM is the deletion on its way, and ends the process at once: a document of this pod would be taken for the trial's.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: os._exit(_ENDED_BY_SIGTERM))
    until = time.monotonic() + patience
    while time.monotonic() < until:
        ask_for_deletion(number)
        meanwhile()
        time.sleep(_AGAIN_S)
    raise TrialFailed(
        "harness_error",
        f"the launcher did not delete the pod within {patience:.0f} s of being asked to; is its log, by which it is asked, readable (pods/log)?",
    )


def take_up(kept: Kept, fault: FaultPlan, ranks: int, started_s: float) -> Taken:
    """What the earlier pods did, on this pod's clock.

    `ranks`: on this node. `started_s`: monotonic, when this process began. TrialFailed if the kept state is of another deletion.
    """
    told, deletion = kept.get(_NAME), kept.deletions[-1]
    if told["deletion"] != len(kept.deletions):
        raise TrialFailed(
            "harness_error",
            f"the launcher has deleted {len(kept.deletions)} pods, and the state on the volume was kept for deletion {told['deletion']}",
        )
    asked_s, gone_s, remark = _moments(deletion, started_s)
    shift_s = asked_s - told["held"]["at_s"]
    records = Records(fault, data_sha256=told["data_sha256"])
    shifts = {row["name"]: row["shift_s"] + shift_s for row in told["runs"]}
    for row in told["runs"]:
        records.runs[row["name"]] = _run(kept.folder, row["name"], row["launched_s"] + shift_s, shifts[row["name"]], ranks)
    for row in told["incidents"]:
        incident = Incident(**row)
        records.incidents.append(replace(incident, began_s=incident.began_s + shift_s, noticed_s=incident.noticed_s + shift_s))
    held = told["held"]
    records.incidents.append(Incident(held["run"], "pod_delete", asked_s, gone_s, held["step"], detail=remark))
    return Taken(records, told["fraction"], shifts)


def _moments(deletion: Deletion, started_s: float) -> tuple[float, float, str]:
    """When the pod was deleted and seen to be gone on our monotonic clock; and what to know of it."""
    offset = time.time() - time.monotonic()
    detect_s = max(deletion.gone_s - deletion.asked_s, 0.0)
    gone_s = deletion.gone_s - offset
    if gone_s <= started_s:
        return gone_s - detect_s, gone_s, ""
    ahead = f"the launcher's clock is {gone_s - started_s:.3g} s or more ahead of the node's: the new pod's start is counted from its process on"
    return started_s - detect_s, started_s, ahead


def _run(folder: Path, name: RunName, launched_s: float, shift_s: float, ranks: int) -> RunRecord:
    """A run's record from its logs, as it was when the pod was deleted."""
    record = RunRecord(launched_s)
    for line in _lines(folder / f"{name}.steps.jsonl", shift_s):
        record.add(line)
    if ranks > 1:
        for rank in range(ranks):
            of_rank = RunRecord(launched_s)
            for line in _lines(folder / (f"{name}.rank{rank}.steps.jsonl" if rank else f"{name}.steps.jsonl"), shift_s):
                of_rank.add(line)
            record.by_rank[rank] = of_rank.steps
        record.steps = merge.of_the_job(record.by_rank)
    return record


def _lines(path: Path, shift_s: float) -> list[Line]:
    shift = round(shift_s * 1e9)
    return [_shifted(line, shift) for line in Tail(path).new()]


def _shifted(line: Line, shift: int) -> dict[str, Any]:
    return {**line, **{key: line[key] + shift for key in ("ns", "start") if key in line}}
