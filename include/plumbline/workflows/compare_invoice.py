"""Compare an invoice's file (FOCUS 1.x, CSV) with the archive's held hours and the accepted prices."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from datetime import date, datetime, timezone
from decimal import Decimal
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from plumbline.analysis.cost.invoice import InvoiceComparison, InvoiceLine, repeated_lines
from plumbline.analysis.cost.invoice_units import billed_time
from plumbline.analysis.prices.book import all_with_effective_prices
from plumbline.answers.held_spans import held_spans
from plumbline.archive import Archive
from plumbline.declarations import Declarations
from plumbline.findings import Reconciliation
from plumbline.findings.types.invoice_difference import invoice_finding
from plumbline.formats.reading.foreign_number import MAX_NUMBER, ForeignNumber, amount, described, moment
from plumbline.formats.reading.lines import json_object
from plumbline.judgement import Judgement
from plumbline.price_sources.csv_history import HistoryError, rows_of
from plumbline.results.compared_invoice import NOT_SELECTED, ComparedInvoice, ComparedSum, Difference, Uncompared, largest
from plumbline.whole_file import sha256_file
from plumbline.words.invoices import judge_invoice
from plumbline.workflows.findings import apply

REQUIRED = ("BillingCurrency", "ChargeCategory", "ChargePeriodEnd", "ChargePeriodStart")
COLUMNS = (*REQUIRED, "BilledCost", "EffectiveCost", "PricingQuantity", "PricingUnit", "RegionId", "ResourceId", "ServiceName", "SkuId")
"""What a file usually has; FOCUS lets a vendor leave out those that do not apply."""
_CATEGORIES = {name.casefold(): name for name in ("Usage", "Purchase", "Tax", "Credit", "Adjustment")}
_NOTHING = ("null", "none", "n/a")


class Selection(NamedTuple):
    """Which lines count, where an invoice has more than what trials held: all without any. `tags`: key and value, all of them; `resource`: with
    wildcards."""

    account: str | None = None
    tags: tuple[tuple[str, str], ...] = ()
    resource: str | None = None

    @classmethod
    def of(cls, account: str | None, tags: Collection[str], resource: str | None) -> Selection:
        """As options give it. ValueError for a tag that is not KEY=VALUE."""
        if wrong := [tag for tag in tags if not re.fullmatch(r"[^=]+=.*", tag)]:
            raise ValueError(f'--tag is "{wrong[0]}"; expected KEY=VALUE')
        return cls(account, tuple((key, value) for key, _, value in (tag.partition("=") for tag in tags)), resource)

    @property
    def options(self) -> tuple[str, ...]:
        """The command's options that select these lines."""
        given = (("--account", self.account), *(("--tag", f"{key}={value}") for key, value in self.tags), ("--resource", self.resource))
        return tuple(word for name, value in given if value is not None for word in (name, value))

    def has(self, row: Mapping[str, str]) -> bool:
        """Whether a line is of the selection."""
        accounts = {row.get(name, "").casefold() for name in ("SubAccountId", "SubAccountName", "BillingAccountId")}
        if self.account is not None and self.account.casefold() not in accounts:
            return False
        named = [row.get(name, "") for name in ("ResourceId", "ResourceName")]
        if self.resource is not None and not any(fnmatchcase(name.casefold(), self.resource.casefold()) for name in named if name):
            return False
        has = json_object(row.get("Tags", "")) or {} if self.tags else {}
        return all(key in has and str(has[key]).casefold() == value.casefold() for key, value in self.tags)


_EVERYTHING = Selection()


class InvoiceResult(NamedTuple):
    """`matched`: lines that name a declared instance type and are billed by the hour, of all `lines`; `compared`: their sums. `sha256`: of the file.
    `days`: those that its lines cover, the second excluded. `selection`: the options that chose the lines; `left_out`: sums of the others."""

    lines: int
    matched: int
    days: tuple[date, date] | None
    compared: tuple[ComparedSum, ...]
    differences: tuple[Difference, ...]
    uncompared: tuple[Uncompared, ...]
    judgement: Judgement
    sha256: str
    selection: tuple[str, ...] = ()
    left_out: tuple[Uncompared, ...] = ()


def invoice_lines(path: Path) -> Iterator[InvoiceLine]:
    """The file's lines, one at a time. HistoryError with line, column and expected shape for one that cannot be read."""
    for number, cells in rows_of(path, REQUIRED):
        row = {column: _cell(cell) for column, cell in cells.items() if isinstance(column, str)}
        if len(row) != len(cells) or None in cells.values():
            raise HistoryError(f"{path}:{number} has not as many columns as the header; expected quotes around a value with a comma")
        try:
            yield _line(number, row)
        except _WrongCell as wrong:
            raise HistoryError(
                f"{path}:{number}, {wrong.column} is {described(row.get(wrong.column, ''))}; expected {wrong.expected}"
            ) from None


class _WrongCell(ValueError):
    def __init__(self, column: str, expected: str) -> None:
        super().__init__(column)
        self.column, self.expected = column, expected


def _cell(cell: str | None) -> str:
    text = (cell or "").strip()
    return "" if text.casefold() in _NOTHING else text


