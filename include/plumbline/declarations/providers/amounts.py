"""Amounts of money as text with their currency, such as `2.29 USD/GPU-hour`, and their exchange rate to USD."""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated, Literal, NamedTuple

from pydantic import BeforeValidator, Field, PlainSerializer

from plumbline.declarations.base import Declared
from plumbline.metrics.units import MONEY, text_schema

_NUMBER = r"\d+(?:\.\d+)?"
_HOURLY_AMOUNT = re.compile(rf"({_NUMBER}) ([A-Z]{{3}})/(GPU-hour|instance-hour)")
_EXCHANGE_RATE = re.compile(rf"({_NUMBER}) USD/([A-Z]{{3}})")
_UNIT_PRICE = re.compile(rf"({_NUMBER}) ([A-Z]{{3}})/([A-Za-z][A-Za-z0-9-]*)")
_AMOUNT = re.compile(rf"({_NUMBER}) ([A-Z]{{3}})")


class HourlyAmount(NamedTuple):
    """An amount of a currency (ISO 4217) for one hour of a GPU or of the whole instance."""

    amount: float
    currency: str
    per: Literal["gpu_hour", "instance_hour"]


class ExchangeRate(NamedTuple):
    """USD for one unit of a currency."""

    usd: float
    currency: str


class PerUnit(NamedTuple):
    """An amount of a currency (ISO 4217) for one unit of something."""

    amount: float
    currency: str
    per: str


class CurrencyAmount(NamedTuple):
    """An amount of a currency (ISO 4217)."""

    amount: float
    currency: str


def match_text(pattern: re.Pattern[str], value: object, expected: str, *, above_zero: bool = False) -> re.Match[str]:
    """The match of a whole text, whose first group is a number; ValueError with what it is not, and what was `expected`."""
    match = pattern.fullmatch(value) if isinstance(value, str) else None
    if match is None or (above_zero and float(match[1]) == 0):
        raise ValueError(f'"{value}" is not {expected}')
    return match


def _parse_hourly_amount(value: object) -> HourlyAmount:
    shape = "a price above 0 with its currency and hour; expected a price such as 2.29 USD/GPU-hour or 19.80 EUR/instance-hour"
    match = match_text(_HOURLY_AMOUNT, value, shape, above_zero=True)
    return HourlyAmount(float(match[1]), match[2], "gpu_hour" if match[3] == "GPU-hour" else "instance_hour")


def _parse_exchange_rate(value: object) -> ExchangeRate:
    match = match_text(_EXCHANGE_RATE, value, "an exchange rate to USD; expected a rate such as 1.08 USD/EUR", above_zero=True)
    return ExchangeRate(float(match[1]), match[2])


def _parse_unit_price(value: object) -> PerUnit:
    match = match_text(_UNIT_PRICE, value, "a price with its currency and unit; expected one such as 0.08 USD/GB-month")
    return PerUnit(float(match[1]), match[2], match[3])


def _parse_amount(value: object) -> CurrencyAmount:
    match = match_text(_AMOUNT, value, "an amount with its currency; expected one such as 1234.50 USD")
    return CurrencyAmount(float(match[1]), match[2])


HourlyAmountText = Annotated[HourlyAmount, BeforeValidator(_parse_hourly_amount), text_schema("2.29 USD/GPU-hour"), MONEY]
ExchangeRateText = Annotated[ExchangeRate, BeforeValidator(_parse_exchange_rate), text_schema("1.08 USD/EUR"), MONEY]
PricePerUnit = Annotated[
    PerUnit,
    BeforeValidator(_parse_unit_price),
    PlainSerializer(lambda p: f"{p.amount:.15g} {p.currency}/{p.per}", return_type=str),
    text_schema("0.08 USD/GB-month"),
    MONEY,
]
Amount = Annotated[
    CurrencyAmount,
    BeforeValidator(_parse_amount),
    PlainSerializer(lambda a: f"{a.amount:.15g} {a.currency}", return_type=str),
    text_schema("1234.50 USD"),
    MONEY,
]


class Exchanged(Declared):
    """An amount in any currency, with its exchange rate to USD."""

    rate: ExchangeRateText | None = Field(None, description="exchange rate of the currency; required unless USD")
    rate_on: date | None = Field(None, description="the day of that rate")

    @property
    def usd_per_unit(self) -> float:
        """USD for one unit of the currency."""
        return self.rate.usd if self.rate is not None else 1.0

    def check_currency(self, currency: str, field: str = "price") -> None:
        """ValueError unless the `field`'s currency has an exchange rate with its day; USD must have none."""
        if currency == "USD" and (self.rate is not None or self.rate_on is not None):
            raise ValueError(f"rate is not needed: the {field} is in USD; expected no rate and no rate_on")
        if currency != "USD" and (self.rate is None or self.rate_on is None or self.rate.currency != currency):
            raise ValueError(f"{field} is in {currency}; expected rate, such as 1.08 USD/{currency}, and rate_on, the day of that rate")


class SourcedAmount(Exchanged):
    """An amount with its source."""

    source: str = Field(min_length=3, description="of the figure, such as 'price page, 2026-11-02' or 'invoice 4711'")
