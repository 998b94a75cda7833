"""What a provider charges beside the hour of its instance, what its invoices came to, and what people's time at it costs.

Only what is reckoned with: nothing of it changes what is measured, so trials do not carry it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import date
from itertools import pairwise
from typing import Annotated, Literal, NamedTuple, get_args

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema, model_validator

from plumbline.declarations.base import Declared
from plumbline.declarations.contract import Worth, check_worth
from plumbline.declarations.purchases import Purchase
from plumbline.declarations.units import Duration

RateItem = Literal["cpu", "storage", "egress", "observability"]
UNITS: Mapping[RateItem, tuple[str, ...]] = {
    "cpu": ("core-hour",),
    "storage": ("GB-month", "GiB-month"),
    "egress": ("GB", "GiB"),
    "observability": ("instance-hour",),
}
"""What each item is billed by."""

_NUMBER = r"\d+(?:\.\d+)?"
_PRICE = re.compile(rf"({_NUMBER}) ([A-Z]{{3}})/([A-Za-z][A-Za-z0-9-]*)")
_AMOUNT = re.compile(rf"({_NUMBER}) ([A-Z]{{3}})")


class PerUnit(NamedTuple):
    """An amount of a currency (ISO 4217) for one unit of something."""

    amount: float
    currency: str
    per: str


class Sum(NamedTuple):
    """An amount of a currency (ISO 4217)."""

    amount: float
    currency: str


def per_unit(value: object) -> PerUnit:
    """A price as it is written, such as 0.08 USD/GB-month; ValueError with the expected shape."""
    match = _PRICE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f'"{value}" is not a price with its currency and unit; expected one such as 0.08 USD/GB-month')
    return PerUnit(float(match[1]), match[2], match[3])


def _sum(value: object) -> Sum:
    match = _AMOUNT.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f'"{value}" is not an amount with its currency; expected one such as 1234.50 USD')
    return Sum(float(match[1]), match[2])


def _text(*examples: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "examples": list(examples)})


PricePerUnit = Annotated[
    PerUnit,
    BeforeValidator(per_unit),
    PlainSerializer(lambda p: f"{p.amount:.15g} {p.currency}/{p.per}", return_type=str),
    _text("0.08 USD/GB-month"),
]
Amount = Annotated[
    Sum, BeforeValidator(_sum), PlainSerializer(lambda a: f"{a.amount:.15g} {a.currency}", return_type=str), _text("1234.50 USD")
]


class Stated(Declared):
    """Money that somebody stated, in any currency whose worth in USD is stated with it."""

    source: str = Field(min_length=3, description="where the figure comes from, such as 'price page, 2026-11-02' or 'invoice 4711'")
    rate: Worth | None = Field(None, description="what the currency is worth; needed for any but USD")
    rate_on: date | None = Field(None, description="the day of that rate")

    @property
    def usd_per_unit(self) -> float:
        """USD for one unit of the currency."""
        return self.rate.usd if self.rate is not None else 1.0


class _Dated(Stated):
    """Holds from `since` (included) until `until` (excluded)."""

    since: date
    until: date | None = None

    @model_validator(mode="after")
    def _in_order(self) -> _Dated:
        if self.until is not None and self.until <= self.since:
            raise ValueError(f"until {self.until} is not after since {self.since}; expected a later date")
        return self

    def holds(self, on: date) -> bool:
        """Whether it holds on a day."""
        return self.since <= on and (self.until is None or on < self.until)


class DeclaredRate(_Dated):
    """What is billed beside the instance, by its own unit. 0 is a rate: of what is included or belongs to nobody else."""

    item: RateItem = Field(description=f"one of {', '.join(get_args(RateItem))}")
    price: PricePerUnit

    @model_validator(mode="after")
    def _fits(self) -> DeclaredRate:
        check_worth(self.price.currency, self.rate, self.rate_on)
        if self.price.per not in UNITS[self.item]:
            raise ValueError(
                f"price is per {self.price.per}, and {self.item} is billed by {' or '.join(UNITS[self.item])}; "
                f"expected one such as 0.08 {self.price.currency}/{UNITS[self.item][0]}"
            )
        return self


class Overhead(_Dated):
    """People's time that a provider takes, which no invoice of it shows.

    `per: campaign`: so much for each campaign, shared by its trials. `per: month`: so much a month, shared by the `instance_hours` that
    are used in one.
    """

    what: str = Field(min_length=3, description="what the time goes into, such as 'cluster and image updates'")
    time: Duration = Field(description="such as 2h")
    per: Literal["campaign", "month"]
    instance_hours: float | None = Field(
        None, gt=0, description="instance-hours in use a month, which share the time; with per: month only"
    )
    price: PricePerUnit = Field(description="what an hour of that time costs, such as 120 USD/h")

    @model_validator(mode="after")
    def _fits(self) -> Overhead:
        check_worth(self.price.currency, self.rate, self.rate_on)
        if self.price.per != "h":
            raise ValueError(
                f"price is per {self.price.per}, and time is paid by the hour; expected one such as 120 {self.price.currency}/h"
            )
        if (self.per == "month") != (self.instance_hours is not None):
            given = "missing" if self.instance_hours is None else "given"
            raise ValueError(f"per is {self.per} and instance_hours is {given}; expected instance_hours, such as 700, with per: month only")
        return self


class Invoice(Stated):
    """What a month came to: its amount over what it covered is the effective price of an hour in that month."""

    month: str = Field(pattern=r"^\d{4}-(0[1-9]|1[0-2])$", description="such as 2026-10")
    purchase: Purchase = "on_demand"
    amount: Amount
    instance_hours: float = Field(gt=0, description="hours of the whole instance that the amount covers, such as 212.5")

    @model_validator(mode="after")
    def _fits(self) -> Invoice:
        check_worth(self.amount.currency, self.rate, self.rate_on, "amount")
        return self


def check_rates(rates: Iterable[DeclaredRate]) -> None:
    """ValueError if two rates of one item hold on a day."""
    by_item: dict[str, list[DeclaredRate]] = {}
    for rate in rates:
        by_item.setdefault(rate.item, []).append(rate)
    for item, own in by_item.items():
        for earlier, later in pairwise(sorted(own, key=lambda r: r.since)):
            if earlier.until is None or earlier.until > later.since:
                raise ValueError(f"two {item} rates hold on {later.since}; expected `until: {later.since}` or earlier on the first")


def check_invoices(invoices: Iterable[Invoice]) -> None:
    """ValueError if a month was invoiced twice for one way to pay."""
    seen: set[tuple[str, str]] = set()
    for invoice in invoices:
        if (invoice.month, invoice.purchase) in seen:
            raise ValueError(f"two {invoice.purchase} invoices of {invoice.month}; expected one with the sum of amounts and instance_hours")
        seen.add((invoice.month, invoice.purchase))
