"""Reserved hours that end soon; resolved by a renewal or with their end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from plumbline.findings import Reconciliation, provider_finding
from plumbline.findings.types.base import Step, register
from plumbline.findings.types.price_change import AboutMoney
from plumbline.results.finding import EndingHours, Finding
from plumbline.words.commitments import end_text, renewal_text, renewal_verdict

if TYPE_CHECKING:
    from plumbline.analysis.cost.commitments import Commitment


@register
class EndingCommitment(AboutMoney):
    id = "commitment"
    subject = "commitment "
    order = 22
    noun = "reservation that ends"
    nouns = "reservations that end"
    advice = "Renew or let end the reservation of"
    resolved_if = "renewed, or left to end"

    def cause(self, finding: Finding) -> str:
        return f"{finding.provider}: {finding.title}"

    def looks(self, finding: Finding) -> list[Step]:
        return [("plumbline cost commitments", "hours reserved, used and ahead, and the price below which renewing pays")]


def reconcile_commitments(
    provider: str, found: Sequence[Commitment], open_findings: Sequence[Finding], expires_within_s: float, simulated: bool
) -> Reconciliation:
    """`found`: of all contracts that the provider names. One that several providers share is a finding of the first."""
    known = {f.subject: f for f in open_findings if EndingCommitment.has(f)}
    own = {f"{EndingCommitment.subject}{c.contract} until {c.until}": c for c in found if c.providers[0] == provider}
    limit = timedelta(seconds=expires_within_s)
    near = {s: c for s, c in own.items() if c.running and not c.renewed and c.until - c.on <= limit}
    now = {
        subject: provider_finding(
            provider,
            "price",
            subject,
            began=str(c.until),
            since=str(c.on),
            severity="warn",
            title=f"reserved hours of {c.contract} end on {c.until}",
            explanation=_explanation(c),
            consequence=renewal_verdict(c),
            simulated=simulated,
            ending=EndingHours(str(c.until), c.paid_usd, c.renewing_usd),
        )
        for subject, c in near.items()
    }
    over = {
        s: f"resolved: end {end_text(own[s])}" if s in own else "resolved: no such hours are declared" for s in known.keys() - near.keys()
    }
    again = {s: replace(now[s], since=known[s].since, state=known[s].state) for s in near if s in known}
    return Reconciliation(
        tuple(finding for subject, finding in now.items() if subject not in known),
        tuple(finding for subject, finding in again.items() if _moved(finding, known[subject])),
        tuple((known[s], why) for s, why in over.items()),
        tuple(known[s] for s, finding in again.items() if not _moved(finding, known[s])),
    )


def _moved(now: Finding, known: Finding) -> bool:
    """Whether what it says changed; an older version stored no amounts."""
    return now.consequence != known.consequence or known.ending is None


def _explanation(c: Commitment) -> str:
    """Money only of declared use: held hours are the trials' part, and what is ahead of a month depends on all of it."""
    from plumbline.analysis.cost.commitments import USE

    if not c.used_declared:
        return (
            f"{c.reserved_h:,.0f} h are reserved, trials held {c.used_h:,.0f} h; what renewing is worth is not known: "
            f"declare committed.used of the contract. {USE}"
        )
    return f"{c.ahead_h:,.0f} h ahead, {c.ahead_usd}; renewing pays below {renewal_text(c)}. {USE}"
