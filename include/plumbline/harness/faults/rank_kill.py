"""The fault rank_kill: a rank is killed in the middle of a step."""

from __future__ import annotations

from plumbline.declarations.workloads import faults
from plumbline.harness.training.fault import register
from plumbline.harness.training.job.killing import KillFault


@register
class RankKill(KillFault):
    name, event = "rank_kill", faults.RankKill.event
