"""Invoice lines (FOCUS 1.x) against held hours and accepted prices. Lines come one at a time, twice: first 8 bytes of each are kept."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Annotated, NamedTuple

import numpy as np

from plumbline.analysis.prices.book import prices_in_force, quote
from plumbline.declarations import Provider
from plumbline.declarations.providers.rates import Purchase
from plumbline.formats.reading.pattern import Pattern, compiled
from plumbline.metrics.units import MONEY
from plumbline.results.compared_invoice import OTHERS, ComparedSum, Difference, Uncompared

_NAMING = ("SkuId", "SkuMeter", "SkuPriceDetails", "ResourceId", "ResourceName", "ResourceType", "ServiceName", "ChargeDescription")
"""Columns of FOCUS that may name an instance type, beside a vendor's own (`x_…`)."""
_IDENTITY = (
    *("SkuId", "ChargePeriodStart", "ChargePeriodEnd", "PricingQuantity", "ConsumedQuantity", "BilledCost", "ChargeDescription"),
    *("ChargeCategory", "CommitmentDiscountId", "CommitmentDiscountStatus", "SubAccountId", "Tags"),
)
_PURCHASES: Mapping[str, Purchase] = {"Dynamic": "spot", "Committed": "reserved"}
_WORDS = ("SkuMeter", "ChargeDescription", "ServiceName", "SkuId")
"""Columns that say in the file's own words what a line is for, the plainest first."""
_KINDS_KEPT = 10_000
_MARKETPLACE = re.compile(r"\bmarketplace\b", re.IGNORECASE)
_GPU_PART = re.compile(r"\bGPU\b", re.IGNORECASE)
_CENT, _MINUTE_H = Decimal("0.01"), 1 / 60
_PLACES = 6
"""Decimal places of a difference: shares of hours are binary fractions."""


class InvoiceLine(NamedTuple):
    """`row`: by column. `cost`: in the billing currency; of usage the effective one; 0 and not `priced` of a file without costs. `hours`: of
    instances, or with `of_gpus` of single ones; None of what is no time. `correction`: of a line before, whose quantity may be negative or missing."""

    number: int
    row: Mapping[str, str]
    start: datetime
    end: datetime
    cost: Annotated[Decimal, MONEY]
    hours: Decimal | None
    of_gpus: bool = False
    priced: bool = True
    correction: bool = False

    @property
    def identity(self) -> int:
        """Equal for equal lines of one resource."""
        return hash((self.row.get("ResourceId"), *(self.row.get(column) for column in _IDENTITY)))


def repeated_lines(lines: Iterable[InvoiceLine]) -> frozenset[int]:
    """Identities that several lines have. Two instances without a resource's name have equal lines: these are left out."""
    values, counts = np.unique(np.fromiter((line.identity for line in lines if line.row.get("ResourceId")), np.int64), return_counts=True)
    return frozenset(values[counts > 1].tolist())


class _Billed:
    """Hours, cost by currency and the first line of some days."""

    def __init__(self, line: int | None) -> None:
        self.line, self.hours = line, 0.0
        self.costs: dict[str, Decimal] = {}

    def add(self, hours: float, currency: str, cost: Decimal) -> None:
        self.hours += hours
        self.costs[currency] = self.costs.get(currency, Decimal()) + cost

    def with_those_of(self, other: _Billed) -> _Billed:
        """Both as one, with the first line of this one."""
        for currency, cost in other.costs.items():
            self.add(0.0, currency, cost)
        self.hours += other.hours
        return self


def _days(line: InvoiceLine) -> tuple[date, date]:
    """The first day of a line, and the one after its last."""
    return line.start.date(), max((line.end - timedelta(microseconds=1)).date(), line.start.date()) + timedelta(days=1)


def _in_region(row: Mapping[str, str], provider: Provider, *, unknown: bool = False) -> bool:
    """Whether a line is of the provider's place, in any case of letters. `unknown`: what is said of a line that names no region."""
    region = row.get("RegionId", "").casefold()
    return region in {name.casefold() for name in (provider.region, provider.zone) if name} if region else unknown


def _naming(provider: Provider) -> Pattern:
    """Lines that name an instance type, with any separators and without Azure's prefix, or that match what is declared."""
    words = [re.escape(word) for word in re.split(r"[-_]+", provider.instance_type.removeprefix("Standard_"))]
    own = rf"(?<![a-z0-9.-])(?:Standard[-_ ])?{'[-_ ]+'.join(words)}(?![\w.-])"
    return compiled(own if provider.invoice is None else f"{own}|{provider.invoice.match}", ignore_case=True)


