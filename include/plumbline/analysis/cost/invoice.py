"""Invoice lines (FOCUS 1.x) against held hours and accepted prices. Lines come one at a time, twice: first 8 bytes of each are kept."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import NamedTuple

import numpy as np

from plumbline.analysis.prices.book import quote
from plumbline.declarations import Provider
from plumbline.declarations.providers.rates import Purchase
from plumbline.results.compared_invoice import OTHERS, ComparedSum, Difference, Uncompared

_NAMING = ("SkuId", "SkuMeter", "ResourceId", "ResourceName", "ResourceType", "ServiceName", "ChargeDescription")
"""Columns that may name an instance type."""
HOURS = ("h", "hr", "hrs", "hour", "hours", "instance-hour", "instance-hours")
GPU_HOURS = ("gpu-hour", "gpu-hours", "gpu hour", "gpu hours")
_IDENTITY = ("SkuId", "ChargePeriodStart", "ChargePeriodEnd", "PricingQuantity", "BilledCost", "ChargeDescription")
_PURCHASES: Mapping[str, Purchase] = {"Dynamic": "spot", "Committed": "reserved"}
_WORDS = ("SkuMeter", "ChargeDescription", "ServiceName", "SkuId")
"""Columns that say in the file's own words what a line is for, the plainest first."""
_KINDS_KEPT = 10_000
_CENT, _MINUTE_H = Decimal("0.01"), 1 / 60


class InvoiceLine(NamedTuple):
    """`row`: by column. `cost`: in the billing currency; of usage the effective one. `hours`: of GPUs or instances, None of what is not by the hour."""

    number: int
    row: Mapping[str, str]
    start: datetime
    end: datetime
    cost: Decimal
    hours: Decimal | None

    @property
    def identity(self) -> int:
        """Equal for equal lines of one resource."""
        return hash((self.row["ResourceId"], *(self.row.get(column) for column in _IDENTITY)))


def repeated_lines(lines: Iterable[InvoiceLine]) -> frozenset[int]:
    """Identities that several lines have. Two instances without a resource's name have equal lines: these are left out."""
    values, counts = np.unique(np.fromiter((line.identity for line in lines if line.row["ResourceId"]), np.int64), return_counts=True)
    return frozenset(values[counts > 1].tolist())


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


