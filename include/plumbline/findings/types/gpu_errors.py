"""Errors of GPUs in trials of a campaign."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plumbline.findings.types.base import register
from plumbline.findings.types.failed_launches import FailedLaunches
from plumbline.results.finding import Finding

if TYPE_CHECKING:
    from plumbline.analysis.drift.comparison import Comparison


@register
class GpuErrors(FailedLaunches):
    id = "gpu_errors"
    subject = "gpu_errors"
    usual = False
    recovered = "ran without new GPU errors"

    def has_recovered(self, known: Finding, now: Comparison) -> bool:
        return now.reliability.attempts > 0 and not now.reliability.gpu_errors
