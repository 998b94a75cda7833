"""The fixtures of drift: what findings are made of."""

from __future__ import annotations

from tests.unit.analysis.drift.conftest import key, limits, noisy, outcomes, rules, sample

from plumbline.findings.headline import headline
from plumbline.results.finding import Finding

__all__ = ["key", "limits", "noisy", "outcomes", "rules", "sample", "written"]


def written(finding: Finding) -> str:
    """The finding as a message has it: headline, evidence and explanation."""
    return "\n      ".join([headline(finding), finding.evidence, finding.explanation])
