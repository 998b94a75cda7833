"""Attempts of a campaign that failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plumbline.findings.phrases import on_provider
from plumbline.findings.types.base import FindingType, Step, register
from plumbline.findings.types.performance import compared_with_baseline
from plumbline.metrics.formatting import format_name
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
        return on_provider([m.text.replace(m.name, format_name(m.name)) for m in finding.members], finding.provider)

    def looks(self, finding: Finding) -> list[Step]:
        return looks_at_attempts(finding)

    def has_recovered(self, known: Finding, now: Comparison) -> bool:
        return now.reliability.attempts > 0 and not now.reliability.failures


def looks_at_attempts(finding: Finding) -> list[Step]:
    """The command that compares its campaign's attempts with the baseline's, else the one that lists its attempts."""
    if compared := compared_with_baseline(finding):
        return compared
    if finding.campaigns:
        return [(f"plumbline scorecard {finding.campaigns[-1]} -v", "attempts and failures of its campaign")]
    return [(f"plumbline promises {finding.provider}", "its launches against what is promised")]
