"""A driver, machine or software that changed: seen by a campaign's trials, or by a check between campaigns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plumbline.findings.phrases import format_begin, on_provider, titled, without_share
from plumbline.findings.types.base import FindingType, Step, register
from plumbline.findings.types.performance import baseline_purpose, compared_with_baseline
from plumbline.results.finding import Finding

if TYPE_CHECKING:
    from plumbline.analysis.drift.comparison import Comparison


@register
class EnvironmentFinding(FindingType):
    id = "environment"
    kinds = ("environment",)
    subject = "environment"
    order = 50
    usual = True
    noun = "environment change"
    accepting = "baseline"
    accept_label = "Accept as new baseline"
    reject_label = "Reject: the baseline stays"
    accepted_as = "NEW BASELINE"
    reruns = True
    explains = True
    recovered = "shows the facts of the baseline again"

    def cause(self, finding: Finding) -> str:
        causes = finding.causes or [without_share(m.fact) for m in finding.members]
        return f"{on_provider(causes, finding.provider)} since {format_begin(finding)}" if causes else ""

    def consequence(self, finding: Finding, caused: bool) -> str:
        return finding.consequence if caused else titled(finding, caused)

    def has_recovered(self, known: Finding, now: Comparison) -> bool:
        from plumbline.analysis.drift.environment import fact_name

        if now.problems:
            return False
        facts = {fact_name(m.name) for m in known.members}
        return bool(now.rows) and not any(c.matters and fact_name(c.key) in facts for c in now.environment_changes)

    def looks(self, finding: Finding) -> list[Step]:
        check = [(f"plumbline watch {finding.provider} --facts", "its hardware and software now, against the accepted facts")]
        return compared_with_baseline(finding) or check

    def accept_purpose(self, finding: Finding) -> str:
        return baseline_purpose(finding)
