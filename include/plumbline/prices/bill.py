"""A bill: what something cost, line by line, and what of it nobody can know.

A line is a quantity at a unit price, with where the price comes from and since when it holds. An item that was used and has no price is no
line of 0: it stands in `unknown`, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from typing import get_args

from plumbline.declarations.cost_plan import CostBasis as CostBasis
from plumbline.declarations.cost_plan import CostItem
from plumbline.prices.money import MixedUnits, Money, Quantity, UnitPrice, exact

Item = CostItem
ITEMS: tuple[Item, ...] = get_args(CostItem)
"""The items in the order in which bills show them."""


@dataclass(frozen=True)
class Line:
    """One position. `cost` is the unit price × the quantity; MixedUnits if these do not fit. `what` says more than the item's name."""

    item: Item
    quantity: Quantity
    unit_price: UnitPrice
    basis: CostBasis
    source: str
    since: date | None
    what: str = ""
    cost: Money = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "cost", self.unit_price * self.quantity)

    @property
    def exact_cost(self) -> Fraction:
        """The cost before any rounding."""
        return exact(self.unit_price.amount) * exact(self.quantity.value)


@dataclass(frozen=True)
class Unknown:
    """An item whose cost nobody can say, and why."""

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
        """The same with one line where several differ in nothing but their quantity."""
        groups: dict[tuple[object, ...], Line] = {}
        for line in self.lines:
            key = (line.item, line.unit_price, line.basis, line.source, line.since, line.what)
            held = groups.get(key)
            quantity = line.quantity if held is None else held.quantity + line.quantity
            groups[key] = Line(line.item, quantity, line.unit_price, line.basis, line.source, line.since, line.what)
        return Bill(tuple(sorted(groups.values(), key=lambda line: ITEMS.index(line.item))), self.unknown)


def together(bills: Iterable[Bill]) -> Bill:
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
            raise MixedUnits(f"cannot add {line.cost} ({line.item}) to {first} ({lines[0].item}); expected one currency")
    return Money(float(sum((line.exact_cost for line in lines), Fraction())), first.currency)
