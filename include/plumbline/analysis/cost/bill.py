"""Money, quantities, unit prices and bills; units and currencies never mix."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import get_args

from plumbline.declarations.cost_plan import CostBasis as CostBasis
from plumbline.declarations.cost_plan import CostItem
from plumbline.metrics.units import Amount, exact

_CENT = Decimal("0.01")


class MixedUnits(ValueError):
    """Two amounts that do not fit together. `expected`, `actual`: their units or currencies."""

    def __init__(self, message: str, expected: str, actual: str) -> None:
        super().__init__(message)
        self.expected, self.actual = expected, actual


def _finite(value: float, what: str) -> None:
    if not math.isfinite(value):
        raise ValueError(f"{what} is {value}; expected a finite number")


@dataclass(frozen=True)
class Money:
    """An amount of one currency (ISO 4217). Negative where it is a difference."""

    amount: Amount
    currency: str = "USD"

    def __post_init__(self) -> None:
        _finite(self.amount, "amount of money")

    def __add__(self, other: Money) -> Money:
        if self.currency != other.currency:
            raise MixedUnits(f"cannot add {other} to {self}; expected one currency", self.currency, other.currency)
        return Money(float(exact(self.amount) + exact(other.amount)), self.currency)

    def __sub__(self, other: Money) -> Money:
        if self.currency != other.currency:
            raise MixedUnits(f"cannot subtract {other} from {self}; expected one currency", self.currency, other.currency)
        return Money(float(exact(self.amount) - exact(other.amount)), self.currency)

    def __truediv__(self, n: float) -> Money:
        """The same, shared over `n`. ZeroDivisionError for 0."""
        return Money(float(exact(self.amount) / exact(n)), self.currency)

    @property
    def cents(self) -> Decimal:
        """The amount to the cent, half a cent up: what a person reads."""
        return Decimal(repr(float(self.amount))).quantize(_CENT, ROUND_HALF_UP)

    def __str__(self) -> str:
        """To the cent; an amount below a cent with three digits, so that it does not look like nothing."""
        small = 0 < abs(self.amount) < 0.01
        return f"{self.amount:.3g} {self.currency}" if small else f"{self.cents:,} {self.currency}"


@dataclass(frozen=True)
class Quantity:
    """So much of a unit, such as 500 instance-hour or 30 GB-month; at least 0."""

    value: float
    unit: str

    def __post_init__(self) -> None:
        _finite(self.value, "quantity")
        if self.value < 0:
            raise ValueError(f"quantity is {self.value:g} {self.unit}; expected at least 0")

    def __add__(self, other: Quantity) -> Quantity:
        if self.unit != other.unit:
            raise MixedUnits(f"cannot add {other} to {self}; expected one unit", self.unit, other.unit)
        return Quantity(float(exact(self.value) + exact(other.value)), self.unit)

    def __str__(self) -> str:
        number = f"{self.value:,.4f}".rstrip("0").rstrip(".") if self.value >= 1 or self.value == 0 else f"{self.value:.4g}"
        return f"{number} {self.unit}"


@dataclass(frozen=True)
class UnitPrice:
    """The price of one unit, such as 0.09 USD/GB; 0 for a free one."""

    amount: Amount
    currency: str
    per: str

    def __post_init__(self) -> None:
        _finite(self.amount, "price")
        if self.amount < 0:
            raise ValueError(f"price is {self.amount:g} {self.currency}/{self.per}; expected at least 0")

    def __mul__(self, quantity: Quantity) -> Money:
        if quantity.unit != self.per:
            raise MixedUnits(f"{self} does not price {quantity}; expected a quantity in {self.per}", self.per, quantity.unit)
        return Money(float(exact(self.amount) * exact(quantity.value)), self.currency)

    def __str__(self) -> str:
        return f"{Decimal(f'{self.amount:.10g}'):f} {self.currency}/{self.per}"


# A bill: what something cost, line by line.
#
# A line is a quantity at a unit price, with the price's source and start. An item that was used and has no price is in `unknown`, with the
# reason, and never a line of 0.


Item = CostItem
ITEMS: tuple[Item, ...] = get_args(CostItem)
"""The items in the order in which bills show them."""


@dataclass(frozen=True)
class Line:
    """One position. `cost` is the unit price × the quantity; MixedUnits if these do not fit. `what` says more than the item's name.

    `share`: of what is paid for a machine that is held, or a hosted model, the part that is the trial's (`share_of`); None of all else.
    """

    item: Item
    quantity: Quantity
    unit_price: UnitPrice
    basis: CostBasis
    source: str
    since: date | None
    what: str = ""
    share: float | None = None
    cost: Money = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "cost", self.unit_price * self.quantity)

    @property
    def exact_cost(self) -> Fraction:
        """The cost before any rounding."""
        return exact(self.unit_price.amount) * exact(self.quantity.value)


@dataclass(frozen=True)
class Unknown:
    """An item whose cost is unknown, and why."""

    item: Item
    reason: str


@dataclass(frozen=True)
class Bill:
    """Lines of one currency, and what is missing of them."""

    lines: tuple[Line, ...] = ()
    unknown: tuple[Unknown, ...] = ()

    def __add__(self, other: Bill) -> Bill:
        return Bill((*self.lines, *other.lines), tuple(dict.fromkeys((*self.unknown, *other.unknown))))

    @property
    def total(self) -> Money | None:
        """The sum of the lines, rounded once; None without any. What is `unknown` is not in it. MixedUnits for several currencies."""
        return _sum(self.lines)

    @property
    def paid(self) -> Money | None:
        """The part of the total that is paid for held machines and for hosted models; None without any such line."""
        return _sum([line for line in self.lines if line.share is not None])

    @property
    def share(self) -> Money | None:
        """The trials' share of `paid`, as unit costs and rankings count it: GPUs beside them count as used alike."""
        machines = [line for line in self.lines if line.share is not None]
        shares = (line.exact_cost * exact(line.share or 0.0) for line in machines)
        return Money(float(sum(shares, Fraction())), machines[0].cost.currency) if machines else None

    @property
    def complete(self) -> bool:
        """Whether the total is the whole: at least one line and nothing unknown. Otherwise it is at least so much."""
        return bool(self.lines) and not self.unknown

    def of(self, *items: Item) -> Money | None:
        """The sum of the lines of these items; None if there are none."""
        return _sum([line for line in self.lines if line.item in items])

    def by_item(self) -> dict[Item, Money]:
        """The sum of each item that has a line, in the order of `ITEMS`."""
        sums = ((item, self.of(item)) for item in ITEMS)
        return {item: amount for item, amount in sums if amount is not None}

    def condensed(self) -> Bill:
        """The bill with one line in place of several that differ only in quantity."""
        groups: dict[tuple[object, ...], Line] = {}
        for line in self.lines:
            key = (line.item, line.unit_price, line.basis, line.source, line.since, line.what, line.share)
            sums = groups.get(key)
            quantity = line.quantity if sums is None else sums.quantity + line.quantity
            groups[key] = Line(line.item, quantity, line.unit_price, line.basis, line.source, line.since, line.what, line.share)
        return Bill(tuple(sorted(groups.values(), key=lambda line: ITEMS.index(line.item))), self.unknown)


def combine_bills(bills: Iterable[Bill]) -> Bill:
    """Several bills as one."""
    lines: list[Line] = []
    unknown: dict[Unknown, None] = {}
    for bill in bills:
        lines += bill.lines
        unknown |= dict.fromkeys(bill.unknown)
    return Bill(tuple(lines), tuple(unknown))


def _sum(lines: Sequence[Line]) -> Money | None:
    if not lines:
        return None
    first = lines[0].cost
    for line in lines:
        if line.cost.currency != first.currency:
            message = f"cannot add {line.cost} ({line.item}) to {first} ({lines[0].item}); expected one currency"
            raise MixedUnits(message, first.currency, line.cost.currency)
    return Money(float(sum((line.exact_cost for line in lines), Fraction())), first.currency)
