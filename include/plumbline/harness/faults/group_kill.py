"""The fault group_kill: all ranks of the first node are killed, like the loss of a machine."""

from __future__ import annotations

from collections.abc import Sequence

from plumbline.declarations.workloads import faults
from plumbline.harness.training.fault import register
from plumbline.harness.training.job.job import Job
from plumbline.harness.training.job.killing import KillFault
from plumbline.harness.training.job.supervisor import RankProcess


@register
class GroupKill(KillFault):
    name, event = "group_kill", faults.GroupKill.event

    def victims(self, job: Job) -> Sequence[RankProcess]:
        return job.workers
