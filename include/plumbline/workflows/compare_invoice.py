"""Compare an invoice's file (FOCUS 1.x, CSV) with the archive's held hours and the accepted prices."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import date, datetime, timezone
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import NamedTuple

from plumbline.analysis.cost.invoice import GPU_HOURS, HOURS, InvoiceComparison, InvoiceLine, repeated_lines
from plumbline.analysis.prices.book import all_with_effective_prices
from plumbline.answers.held_spans import held_spans
from plumbline.archive import Archive
from plumbline.declarations import Declarations
from plumbline.findings import Reconciliation
from plumbline.findings.types.invoice_difference import invoice_finding
from plumbline.judgement import Judgement
from plumbline.price_sources.csv_history import HistoryError, rows_of
from plumbline.results.compared_invoice import ComparedInvoice, ComparedSum, Difference, Uncompared, largest
from plumbline.whole_file import sha256_file
from plumbline.words.invoices import judge_invoice
from plumbline.workflows.findings import apply

_CHARGE = ("BilledCost", "BillingCurrency", "ChargeCategory", "ChargePeriodEnd", "ChargePeriodStart", "EffectiveCost")
COLUMNS = (*_CHARGE, "PricingQuantity", "PricingUnit", "RegionId", "ResourceId", "ServiceName", "SkuId")
_CATEGORIES = ("Usage", "Purchase", "Tax", "Credit", "Adjustment")


class InvoiceResult(NamedTuple):
    """`matched`: lines that name a declared instance type and are billed by the hour, of all `lines`; `compared`: their sums. `sha256`: of the file.
    `days`: those that its lines cover, the second excluded."""

    lines: int
    matched: int
    days: tuple[date, date] | None
    compared: tuple[ComparedSum, ...]
    differences: tuple[Difference, ...]
    uncompared: tuple[Uncompared, ...]
    judgement: Judgement
    sha256: str


def invoice_lines(path: Path) -> Iterator[InvoiceLine]:
    """The file's lines, one at a time. HistoryError with line, column and expected shape for one that cannot be read."""
    for number, cells in rows_of(path, COLUMNS):
        row = {column: (cell or "").strip() for column, cell in cells.items() if isinstance(column, str)}

        def wrong(column: str, expected: str, number: int = number, row: dict[str, str] = row) -> HistoryError:
            return HistoryError(f'{path}:{number}, {column} is "{row[column]}"; expected {expected}')

        if len(row) != len(cells) or None in cells.values():
            raise HistoryError(f"{path}:{number} has not as many columns as the header; expected quotes around a value with a comma")
        if row["ChargeCategory"] not in _CATEGORIES:
            raise wrong("ChargeCategory", f"one of {', '.join(_CATEGORIES)}")
        usage = row["ChargeCategory"] == "Usage"
        by_hour = usage and row["PricingUnit"].lower() in (*HOURS, *GPU_HOURS)
        numbers, moments = {}, []
        for column in ("EffectiveCost" if usage else "BilledCost", *(["PricingQuantity"] if by_hour else [])):
            try:
                numbers[column] = Decimal(row[column])
            except InvalidOperation:
                raise wrong(column, "a number such as 98.32, without a currency") from None
            if not numbers[column].is_finite() or (column == "PricingQuantity" and numbers[column] < 0):
                raise wrong(column, "a finite number, at least 0 of a quantity")
        for column in ("ChargePeriodStart", "ChargePeriodEnd"):
            try:
                moment = datetime.fromisoformat(row[column].replace("Z", "+00:00"))
            except ValueError:
                raise wrong(column, "a time such as 2026-11-01T00:00:00Z") from None
            moments.append(moment.astimezone(timezone.utc) if moment.tzinfo else moment.replace(tzinfo=timezone.utc))
        if moments[1] <= moments[0]:
            raise wrong("ChargePeriodEnd", "a time after ChargePeriodStart")
        cost = numbers["EffectiveCost" if usage else "BilledCost"]
        yield InvoiceLine(number, row, moments[0], moments[1], cost, numbers.get("PricingQuantity"))


def compare_invoice(archive: Archive, declared: Declarations, path: Path, names: Collection[str], slack_h: float) -> InvoiceResult:
    """`names`: the declared providers that count; all if empty. HistoryError for a file that cannot be read."""
    chosen = [provider for name, provider in sorted(declared.providers.items()) if not names or name in names]
    priced = all_with_effective_prices(chosen, archive.prices([provider.name for provider in chosen]))
    found = InvoiceComparison(list(priced.values()), repeated_lines(invoice_lines(path)), slack_h)
    for line in invoice_lines(path):
        found.add(line)
    # Of a simulated provider no vendor bills, unless the file itself names it.
    names = [name for name, p in priced.items() if found.matched or not p.simulated]
    held = [] if found.days is None else [span for name in names for span in held_spans(archive, name, found.days[0])]
    differences, uncompared = found.differences(held), found.uncompared
    judgement = judge_invoice(found.lines, found.matched, differences, uncompared)
    return InvoiceResult(found.lines, found.matched, found.days, found.compared, differences, uncompared, judgement, sha256_file(path))


def record_invoice(
    archive: Archive, declared: Declarations, invoice: str, found: InvoiceResult, asked: Collection[str] = (), by: str = "invoice"
) -> tuple[str, ...]:
    """Store the comparison, and open a finding for each difference, once; the ids of new ones. What is of no provider is of this installation.

    `invoice`: the file's name. Next month's file may have the same one, so findings are known by its content. `asked`: the providers that
    were compared, all if empty."""
    today = datetime.now(timezone.utc).date()
    simulated = {name for name, provider in declared.providers.items() if provider.simulated}
    findings = [
        # A bill that names no declared provider may be of any: that it does not bill a provider's trials is no finding about that one.
        invoice_finding(each, invoice, found.sha256, today, each.provider in simulated)
        if found.matched or each.kind != "trials_not_billed"
        else None
        for each in found.differences
    ]
    opened = apply(archive, Reconciliation(opened=tuple(each for each in findings if each is not None)), by="invoice", seen_in=invoice)
    first, after = found.days or (None, None)
    billed = {each.provider for each in found.compared}
    archive.save_compared_invoice(
        ComparedInvoice(
            file=invoice,
            sha256=found.sha256,
            asked=tuple(sorted(asked)),
            first=first,
            after=after,
            lines=found.lines,
            matched=found.matched,
            compared=found.compared,
            differences=found.differences,
            uncompared=largest(found.uncompared),
            findings=tuple("" if each is None else each.finding_id for each in findings),
            simulated=bool(billed) and billed <= simulated,
        ),
        by=by,
    )
    return opened
