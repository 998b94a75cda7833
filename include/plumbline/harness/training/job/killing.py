"""Faults that kill ranks of a job."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from plumbline.harness.measurement import TrialFailed
from plumbline.harness.training.job.job import Job
from plumbline.harness.training.job.job_fault import HeldTrial, JobFault
from plumbline.harness.training.job.supervisor import KILL_TIMEOUT_S, RankProcess, wait_for_any

_TURN_S = 0.5


class KillFault(JobFault):
    """Kills ranks of the job, and ends the rest. TrialFailed if a process does not die."""

    def victims(self, job: Job) -> Sequence[RankProcess]:
        """The ranks to kill: the last one that is held."""
        return [worker for worker in job.workers if worker.spec.hold is not None][-1:]

    def strike(self, held: HeldTrial) -> tuple[float, float]:
        victims = self.victims(held.job)

        def meanwhile() -> None:
            held.report("waiting for fault detection")

        began = min(victim.kill() for victim in victims)
        noticed = _wait_until_dead(victims, began, meanwhile)
        held.job.end(meanwhile)
        return began, noticed


def _wait_until_dead(victims: Sequence[RankProcess], killed_s: float, meanwhile: Callable[[], None]) -> float:
    while not any(victim.ended for victim in victims):
        wait_for_any(victims, (), _TURN_S)
        meanwhile()
        if time.monotonic_ns() / 1e9 - killed_s > KILL_TIMEOUT_S:
            titles = ", ".join(victim.title for victim in victims)
            raise TrialFailed("harness_error", f"the worker ({titles}) was still there {KILL_TIMEOUT_S:.0f} s after SIGKILL")
    return time.monotonic_ns() / 1e9
