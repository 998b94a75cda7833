"""Trials that a provider's budget left out."""

from __future__ import annotations

from plumbline.findings.types.base import Step, register
from plumbline.findings.types.missing_trials import MissingTrials
from plumbline.results.finding import Finding


@register
class SpentBudget(MissingTrials):
    id = "spent_budget"
    subject = "budget"
    usual = False
    order = 42
    noun = "spent budget"
    resolved_if = "raised, or left until the next month"

    def looks(self, finding: Finding) -> list[Step]:
        return [(f"plumbline budget {finding.provider}", "what is used and left of it")]
