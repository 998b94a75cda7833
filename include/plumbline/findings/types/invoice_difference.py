"""Lines of a bill that differ from what the declared prices and the archive's trials say."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from plumbline.findings import provider_finding
from plumbline.findings.types.base import Step, register
from plumbline.findings.types.installation import INSTALLATION
from plumbline.findings.types.price_change import AboutMoney
from plumbline.metrics.formatting import format_count, format_name
from plumbline.results.finding import Finding
from plumbline.words.invoices import difference_text

if TYPE_CHECKING:
    from plumbline.results.compared_invoice import Difference


@register
class InvoiceDifference(AboutMoney):
    id = "invoice_difference"
    subject = "invoice "
    order = 24
    noun = "difference on an invoice"
    nouns = "differences on invoices"
    advice = "Ask about the invoice of"
    resolved_if = "credited, or explained"

    def cause(self, finding: Finding) -> str:
        return f"{finding.provider}: {finding.title}"

    def looks(self, finding: Finding) -> list[Step]:
        return [
            ("plumbline cost invoices", "every compared invoice: what differs, and what was not compared"),
            ("plumbline cost month", "what the archive's trials and the prices in force say was paid"),
        ]


def invoice_finding(difference: Difference, invoice: str, days: tuple[date, date] | None, on: date, simulated: bool) -> Finding:
    """Known by what is billed: the `days` that the invoice covers (the second excluded), provider, kind and amount of the difference. The file's name
    `invoice` is only shown: next month's may have the same one, and a copy another. What is of no provider is of this installation."""
    d = difference
    amount = difference_text(d)
    return provider_finding(
        d.provider or INSTALLATION,
        "price",
        f"{InvoiceDifference.subject}{d.kind}{'' if d.currency == 'USD' else f' {d.currency}'}",
        # Not the line, nor what it says: the same bill in another order is the same bill.
        began="/".join(map(str, (*(days or ()), d.currency, d.cost.normalize(), d.count))),
        since=str(on),
        severity="warn",
        title=f"invoice {invoice}: {format_name(d.kind)}, {format_count(d.count, 'time')}"
        + (f", first in line {d.line}" if d.line else ""),
        explanation=f"{amount}; {d.detail}",
        consequence=amount,
        simulated=simulated,
    )
