"""A promise that the operations log, or checks between campaigns, show broken."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from plumbline.findings import provider_finding
from plumbline.findings.types.base import Step, register
from plumbline.findings.types.failed_launches import FailedLaunches
from plumbline.results.finding import Finding

if TYPE_CHECKING:
    from plumbline.declarations.promises import JudgedPromise


@register
class BrokenPromise(FailedLaunches):
    id = "broken_promise"
    subject = "promise/"
    order = 29
    usual = False
    noun = "broken promise"
    advice = "Claim from"
    resolved_if = "claimed and credited, or waived"

    @classmethod
    def of(cls, judged: JudgedPromise) -> str:
        """The subject, such as `promise/availability in 2026-09`."""
        return f"{cls.subject}{judged.row.name}"

    @classmethod
    def is_of(cls, finding: Finding, judged: JudgedPromise) -> bool:
        """Whether the finding is about this promise, and the month that it is of."""
        return finding.subject == cls.of(judged)

    def looks(self, finding: Finding) -> list[Step]:
        return [(f"plumbline findings claim {finding.finding_id}", "the mail that claims the credit, with the evidence")]


def broken_promise_finding(provider: str, judged: JudgedPromise, now: datetime, simulated: bool) -> Finding:
    """Without money, which not every reader may see."""
    row = judged.row
    last = row.last or now
    noted = (
        "It was noted in the operations log."
        if row.evidence
        else "Checks between campaigns showed it; `plumbline availability` lists them."
    )
    return provider_finding(
        provider,
        "reliability",
        BrokenPromise.of(judged),
        began="" if judged.month is not None else f"{last:%Y-%m}",
        since=f"{last:%Y-%m-%d}",
        severity="warn",
        title=f"broke its promise of {row.name}",
        evidence=row.sentence,
        explanation=noted,
        simulated=simulated,
    )