class InvoiceComparison:
    """`providers`: at effective prices. `repeated`: of `repeated_lines`. `slack_h`: hours a trial that an instance may be billed longer than it was held."""

    def __init__(self, providers: Sequence[Provider], repeated: frozenset[int], slack_h: float) -> None:
        self.lines = self.matched = 0
        self._first, self._after = date.max, date.min
        self._uncompared: dict[tuple[str, str], tuple[int, Decimal]] = {}
        self._slack_h, self._repeated = slack_h, repeated
        self._named = [(re.compile(rf"(?<![\w.-]){re.escape(p.instance_type)}(?![\w.-])", re.IGNORECASE), p) for p in providers]
        self._seen: set[int] = set()
        self._differences: dict[tuple[str, str, str], Difference] = {}
        self._compared: dict[tuple[str, str], tuple[int, Decimal]] = {}
        self._billed: dict[tuple[str, date, date], tuple[float, Decimal, int]] = {}

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
        row, provider, currency = line.row, self._provider(line.row), line.row["BillingCurrency"]
        self.lines += 1
        first, after = line.start.date(), (line.end - timedelta(microseconds=1)).date() + timedelta(days=1)
        self._first, self._after = min(self._first, first), max(self._after, after)
        name = "" if provider is None else provider.name
        if row["ChargeCategory"] in ("Tax", "Credit", "Adjustment"):
            self._differ(
                row["ChargeCategory"].lower(), name, line.cost, line.number, f"{line.cost:,.2f} {currency} beside the prices", currency
            )
        if provider is None or line.hours is None:
            words = next((text for column in _WORDS if (text := row.get(column, ""))), "without a name")[:80]
            key = (words, currency) if (words, currency) in self._uncompared or len(self._uncompared) < _KINDS_KEPT else (OTHERS, currency)
            count, cost = self._uncompared.get(key, (0, Decimal()))
            self._uncompared[key] = count + 1, cost + line.cost
            return
        self.matched += 1
        count, cost = self._compared.get((name, currency), (0, Decimal()))
        self._compared[name, currency] = count + 1, cost + line.cost
        if line.identity in self._seen:
            self._differ("duplicate", name, line.cost, line.number, f"{line.hours:f} h of {row['ResourceId']} again", currency)
            return
        self._seen |= self._repeated & {line.identity}
        hours = line.hours / (provider.accelerator.count if row["PricingUnit"].lower() in GPU_HOURS else 1)
        if row["RegionId"] not in ("", provider.region, provider.zone):
            self._differ("region", name, Decimal(), line.number, f"billed in {row['RegionId']}, declared {provider.region}", currency)
        quoted = quote(provider, line.start.date(), _PURCHASES.get(row.get("PricingCategory", ""), "on_demand"))
        due = Decimal() if quoted.basis is None else Decimal(repr(quoted.basis.usd_per_hour)) * hours
        expected = line.cost
        if currency != "USD":
            self._differ("currency", name, Decimal(), line.number, f"billed in {currency}, prices are in USD", currency)
        elif abs(line.cost - due) > max(_CENT, due / 1000):
            words = f"{line.cost:.2f} USD for {hours:.6g} h; accepted: {quoted.basis or quoted.reason}"
            self._differ("price", name, line.cost - due, line.number, words)
            expected = due  # what is over is in the price, and not once more in hours without a trial
        days = name, first, after
        before = self._billed.get(days, (0.0, Decimal(), line.number))
        self._billed[days] = before[0] + float(hours), before[1] + expected, before[2]

    def differences(self, held: Iterable[HeldSpan]) -> tuple[Difference, ...]:
        """All of them, one a kind, provider and currency. `held`: the spans that touch the invoice's days."""
        spans = list(held)
        # Of a bill with nothing compared any provider may be meant; else it is of those that it names.
        for name, first, after, billed, cost, line in self._periods(set() if self.matched else {s.provider for s in spans}):
            inside = [(s.trial_id, used) for s in spans if s.provider == name and (used := s.within(first, after)) > 0]
            used_h = sum(used for _, used in inside)
            words = f"{first} until {after}: {billed:.6g} h billed, {used_h:.6g} h held"
            if billed - used_h > self._slack_h * len(inside) + 1e-6:
                currencies = [each.currency for each in self.compared if each.provider == name]
                more = cost * Decimal((billed - used_h) / billed) if len(currencies) == 1 else Decimal()  # of several there is no sum
                self._differ("hours_without_trial", name, more, line, words, currencies[0])
            elif used_h - billed > _MINUTE_H * len(inside):
                trials = ", ".join(trial for trial, _ in inside[:5])
                self._differ("trials_not_billed", name, Decimal(), None, f"{words} by {trials}")
        return tuple(self._differences.values())

    def _periods(self, held: Set[str]) -> list[tuple[str, date, date, float, Decimal, int | None]]:
        """Providers' days with what was billed for them, overlapping ones as one; and the days between, for which nothing was."""
        periods: list[tuple[str, date, date, float, Decimal, int | None]] = []
        opening, end = self.days or (date.min, date.min)
        for name in sorted({name for name, *_ in self._billed} | held):
            reached = opening
            for first, after, (hours, cost, line) in sorted((f, a, sums) for (of, f, a), sums in self._billed.items() if of == name):
                if first >= reached:
                    periods += [(name, reached, first, 0.0, Decimal(), None)] if first > reached else []
                    periods.append((name, first, after, hours, cost, line))
                else:
                    _, start, _, more, added, at = periods.pop()
                    periods.append((name, start, max(reached, after), hours + more, cost + added, at))
                reached = max(reached, after)
            periods += [(name, reached, end, 0.0, Decimal(), None)] if reached < end else []
        return periods

    def _provider(self, row: Mapping[str, str]) -> Provider | None:
        """The provider whose instance type the line names; of several the one in its region."""
        text = " ".join(row.get(column, "") for column in _NAMING)
        named = [provider for pattern, provider in self._named if pattern.search(text)]
        return next((p for p in named if row["RegionId"] in (p.region, p.zone)), named[0] if named else None)

    def _differ(self, kind: str, provider: str, cost: Decimal, line: int | None, detail: str, currency: str = "USD") -> None:
        known = self._differences.get((kind, provider, currency))
        new = Difference(kind, provider, cost, line, detail, currency=currency)
        found = replace(known, cost=known.cost + cost, count=known.count + 1) if known else new
        self._differences[kind, provider, currency] = found