def _line(number: int, row: dict[str, str]) -> InvoiceLine:
    category = _CATEGORIES.get(row["ChargeCategory"].casefold())
    if category is None:
        raise _WrongCell("ChargeCategory", f"one of {', '.join(_CATEGORIES.values())}")
    row["ChargeCategory"], usage = category, category == "Usage"
    moments = [_moment(row, column) for column in ("ChargePeriodStart", "ChargePeriodEnd")]
    costs = ("EffectiveCost", "BilledCost") if usage else ("BilledCost", "EffectiveCost")
    column = next((name for name in costs if row.get(name)), None)
    cost = Decimal() if column is None else _number(row, column, "a number such as 98.32, without a currency")
    if not cost and usage and row.get("BilledCost") and not row.get("CommitmentDiscountId"):
        cost = _number(row, "BilledCost", "a number such as 98.32, without a currency")  # an export may round what was amortized to nothing
    of = "Pricing" if row.get("PricingUnit") else "Consumed"
    unit, quantity = billed_time(row.get(f"{of}Unit", "")), f"{of}Quantity"
    correction = row.get("ChargeClass", "").casefold() == "correction"
    hours = None
    if usage and unit is not None and not (correction and not row.get(quantity)):
        hours = _number(row, quantity, "a number of its unit") * unit.hours
        correction = correction or (hours < 0 and cost <= 0)
        if hours < 0 and not correction:
            raise _WrongCell(quantity, "a finite number, at least 0 of a quantity that costs something")
    if moments[1] < moments[0] or (moments[1] == moments[0] and hours is not None):
        raise _WrongCell("ChargePeriodEnd", "a time after ChargePeriodStart")
    of_gpus = unit is not None and unit.of_gpu
    return InvoiceLine(number, row, moments[0], moments[1], cost, hours, of_gpus, priced=column is not None, correction=correction)


def _number(row: Mapping[str, str], column: str, expected: str) -> Decimal:
    try:
        return amount(row.get(column, ""))
    except ForeignNumber as error:
        largest = f"{expected}, at most {MAX_NUMBER:g}"
        raise _WrongCell(column, largest if error.finite else expected) from None


def _moment(row: Mapping[str, str], column: str) -> datetime:
    """Also with a blank and the zone in words, as an export of tables writes it."""
    text = re.sub(r" ?(?:UTC|Z)$", "+00:00", row[column])
    try:
        return moment(text)
    except ForeignNumber as error:
        raise _WrongCell(column, error.expected) from None


def compare_invoice(
    archive: Archive, declared: Declarations, path: Path, names: Collection[str], slack_h: float, selection: Selection = _EVERYTHING
) -> InvoiceResult:
    """`names`: the declared providers that count; all if empty. HistoryError for a file that cannot be read."""
    chosen = [provider for name, provider in sorted(declared.providers.items()) if not names or name in names]
    priced = all_with_effective_prices(chosen, archive.prices([provider.name for provider in chosen]))
    selected = (line for line in invoice_lines(path) if selection.has(line.row))
    found = InvoiceComparison(list(priced.values()), repeated_lines(selected), slack_h)
    left_out: dict[str, tuple[int, Decimal]] = {}
    for line in invoice_lines(path):
        if selection.has(line.row):
            found.add(line)
        else:
            lines, cost = left_out.get(line.row["BillingCurrency"], (0, Decimal()))
            left_out[line.row["BillingCurrency"]] = lines + 1, cost + line.cost
    found.end()
    # Of a simulated provider no vendor bills, unless the file itself names it.
    names = [name for name, p in priced.items() if found.matched or not p.simulated]
    held = [] if found.days is None else [span for name in names for span in held_spans(archive, name, found.days[0], priced[name])]
    differences, uncompared = found.differences(held), found.uncompared
    judgement = judge_invoice(found.lines, found.matched, differences, uncompared)
    others = tuple(Uncompared(NOT_SELECTED, currency, *sums) for currency, sums in sorted(left_out.items()))
    return InvoiceResult(
        found.lines,
        found.matched,
        found.days,
        found.compared,
        differences,
        uncompared,
        judgement,
        sha256_file(path),
        selection.options,
        others,
    )


class RecordedFindings(NamedTuple):
    """Ids of an invoice's findings: `opened` by this comparison; `known` from one before, each with its state."""

    opened: tuple[str, ...]
    known: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        """What was opened and what was known, in one line; empty without any."""
        parts = [f"opened {len(self.opened)}: {', '.join(self.opened)}"] if self.opened else []
        if self.known:
            parts.append(f"knew {len(self.known)}: {', '.join(f'{name} ({state})' for name, state in self.known)}")
        return f"findings: {'; '.join(parts)}" if parts else ""


def record_invoice(
    archive: Archive, declared: Declarations, invoice: str, found: InvoiceResult, asked: Collection[str] = (), by: str = "invoice"
) -> RecordedFindings:
    """Store the comparison, and open a finding for each difference, once. What is of no provider is of this installation.

    `invoice`: the file's name, by which nothing is known: see invoice_finding. `asked`: the providers that were compared, all if empty."""
    today = datetime.now(timezone.utc).date()
    simulated = {name for name, provider in declared.providers.items() if provider.simulated}
    findings = [
        # A bill that names no declared provider may be of any: that it does not bill a provider's trials is no finding about that one.
        invoice_finding(each, invoice, found.days, today, each.provider in simulated)
        if found.matched or each.kind != "trials_not_billed"
        else None
        for each in found.differences
    ]
    named = tuple({each.finding_id: each for each in findings if each is not None}.values())
    opened = apply(archive, Reconciliation(opened=named), by="invoice", seen_in=invoice)
    known = tuple((each.finding_id, archive.finding(each.finding_id).state) for each in named if each.finding_id not in opened)
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
            selection=found.selection,
            left_out=found.left_out,
        ),
        by=by,
    )
    return RecordedFindings(opened, known)
