"""Invoices that were compared: which agree, differ or were not shown to, the largest differences first, and the finding that each opened."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from shlex import join

from plumbline.archive import Archive
from plumbline.declarations import Declarations
from plumbline.judgement import Judgement
from plumbline.metrics.formatting import format_count, format_name, join_words
from plumbline.results.compared_invoice import ComparedInvoice, ComparedInvoiceView, Difference, Uncompared
from plumbline.words.invoices import difference_text, invoice_judgement

COMPARE = "plumbline cost reconcile INVOICE.csv --record"
STATES = {"broken": "differs", "not_shown": "not shown", "met": "agrees"}
"""What a verdict says of an invoice."""


@dataclass(frozen=True)
class DifferenceLine:
    """`more`: what the invoice has more than expected, in `currency`; less is negative, null has no amount. `first_line`: of the file. `state`: of the
    finding that it opened, both empty where it opened none."""

    kind: str
    provider: str
    currency: str
    more: Decimal | None
    text: str
    lines: int
    first_line: int | None
    detail: str
    finding_id: str
    state: str


@dataclass(frozen=True)
class InvoiceSums:
    """Of one currency: what was billed in lines that were compared and in those that were not, and the sums of what is over and under."""

    currency: str
    compared: Decimal
    uncompared: Decimal
    over: Decimal
    under: Decimal


@dataclass(frozen=True)
class InvoiceView:
    """One compared invoice. `period`: the days of its lines, in words. `providers`: those that compared lines are of. `command`: compares it again.
    `selected`: which lines were compared and what the others cost, empty of a whole file."""

    file: str
    sha256: str
    period: str
    providers: tuple[str, ...]
    simulated: bool
    compared_at: datetime
    compared_by: str
    lines: int
    matched: int
    judgement: Judgement
    sums: tuple[InvoiceSums, ...]
    differences: tuple[DifferenceLine, ...]
    uncompared: tuple[Uncompared, ...]
    command: str
    selected: str = ""

    @property
    def state(self) -> str:
        return STATES[self.judgement.verdict]


@dataclass(frozen=True)
class InvoiceList:
    """`summary`: of all. `invoices`: what differs most first, then what is not shown, then what agrees. `without`: enabled providers that no compared
    line is of."""

    summary: str
    invoices: tuple[InvoiceView, ...]
    without: tuple[str, ...]


def invoice_list(archive: Archive, declared: Declarations) -> InvoiceList:
    """Every invoice whose comparison is stored; an archive from before that has none."""
    views = [_view(archive, each) for each in archive.compared_invoices()]
    # Stable: of equal ones the last compared stays first.
    views.sort(key=lambda view: (list(STATES).index(view.judgement.verdict), -_moved(view)))
    billed = {name for view in views for name in view.providers}
    without = tuple(sorted(provider.name for provider in declared.enabled_providers() if provider.name not in billed))
    return InvoiceList(_summary(views), tuple(views), without)


def _view(archive: Archive, stored: ComparedInvoiceView) -> InvoiceView:
    invoice = stored.invoice
    lines = [_line(archive, *each) for each in zip(invoice.differences, invoice.findings, strict=True)]
    asked = [word for name in invoice.asked for word in ("--provider", name)]
    return InvoiceView(
        file=invoice.file,
        sha256=invoice.sha256,
        period=_period(invoice),
        providers=tuple(dict.fromkeys(each.provider for each in invoice.compared)),
        simulated=invoice.simulated,
        compared_at=stored.compared_at,
        compared_by=stored.compared_by,
        lines=invoice.lines,
        matched=invoice.matched,
        judgement=invoice_judgement(invoice),
        sums=_sums(invoice),
        differences=tuple(sorted(lines, key=lambda line: -abs(line.more or Decimal()))),
        uncompared=invoice.uncompared,
        command=f"plumbline cost reconcile {join([invoice.file, *asked, *invoice.selection])} --record",
        selected=selection_text(invoice.selection, invoice.left_out),
    )


def selection_text(selection: Sequence[str], left_out: Sequence[Uncompared]) -> str:
    """Which lines were compared and what the others cost, such as `only lines of --account bench; not selected: 90.00 USD in 1 line`; empty of a whole
    file. `selection`: the options."""
    if not selection:
        return ""
    others = "; ".join(f"{each.cost:,.2f} {each.currency} in {format_count(each.lines, 'line')}" for each in left_out)
    return f"only lines of {join(selection)}; not selected: {others or 'none'}"


def _line(archive: Archive, d: Difference, finding_id: str) -> DifferenceLine:
    state = ""
    if finding_id:
        with suppress(LookupError):
            state = archive.finding(finding_id).state
    more = d.cost if d.cost else None
    text = difference_text(d)
    return DifferenceLine(d.kind, d.provider, d.currency, more, text, d.count, d.line, d.detail, finding_id if state else "", state)


def _period(invoice: ComparedInvoice) -> str:
    """A whole month by its name, else the first and the last day."""
    if invoice.first is None or invoice.after is None:
        return "no line"
    last = invoice.after - timedelta(days=1)
    if (invoice.first.day, invoice.after.day) == (1, 1) and invoice.first.month == last.month and invoice.first.year == last.year:
        return f"{invoice.first:%Y-%m}"
    return str(invoice.first) if invoice.first == last else f"{invoice.first} … {last}"


def _sums(invoice: ComparedInvoice) -> tuple[InvoiceSums, ...]:
    rows = [*((each.currency, "compared", each.cost) for each in invoice.compared)]
    rows += ((each.currency, "uncompared", each.cost) for each in invoice.uncompared)
    rows += ((each.currency, "over" if each.cost > 0 else "under", each.cost) for each in invoice.differences if each.cost)
    sums: dict[str, dict[str, Decimal]] = defaultdict(lambda: dict.fromkeys(("compared", "uncompared", "over", "under"), Decimal()))
    for currency, name, cost in rows:
        sums[currency][name] += cost
    return tuple(InvoiceSums(currency, **found) for currency, found in sorted(sums.items()))


def _moved(view: InvoiceView) -> Decimal:
    return sum((abs(line.more or Decimal()) for line in view.differences), Decimal())


def _summary(views: Sequence[InvoiceView]) -> str:
    if not views:
        return ""
    counts = {verdict: sum(view.judgement.verdict == verdict for view in views) for verdict in STATES}
    parts = []
    if counts["broken"]:
        parts.append(
            f"{counts['broken']} of {format_count(len(views), 'invoice')} {'differs' if counts['broken'] == 1 else 'differ'}{_amounts(views)}"
        )
    if counts["not_shown"]:
        parts.append(f"{counts['not_shown']} not shown to agree")
    if counts["met"]:
        parts.append(f"{counts['met']} {'agrees' if counts['met'] == 1 else 'agree'}")
    return "; ".join(parts)


def _amounts(views: Iterable[InvoiceView]) -> str:
    """What is over and under in all that differ: a file that was compared twice counts once."""
    once = {
        (view.sha256, line.kind, line.provider, line.currency): line.more
        for view in views
        if view.judgement.verdict == "broken"
        for line in view.differences
        if line.more
    }
    sums: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for (*_, currency), more in once.items():
        sums["more" if more > 0 else "less", currency] += abs(more)
    texts = [f"{amount:,.2f} {currency} {side} than expected" for (side, currency), amount in sorted(sums.items(), reverse=True)]
    return f", {join_words(texts)}" if texts else ""


COLUMNS = ("Lines compared", "Compared", "Not compared", "Over", "Under")
DIFFERENCE_COLUMNS = ("Difference", "Provider", "Over or under", "Lines", "First one")


def invoice_cells(view: InvoiceView) -> tuple[str, ...]:
    """Under `COLUMNS`: sums with their currency."""

    def sums(name: str) -> str:
        found = [(abs(getattr(each, name)), each.currency) for each in view.sums]
        shown = [f"{amount:,.2f} {currency}" for amount, currency in found if amount]
        return "; ".join(shown) or ("0.00" if name == "compared" and view.matched else "–")

    return f"{view.matched:,} of {view.lines:,}", *map(sums, ("compared", "uncompared", "over", "under"))


def difference_cells(line: DifferenceLine) -> tuple[str, ...]:
    """Under `DIFFERENCE_COLUMNS`."""
    amount = "–" if line.more is None else f"{line.more:+,.2f} {line.currency}".replace("-", "−")
    lines = "no line" if line.first_line is None else f"{format_count(line.lines, 'line')}, first {line.first_line}"
    return format_name(line.kind), line.provider or "no provider", amount, lines, line.detail
