"""A cost plan for `plumbline cost break-even --plan`.

Quantities and prices have units (`500 instance-hours`, `98.32 USD/instance-hour`), which must match."""

from __future__ import annotations

import re
from datetime import date
from fractions import Fraction
from typing import Annotated, Literal, NamedTuple

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from plumbline.declarations.base import Declared, Name
from plumbline.declarations.providers.amounts import PerUnit, match_text
from plumbline.declarations.providers.rates import Purchase
from plumbline.metrics.units import text_schema

CostItem = Literal["gpu", "cpu", "idle", "failed_launches", "storage", "egress", "observability", "engineering", "hosted", "support"]
"""`gpu`: the instance while it measures (`cpu` without accelerators). `idle`: the instance while it does not. `failed_launches`: of attempts
without a finished run. `hosted`: a service billed by request or token."""
CostBasis = Literal["list", "spot", "reserved", "owned", "serverless", "invoiced", "declared"]
"""`list`, `spot`, `reserved`: the instance's price by purchase. `invoiced`: a month's invoice per hour. `declared`: a rate or an overhead of the
provider's declaration or a plan."""

_NUMBER = r"(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?"
_UNIT = r"[A-Za-z][A-Za-z0-9-]*"
_QUANTITY = re.compile(rf"{_NUMBER} ({_UNIT})")
_PRICE = re.compile(rf"{_NUMBER} ([A-Z]{{3}})/(?:(1k|1M) )?({_UNIT})")
_MULTIPLES = {"1k": 1_000, "1M": 1_000_000}
_LINE = re.compile(r"([a-z_]+)(?: \(([^()]+)\))?: (.+) at (.+)")


class PlannedAmount(NamedTuple):
    value: float
    unit: str


def canonical_unit(written: str) -> str:
    """`hours` and `h` are `hour`, `requests` are `request`."""
    return "hour" if written == "h" else written.removesuffix("s") if len(written) > 3 else written


def _plain_number(whole: str, part: str | None) -> str:
    return whole.replace(",", "") + (part or "")


def _parse_quantity(value: object) -> PlannedAmount:
    match = match_text(_QUANTITY, value, "a number with its unit; expected a quantity such as 500 instance-hours or 50,000,000 requests")
    return PlannedAmount(float(_plain_number(match[1], match[2])), canonical_unit(match[3]))


def _parse_unit_price(value: object) -> PerUnit:
    shape = "a price with its currency and unit; expected a price such as 98.32 USD/instance-hour or 0.60 USD/1M tokens"
    match = match_text(_PRICE, value, shape)
    amount = Fraction(_plain_number(match[1], match[2])) / _MULTIPLES.get(match[4] or "", 1)
    return PerUnit(float(amount), match[3], canonical_unit(match[5]))


PlannedQuantity = Annotated[
    PlannedAmount,
    BeforeValidator(_parse_quantity),
    PlainSerializer(lambda q: f"{q.value:.15g} {q.unit}", return_type=str),
    text_schema("500 instance-hours"),
]
PlannedPrice = Annotated[
    PerUnit,
    BeforeValidator(_parse_unit_price),
    PlainSerializer(lambda p: f"{p.amount:.15g} {p.currency}/{p.per}", return_type=str),
    text_schema("98.32 USD/instance-hour"),
]


class PlanLine(Declared):
    """A quantity at a price with its source, or at the price of a declared provider's instance."""

    item: CostItem
    what: str = ""
    quantity: PlannedQuantity
    price: PlannedPrice | None = None
    basis: CostBasis = "declared"
    source: str = Field("", description="of the price; required with it")
    since: date | None = Field(None, description="first day of that price")
    provider: Name | None = Field(None, description="provider whose price of an instance-hour counts, instead of price and source")
    purchase: Purchase = "on_demand"
    on: date | None = Field(None, description="the day of the provider's price; today if omitted")

    @model_validator(mode="after")
    def _priced_once(self) -> PlanLine:
        if (self.price is None) == (self.provider is None):
            given = "neither" if self.price is None else "both"
            raise ValueError(f"{given} of price and provider; expected a price with its source, or the name of a provider")
        if self.price is not None and len(self.source) < 3:
            raise ValueError("price has no source; expected such as 'offer of 2026-11-02'")
        if self.price is not None and (self.purchase != "on_demand" or self.on is not None):
            raise ValueError("purchase and on select a provider's price, but price is given; expected one of both")
        if self.provider is not None and (self.source or self.since is not None or self.basis != "declared"):
            raise ValueError("provider includes source, since and basis; expected none of them here")
        return self

    @classmethod
    def written(cls, text: str) -> PlanLine:
        """From one line of text, `ITEM (what): QUANTITY at PRICE`, such as `gpu: 500 instance-hours at 98.32 USD/instance-hour`.

        ValueError with the expected shape (pydantic's ValidationError for an invalid item, quantity or price).
        """
        match = _LINE.fullmatch(text.strip())
        if match is None:
            raise ValueError(f'"{text}" is not a line; expected one such as "gpu: 500 instance-hours at 98.32 USD/instance-hour"')
        given = {"item": match[1], "what": match[2] or "", "quantity": match[3], "price": match[4], "source": "given on the command line"}
        return cls.model_validate(given)


class PlanOption(Declared):
    """One option; its cost is the sum of its lines."""

    name: str = Field(min_length=1)
    lines: tuple[PlanLine, ...] = Field(min_length=1)


class CostPlan(Declared):
    """A plan's file: options, compared with the first one."""

    name: Name
    description: str = ""
    options: tuple[PlanOption, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _named_apart(self) -> CostPlan:
        names = [option.name for option in self.options]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f'option name "{twice}" is a duplicate; expected distinct names')
        return self
