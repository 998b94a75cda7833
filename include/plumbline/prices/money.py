"""Money, quantities and unit prices that refuse to mix.

Amounts are plain floats, read as the decimals that they were written as: 98.32 is 9832/100 and nothing near it. Products and sums are taken
exactly over those decimals and rounded once, to the nearest float; only what a person reads is rounded to the cent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

_CENT = Decimal("0.01")


class MixedUnits(ValueError):
    """Two amounts that do not fit together; the message names both."""


def exact(value: float) -> Fraction:
    """The decimal that a float stands for: the shortest one that reads back as it."""
    return Fraction(repr(float(value)))


def _finite(value: float, what: str) -> None:
    if not math.isfinite(value):
        raise ValueError(f"{value} is no {what}; expected a finite number")


@dataclass(frozen=True)
class Money:
    """An amount of one currency (ISO 4217). Negative where it is a difference."""

    amount: float
    currency: str = "USD"

    def __post_init__(self) -> None:
        _finite(self.amount, "amount of money")

    def __add__(self, other: Money) -> Money:
        if self.currency != other.currency:
            raise MixedUnits(f"cannot add {other} to {self}; expected one currency")
        return Money(float(exact(self.amount) + exact(other.amount)), self.currency)

    def __sub__(self, other: Money) -> Money:
        if self.currency != other.currency:
            raise MixedUnits(f"cannot take {other} from {self}; expected one currency")
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
            raise ValueError(f"{self.value:g} {self.unit} is no quantity; expected at least 0")

    def __add__(self, other: Quantity) -> Quantity:
        if self.unit != other.unit:
            raise MixedUnits(f"cannot add {other} to {self}; expected one unit")
        return Quantity(float(exact(self.value) + exact(other.value)), self.unit)

    def __str__(self) -> str:
        shown = f"{self.value:,.4f}".rstrip("0").rstrip(".") if self.value >= 1 or self.value == 0 else f"{self.value:.4g}"
        return f"{shown} {self.unit}"


@dataclass(frozen=True)
class UnitPrice:
    """What one unit costs, such as 0.09 USD/GB; 0 is a price, of what is given away."""

    amount: float
    currency: str
    per: str

    def __post_init__(self) -> None:
        _finite(self.amount, "price")
        if self.amount < 0:
            raise ValueError(f"{self.amount:g} {self.currency}/{self.per} is no price; expected at least 0")

    def __mul__(self, quantity: Quantity) -> Money:
        if quantity.unit != self.per:
            raise MixedUnits(f"{self} does not price {quantity}; expected a quantity in {self.per}")
        return Money(float(exact(self.amount) * exact(quantity.value)), self.currency)

    def __str__(self) -> str:
        return f"{Decimal(f'{self.amount:.10g}'):f} {self.currency}/{self.per}"
