"""The fault checkpoint_kill: a rank is killed half way through writing a checkpoint."""

from __future__ import annotations

from plumbline.declarations.workloads import faults
from plumbline.harness.training.fault import register
from plumbline.harness.training.job.killing import KillFault


@register
class CheckpointKill(KillFault):
    name, event = "checkpoint_kill", faults.CheckpointKill.event
