"""An invoice in words: the judgement, and what it has more or less than expected."""

from __future__ import annotations

from collections.abc import Sequence

from plumbline.judgement import Judgement, broken, judges, met, not_shown
from plumbline.metrics.formatting import format_count, shorten
from plumbline.results.compared_invoice import ComparedInvoice, Difference, Uncompared


@judges("invoice")
def judge_invoice(lines: int, matched: int, differences: Sequence[Difference], uncompared: Sequence[Uncompared]) -> Judgement:
    """`uncompared`: by name, the largest first. A sum that was not compared is no agreement, even beside lines that agree."""
    seen = f"{matched:,} of {format_count(lines, 'line')} compared"
    largest = shorten(f"{each.name} {each.cost:,.2f} {each.currency}" for each in uncompared)
    if not matched:
        held = [each.provider for each in differences if each.kind == "trials_not_billed"]
        words = f"; trials held, and not billed here: {shorten(held)}" if held else ""
        missing = f"nothing was compared{f', the largest sums are of {largest}' if largest else ''}{words}"
        return not_shown(seen, missing, "lines by the hour that name the instance type of a declared provider")
    if differences:
        return broken(f"{seen}, {format_count(len(differences), 'difference')}")
    if any(each.cost for each in uncompared):
        return not_shown(f"{seen}, which agree", f"not compared: {largest}", "a declared price of what these lines are for")
    return met(f"{seen}, which agree" + (f"; not compared, without cost: {largest}" if uncompared else ""))


def invoice_judgement(invoice: ComparedInvoice) -> Judgement:
    """Of a stored comparison, the same as on the day it was made."""
    return judge_invoice(invoice.lines, invoice.matched, invoice.differences, invoice.uncompared)


def difference_text(difference: Difference) -> str:
    """How much more or less the invoice has, such as `248.00 USD more than expected`."""
    if not difference.cost:
        return "no amount of its own"
    return f"{abs(difference.cost):,.2f} {difference.currency} {'more' if difference.cost > 0 else 'less'} than expected"
