"""A contract: prices that were negotiated for one instance type, each with the days on which it holds."""

from __future__ import annotations

import re
from datetime import date
from itertools import pairwise
from typing import Annotated, Literal, NamedTuple

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from plumbline.declarations.base import Declared, Name
from plumbline.declarations.purchases import Purchase, Term

_NUMBER = r"\d+(?:\.\d+)?"
_MONEY = re.compile(rf"({_NUMBER}) ([A-Z]{{3}})/(GPU-hour|instance-hour)")
_RATE = re.compile(rf"({_NUMBER}) USD/([A-Z]{{3}})")
_PRICE_SHAPE = "a price such as 2.29 USD/GPU-hour or 19.80 EUR/instance-hour"
_RATE_SHAPE = "a rate such as 1.08 USD/EUR"


class Money(NamedTuple):
    """An amount of a currency (ISO 4217) for one hour of a GPU or of the whole instance."""

    amount: float
    currency: str
    per: Literal["gpu_hour", "instance_hour"]


class Rate(NamedTuple):
    """What one unit of a currency is worth in USD."""

    usd: float
    currency: str


def _money(value: object) -> Money:
    match = _MONEY.fullmatch(value) if isinstance(value, str) else None
    if match is None or float(match[1]) == 0:
        raise ValueError(f'"{value}" is not a price above 0 with its currency and hour; expected {_PRICE_SHAPE}')
    return Money(float(match[1]), match[2], "gpu_hour" if match[3] == "GPU-hour" else "instance_hour")


def _rate(value: object) -> Rate:
    match = _RATE.fullmatch(value) if isinstance(value, str) else None
    if match is None or float(match[1]) == 0:
        raise ValueError(f'"{value}" is not the worth of a currency in USD; expected {_RATE_SHAPE}')
    return Rate(float(match[1]), match[2])


def check_worth(currency: str, rate: Rate | None, rate_on: date | None, field: str = "price") -> None:
    """ValueError unless the `field`'s currency has its worth in USD beside it, with the day of that rate; USD itself needs none."""
    if currency == "USD" and (rate is not None or rate_on is not None):
        raise ValueError(f"rate is not needed: the {field} is in USD; expected no rate and no rate_on")
    if currency != "USD" and (rate is None or rate_on is None or rate.currency != currency):
        raise ValueError(f"{field} is in {currency}; expected rate, such as 1.08 USD/{currency}, and rate_on, the day of that rate")


Priced = Annotated[Money, BeforeValidator(_money), WithJsonSchema({"type": "string", "examples": ["2.29 USD/GPU-hour"]})]
Worth = Annotated[Rate, BeforeValidator(_rate), WithJsonSchema({"type": "string", "examples": ["1.08 USD/EUR"]})]


class ContractPrice(Declared):
    """One price. It holds from `since` (included) until `until` (excluded)."""

    purchase: Purchase
    term: Term | None = Field(None, description="how long a reservation binds, 1y or 3y")
    price: Priced
    rate: Worth | None = Field(None, description="what the price's currency is worth; needed for any but USD")
    rate_on: date | None = Field(None, description="the day of that rate")
    since: date
    until: date | None = None

    @property
    def usd_per_unit(self) -> float:
        """USD for one unit of the price's currency."""
        return self.rate.usd if self.rate is not None else 1.0

    @model_validator(mode="after")
    def _consistent(self) -> ContractPrice:
        if self.until is not None and self.until <= self.since:
            raise ValueError(f"until {self.until} is not after since {self.since}; expected a later date")
        if self.term is not None and self.purchase != "reserved":
            raise ValueError(f"term {self.term} does not fit purchase {self.purchase}; expected purchase: reserved, or no term")
        check_worth(self.price.currency, self.rate, self.rate_on)
        return self


class Contract(Declared):
    """One YAML file under `include/config/contracts/`; a provider's `price_sources` names it."""

    name: Name
    description: str = ""
    source: str = Field(min_length=3, description="the document that says so, such as 'contract 2026-114, annex B'")
    prices: tuple[ContractPrice, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _one_at_a_time(self) -> Contract:
        kinds: dict[tuple[str, str | None], list[ContractPrice]] = {}
        for price in self.prices:
            kinds.setdefault((price.purchase, price.term), []).append(price)
        for (purchase, term), prices in kinds.items():
            for earlier, later in pairwise(sorted(prices, key=lambda p: p.since)):
                if earlier.until is None or earlier.until > later.since:
                    what = f"{purchase} {term}" if term else purchase
                    raise ValueError(f"two {what} prices hold on {later.since}; expected `until: {later.since}` or earlier on the first")
        return self

    def on(self, day: date) -> tuple[ContractPrice, ...]:
        """The prices that hold on a day, at most one for each purchase and term."""
        return tuple(p for p in self.prices if p.since <= day and (p.until is None or day < p.until))
