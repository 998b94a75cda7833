"""Planned trials of a campaign that left no result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plumbline.findings.phrases import titled
from plumbline.findings.types.base import FindingType, Step, register
from plumbline.results.finding import Finding

if TYPE_CHECKING:
    from plumbline.analysis.drift.comparison import Comparison


@register
class MissingTrials(FindingType):
    id = "missing_trials"
    kinds = ("missing_data",)
    subject = "trials"
    order = 40
    usual = True
    noun = "gap in the data"
    nouns = "gaps in the data"
    missing = True
    members_title = "missing"
    recovered = "reports again"

    def consequence(self, finding: Finding, caused: bool) -> str:
        return titled(finding, caused, dated=finding.since is not None)

    def looks(self, finding: Finding) -> list[Step]:
        if finding.campaigns:
            return [(f"plumbline scorecard {finding.campaigns[-1]}", "what its last campaign with results measured, and what is missing")]
        return [("plumbline campaigns", "the campaigns, with planned and usable trials")]

    def has_recovered(self, known: Finding, now: Comparison) -> bool:
        return now.reliability.attempts > 0 and not now.reliability.missing