def _part_naming(provider: Provider) -> re.Pattern[str]:
    """Lines of the cores, the memory and the GPUs of a provider's machine family and product."""
    family = re.escape(provider.instance_type.partition("-")[0])
    product = re.search(r"[A-Z]+\d+[A-Z]*", provider.accelerator.product or "")
    gpu = rf"|\b{product[0]}\b.*\bGPU\b" if product is not None else ""
    return re.compile(rf"(?<![\w.-]){family}\b[\w ]*\binstance (?:core|ram)\b{gpu}", re.IGNORECASE)


def _hourly(provider: Provider, purchase: Purchase, first: date, after: date) -> tuple[Decimal, Decimal, str]:
    """The least and the most that an hour cost on these days, in USD, and the prices in words."""
    held = [p for p in prices_in_force(provider, purchase) if p.since < after and (p.until is None or p.until > first)]
    if len(held) > 1:
        prices = [Decimal(repr(float(p.price))) for p in held]
        return min(prices), max(prices), ", then ".join(str(p.price) for p in held)
    quoted = quote(provider, first, purchase)
    price = Decimal() if quoted.basis is None else Decimal(repr(quoted.basis.usd_per_hour))
    return price, price, str(quoted.basis or quoted.reason)


def _rounded(cost: Decimal) -> Decimal:
    exponent = cost.as_tuple().exponent
    return round(cost, _PLACES).normalize() if isinstance(exponent, int) and exponent < -_PLACES else cost


class HeldSpan(NamedTuple):
    """Instance-hours that a trial held between two moments."""

    trial_id: str
    provider: str
    start: datetime
    end: datetime
    hours: float

    def within(self, first: date, after: date) -> float:
        """The hours of it on these days (UTC)."""
        opens, closes = (datetime.combine(day, time(), timezone.utc) for day in (first, after))
        inside = (min(closes, self.end) - max(opens, self.start)).total_seconds()
        return self.hours * max(0.0, inside) / max((self.end - self.start).total_seconds(), 1e-9)


class _Parts:
    """An instance that is billed in parts, as Google's cores, memory and GPUs are: hours of its GPUs, the cost of all, its first line."""

    def __init__(self, line: InvoiceLine) -> None:
        self.first, self.lines = line, 0
        self.gpu_hours = self.cost = Decimal()
        self.priced = True


