"""Attempts of a campaign that failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plumbline.findings.phrases import on_provider
from plumbline.findings.types.base import FindingType, register
from plumbline.results.finding import Finding

if TYPE_CHECKING:
    from plumbline.analysis.drift.comparison import Comparison


@register
class FailedLaunches(FindingType):
    id = "failed_launches"
    kinds = ("reliability",)
    subject = "launches"
    order = 30
    usual = True
    noun = "reliability problem"
    claimable = True
    recovered = "ran without a failed attempt"

    def cause(self, finding: Finding) -> str:
        return on_provider([m.text for m in finding.members], finding.provider)

    def has_recovered(self, known: Finding, now: Comparison) -> bool:
        return now.reliability.attempts > 0 and not now.reliability.failures
