"""Brings about the fault that a workload declares, once the run has come to its place, and notices it as a supervisor would."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence

from plumbline.declarations.faults import Fault, GroupKill, RankHang
from plumbline.harness.measurement import TrialFailed
from plumbline.harness.training.job import Job
from plumbline.harness.training.supervisor import DEATH_TIMEOUT_S, Worker, wait_for_any

_TURN_S = 0.5
_LEAST_NOTICE_S = 1.0


def strike(fault: Fault, job: Job, step_time_s: float, meanwhile: Callable[[], None]) -> tuple[float, float]:
    """Do it to the job, whose held rank has said that it is there, and end what is left of it.

    `step_time_s`: the usual time of a step. Returns when it happened and when it was noticed, in monotonic seconds. TrialFailed if a
    process will not die.
    """
    held = next(worker for worker in job.workers if worker.spec.hold is not None)
    if isinstance(fault, RankHang):
        began = held.signal(signal.SIGSTOP)
        noticed = _silence(job, began, notice_s(fault, step_time_s), meanwhile)
    else:
        victims = job.workers if isinstance(fault, GroupKill) else [held]
        began = min(victim.signal(signal.SIGKILL) for victim in victims)
        noticed = _death(victims, began, meanwhile)
    job.end(meanwhile)
    return began, noticed


def notice_s(fault: RankHang, step_time_s: float) -> float:
    """For how long no step may have ended before a job counts as hung."""
    return max(fault.notice * step_time_s, _LEAST_NOTICE_S)


def _silence(job: Job, stopped_s: float, patience_s: float, meanwhile: Callable[[], None]) -> float:
    """When no step had ended for so long. Before the first step of an attempt, which may take any time, silence begins with the stop."""
    steps = job.record.steps
    limit = (steps[-1].end_s if steps else stopped_s) + patience_s
    while (left := limit - time.monotonic_ns() / 1e9) > 0:
        wait_for_any(job.workers, (), min(left, _TURN_S))
        meanwhile()
    return time.monotonic_ns() / 1e9


def _death(victims: Sequence[Worker], killed_s: float, meanwhile: Callable[[], None]) -> float:
    """When the first of them was seen to be gone."""
    while not any(victim.ended for victim in victims):
        wait_for_any(victims, (), _TURN_S)
        meanwhile()
        if time.monotonic_ns() / 1e9 - killed_s > DEATH_TIMEOUT_S:
            titles = ", ".join(victim.title for victim in victims)
            raise TrialFailed("harness_error", f"the worker ({titles}) was still there {DEATH_TIMEOUT_S:.0f} s after SIGKILL")
    return time.monotonic_ns() / 1e9
