"""A promise that the operations log, or checks between campaigns, show broken."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from plumbline.findings import provider_finding
from plumbline.findings.types.base import Step, register
from plumbline.findings.types.failed_launches import FailedLaunches
from plumbline.metrics.formatting import format_day, format_limit, format_percent
from plumbline.results.finding import OPEN_STATES, Finding, PromisedCredit
from plumbline.words.claims import credit_amount, to_claim

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
    resolved_if = "no claim is made"
    grants_credit = True

    @classmethod
    def of(cls, judged: JudgedPromise) -> str:
        """The subject, such as `promise/availability in 2026-09`."""
        return f"{cls.subject}{judged.row.name}"

    @classmethod
    def is_of(cls, finding: Finding, judged: JudgedPromise) -> bool:
        """Whether the finding is about this promise, and the month that it is of."""
        return finding.subject == cls.of(judged)

    reason_label = "Shown by"

    def consequence(self, finding: Finding, caused: bool) -> str:
        if finding.credit is None:  # as an older version stored it
            return super().consequence(finding, caused)
        measured = f", {finding.consequence}" if finding.consequence else ""
        return f"{finding.provider} {finding.title}{measured}"

    def worth(self, finding: Finding, credit: float | None) -> str:
        if finding.credit is None or finding.state not in OPEN_STATES:
            return ""
        if finding.credit.share is None:
            return "the contract's credit is not declared (sla.credit)"
        amount = credit_amount(finding.credit.share, credit)
        if finding.credit.lapsed(datetime.now(timezone.utc).date()):
            return f"{amount}, too late to claim since {format_day(finding.credit.until)} has passed"
        return to_claim(amount, finding.credit.until)

    def about(self, finding: Finding) -> list[Step]:
        if finding.credit is None:
            return super().about(finding)
        until = finding.credit.until or "not known: declare sla.claim_within, the contract's term"
        over = " (that day has passed)" if finding.credit.lapsed(datetime.now(timezone.utc).date()) else ""
        return [("Provider", finding.provider), ("Promise", self.rest(finding)), ("Claim until", f"{until}{over}")]

    def looks(self, finding: Finding) -> list[Step]:
        return [
            (f"plumbline findings claim {finding.finding_id}", "the mail that claims the credit, with the evidence"),
            (f"plumbline promises {finding.provider}", "what was promised and measured, and what can be claimed"),
        ]

    def answers(self, finding: Finding) -> list[Step]:
        if finding.state not in OPEN_STATES:
            return []
        sent = [(f"plumbline findings claimed {finding.finding_id} --why …", "the claim was sent")] if finding.state == "open" else []
        ends = (("credited", "its credit came"), ("refused", "the provider refused it"))
        return [
            *sent,
            *((f"plumbline findings {verb} {finding.finding_id} --why …", what) for verb, what in ends),
            *super().answers(finding),
        ]


def broken_promise_finding(provider: str, judged: JudgedPromise, claim_within_s: float | None, now: datetime, simulated: bool) -> Finding:
    """Without money, which not every reader may see. `claim_within_s`: after the end of the month of the breach."""
    row, tries = judged.row, judged.row.tries
    last = row.last or now
    last_day = judged.last_day(claim_within_s, now)
    until = "" if last_day is None else f"{last_day:%Y-%m-%d}"
    measured = ""
    if tries.promised is not None and tries.share.ratio is not None:
        measured = f"{format_percent(tries.share.ratio, 3)} instead of {format_limit(tries.promised)}"
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
        consequence=measured,
        credit=PromisedCredit(judged.grants, f"{judged.billed(now)[0]:%Y-%m}", until, shared=judged.month is None),
    )
