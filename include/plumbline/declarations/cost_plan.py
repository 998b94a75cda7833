"""A plan: what something would cost, as a person writes it down, option by option and line by line. Read by `plumbline cost plan`.

A quantity and a price say their units (`500 instance-hours`, `98.32 USD/instance-hour`), and only what fits is multiplied.
"""

from __future__ import annotations

import re
from datetime import date
from fractions import Fraction
from typing import Annotated, Literal, NamedTuple

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema, model_validator

from plumbline.declarations.base import Declared, Name
from plumbline.declarations.purchases import Purchase
from plumbline.declarations.rates import PerUnit

CostItem = Literal["gpu", "cpu", "idle", "failed_launches", "storage", "egress", "observability", "engineering", "hosted"]
"""`gpu`: the instance while it measured (`cpu` of one without accelerators); `idle`: while it was held and did not; `failed_launches`: what
attempts held that finished no run; `hosted`: what somebody else's service bills by the request or token."""
CostBasis = Literal["list", "spot", "reserved", "invoiced", "declared"]
"""`list`, `spot`, `reserved`: the price of an instance bought that way; `invoiced`: what a month's invoice came to for an hour; `declared`: a
rate or an overhead that the provider's declaration, or a plan, states."""

_NUMBER = r"(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?"
_UNIT = r"[A-Za-z][A-Za-z0-9-]*"
_QUANTITY = re.compile(rf"{_NUMBER} ({_UNIT})")
_PRICE = re.compile(rf"{_NUMBER} ([A-Z]{{3}})/(?:(1k|1M) )?({_UNIT})")
_MANY = {"1k": 1_000, "1M": 1_000_000}
_LINE = re.compile(r"([a-z_]+)(?: \(([^()]+)\))?: (.+) at (.+)")
_QUANTITY_SHAPE = "a quantity such as 500 instance-hours or 50,000,000 requests"
_PRICE_SHAPE = "a price such as 98.32 USD/instance-hour or 0.60 USD/1M tokens"


class Amounted(NamedTuple):
    """So much of a unit."""

    value: float
    unit: str


def unit_of(written: str) -> str:
    """A unit as it is compared: `hours` and `h` are `hour`, `requests` are `request`."""
    return "hour" if written == "h" else written.removesuffix("s") if len(written) > 3 else written


def _number(whole: str, part: str | None) -> str:
    return whole.replace(",", "") + (part or "")


def _quantity(value: object) -> Amounted:
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f'"{value}" is not a number with its unit; expected {_QUANTITY_SHAPE}')
    return Amounted(float(_number(match[1], match[2])), unit_of(match[3]))


def _price(value: object) -> PerUnit:
    match = _PRICE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f'"{value}" is not a price with its currency and unit; expected {_PRICE_SHAPE}')
    amount = Fraction(_number(match[1], match[2])) / _MANY.get(match[4] or "", 1)
    return PerUnit(float(amount), match[3], unit_of(match[5]))


def _text(example: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "examples": [example]})


PlannedQuantity = Annotated[
    Amounted,
    BeforeValidator(_quantity),
    PlainSerializer(lambda q: f"{q.value:.15g} {q.unit}", return_type=str),
    _text("500 instance-hours"),
]
PlannedPrice = Annotated[
    PerUnit,
    BeforeValidator(_price),
    PlainSerializer(lambda p: f"{p.amount:.15g} {p.currency}/{p.per}", return_type=str),
    _text("98.32 USD/instance-hour"),
]


class PlanLine(Declared):
    """One line: a quantity at a price that is written here with its source, or at the price of a declared provider's instance."""

    item: CostItem
    what: str = ""
    quantity: PlannedQuantity
    price: PlannedPrice | None = None
    basis: CostBasis = "declared"
    source: str = Field("", description="who says so; needed with price")
    since: date | None = Field(None, description="since when that price holds")
    provider: Name | None = Field(None, description="whose declared price of an instance-hour counts, instead of price and source")
    purchase: Purchase = "on_demand"
    on: date | None = Field(None, description="the day whose price of the provider counts; today if left out")

    @model_validator(mode="after")
    def _priced_once(self) -> PlanLine:
        if (self.price is None) == (self.provider is None):
            said = "neither" if self.price is None else "both"
            raise ValueError(
                f"{said} of price and provider; expected a price with its source, or the name of a provider whose price counts"
            )
        if self.price is not None and len(self.source) < 3:
            raise ValueError("price has no source; expected who says so, such as 'offer of 2026-11-02'")
        if self.price is not None and (self.purchase != "on_demand" or self.on is not None):
            raise ValueError("purchase and on choose among a provider's prices, and price is given; expected one or the other")
        if self.provider is not None and (self.source or self.since is not None or self.basis != "declared"):
            raise ValueError("provider brings source, since and basis with its price; expected none of them here")
        return self

    @classmethod
    def written(cls, text: str) -> PlanLine:
        """From one line of text, `ITEM (what): QUANTITY at PRICE`, such as `gpu: 500 instance-hours at 98.32 USD/instance-hour`.

        ValueError with the expected shape (pydantic's ValidationError for an item, quantity or price that is none).
        """
        match = _LINE.fullmatch(text.strip())
        if match is None:
            raise ValueError(f'"{text}" is not a line; expected one such as "gpu: 500 instance-hours at 98.32 USD/instance-hour"')
        given = {"item": match[1], "what": match[2] or "", "quantity": match[3], "price": match[4], "source": "given on the command line"}
        return cls.model_validate(given)


class PlanOption(Declared):
    """One way to do it; its lines are added up."""

    name: str = Field(min_length=1)
    lines: tuple[PlanLine, ...] = Field(min_length=1)


class CostPlan(Declared):
    """A plan's file: options that are held against the first one."""

    name: Name
    description: str = ""
    options: tuple[PlanOption, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _named_apart(self) -> CostPlan:
        names = [option.name for option in self.options]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f'"{twice}" names two options; expected a name for each')
        return self
