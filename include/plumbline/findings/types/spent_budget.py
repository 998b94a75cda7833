"""Trials that a provider's budget left out."""

from __future__ import annotations

from plumbline.findings.types.base import register
from plumbline.findings.types.missing_trials import MissingTrials


@register
class SpentBudget(MissingTrials):
    id = "spent_budget"
    subject = "budget"
    usual = False