class InvoiceComparison:
    """`providers`: at effective prices. `repeated`: of `repeated_lines`. `slack_h`: hours a trial that an instance may be billed longer than it was held."""

    def __init__(self, providers: Sequence[Provider], repeated: frozenset[int], slack_h: float) -> None:
        self.lines = self.matched = 0
        self._first, self._after = date.max, date.min
        self._uncompared: dict[tuple[str, str], tuple[int, Decimal]] = {}
        self._slack_h, self._repeated = slack_h, repeated
        self._named = [(_naming(p), p) for p in providers]
        self._in_parts = [(_part_naming(p), p) for p in providers if p.cloud == "gcp" and p.accelerator.product is not None]
        self._columns: tuple[str, ...] = ()
        self._header: tuple[str, ...] = ()
        self._seen: set[int] = set()
        self._parts: dict[tuple[str, datetime, datetime, tuple[str, ...]], _Parts] = {}
        self._hourly: dict[tuple[str, Purchase, date, date], tuple[Decimal, Decimal, str]] = {}
        self._differences: dict[tuple[str, str, str], Difference] = {}
        self._compared: dict[tuple[str, str], tuple[int, Decimal]] = {}
        self._billed: dict[tuple[str, date, date], _Billed] = {}

    @property
    def days(self) -> tuple[date, date] | None:
        """The days that lines cover, compared or not; None without any."""
        return (self._first, self._after) if self.lines else None

    @property
    def uncompared(self) -> tuple[Uncompared, ...]:
        """The largest sums first."""
        found = (Uncompared(name, currency, *sums) for (name, currency), sums in self._uncompared.items())
        return tuple(sorted(found, key=lambda each: (-abs(each.cost), each.name)))

    @property
    def compared(self) -> tuple[ComparedSum, ...]:
        """By provider and currency."""
        return tuple(ComparedSum(*key, *sums) for key, sums in sorted(self._compared.items()))

    def add(self, line: InvoiceLine) -> None:
        """Take one line."""
        row, currency, category = line.row, line.row["BillingCurrency"], line.row["ChargeCategory"]
        text = self._text(row)
        named = self._provider(row, text)
        provider = named or self._part_of(row, text)
        self.lines += 1
        first, after = _days(line)
        self._first, self._after = min(self._first, first), max(self._after, after)
        name = "" if provider is None else provider.name
        if category in ("Tax", "Credit", "Adjustment"):
            self._differ(category.lower(), name, line.cost, line.number, f"{line.cost:,.2f} {currency} beside the prices", currency)
        elif line.correction and provider is not None:
            self._differ("correction", name, line.cost, line.number, f"{line.cost:,.2f} {currency} for what was billed before", currency)
            return
        elif provider is not None and category == "Usage" and row.get("CommitmentDiscountStatus", "").casefold() == "unused":
            words = f"{line.cost:,.2f} {currency} of {row.get('CommitmentDiscountId') or 'a commitment'} that nothing used"
            self._differ("unused_commitment", name, line.cost, line.number, words, currency)
            return
        if provider is None or category not in ("Usage", "Purchase"):
            self._leave_out(line)
        elif category == "Purchase":
            self._leave_out(line, "bought: ")
        elif _MARKETPLACE.search(f"{text} {row.get('PublisherName', '')}") is not None:
            self._leave_out(line, "marketplace: ")
        elif named is None:
            self._add_part(line, provider, text)
        elif line.hours is None:
            self._leave_out(line, unit=f" in {row.get('PricingUnit') or row.get('ConsumedUnit') or 'no unit'}")
        elif line.priced and not line.cost:
            self._leave_out(line, "without cost: ")
        else:
            self._compare(line, provider, line.hours / (provider.accelerator.count if line.of_gpus else 1))

    def _leave_out(self, line: InvoiceLine, why: str = "", unit: str = "", lines: int = 1) -> None:
        row, currency = line.row, line.row["BillingCurrency"]
        words = why + next((text for column in _WORDS if (text := row.get(column, ""))), "without a name")[:80] + unit
        key = (words, currency) if (words, currency) in self._uncompared or len(self._uncompared) < _KINDS_KEPT else (OTHERS, currency)
        count, cost = self._uncompared.get(key, (0, Decimal()))
        self._uncompared[key] = count + lines, cost + line.cost

    def _compare(self, line: InvoiceLine, provider: Provider, hours: Decimal, lines: int = 1) -> None:
        """Price, place and hours of an instance, of which so many lines are."""
        row, name, currency = line.row, provider.name, line.row["BillingCurrency"]
        self.matched += lines
        count, cost = self._compared.get((name, currency), (0, Decimal()))
        self._compared[name, currency] = count + lines, cost + line.cost
        if line.identity in self._seen:
            self._differ("duplicate", name, line.cost, line.number, f"{line.hours:f} h of {row['ResourceId']} again", currency)
            return
        self._seen |= self._repeated & {line.identity}
        if not _in_region(row, provider, unknown=True):
            self._differ("region", name, Decimal(), line.number, f"billed in {row['RegionId']}, declared {provider.region}", currency)
        expected = line.cost
        if currency != "USD":
            self._differ("currency", name, Decimal(), line.number, f"billed in {currency}, prices are in USD", currency)
        elif line.priced:
            least, most, words = self._due(provider, line, hours)
            slack = max(_CENT, most / 1000)
            if not least - slack <= line.cost <= most + slack:
                expected = most if line.cost > most else least  # what is over is in the price, and not once more in hours without a trial
                kind = "price" if line.cost > most else "price_below"
                self._differ(kind, name, line.cost - expected, line.number, f"{line.cost:.2f} USD for {hours:.6g} h; accepted: {words}")
        days = name, *_days(line)
        self._billed.setdefault(days, _Billed(line.number)).add(float(hours), currency, expected)

    def _due(self, provider: Provider, line: InvoiceLine, hours: Decimal) -> tuple[Decimal, Decimal, str]:
        """The least and the most that hours cost at the prices of a line's days, and these in words."""
        key = provider.name, _PURCHASES.get(line.row.get("PricingCategory", ""), "on_demand"), *_days(line)
        if key not in self._hourly:
            self._hourly[key] = _hourly(provider, *key[1:])
        least, most, words = self._hourly[key]
        return least * hours, most * hours, words

    def _add_part(self, line: InvoiceLine, provider: Provider, text: str) -> None:
        same = tuple(line.row.get(name, "") for name in ("ResourceId", "BillingCurrency", "PricingCategory"))
        parts = self._parts.setdefault((provider.name, line.start, line.end, same), _Parts(line))
        parts.lines += 1
        parts.cost += line.cost
        parts.priced = parts.priced and line.priced
        if _GPU_PART.search(text) is not None and line.hours is not None:
            parts.gpu_hours += line.hours

    def end(self) -> None:
        """After the last line: each instance that was billed in parts counts as one; without its GPUs it cannot be counted."""
        providers = {provider.name: provider for _, provider in self._in_parts}
        for (name, *_), parts in self._parts.items():
            whole = parts.first._replace(cost=parts.cost, priced=parts.priced, hours=parts.gpu_hours)
            if parts.gpu_hours:
                self._compare(whole, providers[name], parts.gpu_hours / providers[name].accelerator.count, parts.lines)
            else:
                self._leave_out(whole, "parts of an instance without its GPUs: ", lines=parts.lines)
        self._parts.clear()

    def differences(self, held: Iterable[HeldSpan]) -> tuple[Difference, ...]:
        """All of them, one a kind, provider and currency, once the lines are at their `end`. `held`: the spans that touch the invoice's days."""
        spans = list(held)
        # Of a bill with nothing compared any provider may be meant; else it is of those that it names.
        for name, first, after, billed in self._periods(set() if self.matched else {s.provider for s in spans}):
            inside = [(s.trial_id, used) for s in spans if s.provider == name and (used := s.within(first, after)) > 0]
            used_h = sum(used for _, used in inside)
            words = f"{first} until {after}: {billed.hours:.6g} h billed, {used_h:.6g} h held"
            if billed.hours - used_h > self._slack_h * len(inside) + 1e-6:
                for currency, cost in sorted(billed.costs.items()):
                    more = cost * Decimal((billed.hours - used_h) / billed.hours)
                    self._differ("hours_without_trial", name, more, billed.line, words, currency)
            elif used_h - billed.hours > _MINUTE_H * len(inside):
                trials = ", ".join(trial for trial, _ in inside[:5])
                self._differ("trials_not_billed", name, Decimal(), None, f"{words} by {trials}")
        return tuple(replace(each, cost=_rounded(each.cost)) for each in self._differences.values())

    def _periods(self, held: Set[str]) -> list[tuple[str, date, date, _Billed]]:
        """Providers' days with what was billed for them, overlapping ones as one; and the days between, for which nothing was."""
        periods: list[tuple[str, date, date, _Billed]] = []
        opening, end = self.days or (date.min, date.min)
        for name in sorted({name for name, *_ in self._billed} | held):
            reached = opening
            for first, after, billed in sorted(
                ((f, a, sums) for (of, f, a), sums in self._billed.items() if of == name), key=lambda one: one[:2]
            ):
                if first >= reached:
                    periods += [(name, reached, first, _Billed(None))] if first > reached else []
                    periods.append((name, first, after, billed))
                else:
                    _, start, _, before = periods.pop()
                    periods.append((name, start, max(reached, after), before.with_those_of(billed)))
                reached = max(reached, after)
            periods += [(name, reached, end, _Billed(None))] if reached < end else []
        return periods

    def _text(self, row: Mapping[str, str]) -> str:
        """What a line says of its product."""
        if self._header != (header := tuple(row)):
            self._header = header
            self._columns = tuple(name for name in header if name in _NAMING or name.startswith("x_"))
        return " ".join(row[name] for name in self._columns)

    def _provider(self, row: Mapping[str, str], text: str) -> Provider | None:
        """The provider whose instance type the line names; of several the one in its region."""
        named = [provider for pattern, provider in self._named if pattern.search(text)]
        return next((p for p in named if _in_region(row, p)), named[0] if named else None)

    def _part_of(self, row: Mapping[str, str], text: str) -> Provider | None:
        """The provider of whose instance the line bills a part, in its region."""
        return next((p for pattern, p in self._in_parts if pattern.search(text) and _in_region(row, p, unknown=True)), None)

    def _differ(self, kind: str, provider: str, cost: Decimal, line: int | None, detail: str, currency: str = "USD") -> None:
        known = self._differences.get((kind, provider, currency))
        new = Difference(kind, provider, cost, line, detail, currency=currency)
        found = replace(known, cost=known.cost + cost, count=known.count + 1) if known else new
        self._differences[kind, provider, currency] = found
