"""Quantities with units: parsing, validation, serialisation. In memory every quantity is a float in SI units."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_QUANTITY = re.compile(r"^\s*([+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*(.*?)\s*$")

SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
PER_SECOND = {"/s": 1.0, "/min": 1 / 60, "/h": 1 / 3600, "/d": 1 / 86400, "/month": 1 / (30.4375 * 86400)}
FRACTION = {"%": 0.01}
BYTES = {"B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
GROWTH = {"%/month": 0.01}
USD_PER_HOUR = {"USD/h": 1.0, "USD/month": 1 / 730.5}
USD_PER_MONTH = {"USD/month": 1.0, "USD/year": 1 / 12}
USD_PER_TOKEN = {"USD/token": 1.0, "USD/1ktokens": 1e-3, "USD/1Mtokens": 1e-6}
USD_PER_REQUEST = {"USD/request": 1.0, "USD/1krequests": 1e-3, "USD/1Mrequests": 1e-6}
MULTIPLE = {"x": 1.0}


def exact(value: float) -> Fraction:
    """The decimal that a float stands for: the shortest one that reads back as it."""
    return Fraction(repr(float(value)))


def parse(text: object, units: Mapping[str, float], what: str, example: str) -> float:
    """The value of `text` in SI.

    Raises ValueError naming what was written and the shape that is expected, e.g. `"8" has no unit; expected a rate such as 8/s`.
    """
    if not isinstance(text, str):
        raise ValueError(f'"{text}" has no unit; expected {what} such as {example}')
    match = _QUANTITY.match(text)
    if match is None:
        raise ValueError(f'"{text}" is not a number with a unit; expected {what} such as {example}')
    unit = match[2].replace(" ", "")
    if not unit:
        raise ValueError(f'"{text}" has no unit; expected {what} such as {example}')
    if unit not in units:
        raise ValueError(f'"{text}" has the unit "{unit}"; expected {what} such as {example} (one of {", ".join(units)})')
    try:
        # Exact: 95% is the float 0.95 and 1/min times 60 is 1, so that what is written back reads as the same value.
        exponent = int(match[1].lower().partition("e")[2] or 0)
        value = float(Fraction(match[1]) * _exact(units[unit])) if abs(exponent) < 400 else math.inf
    except OverflowError:
        value = math.inf
    if math.isinf(value):
        raise ValueError(f'"{text}" is out of range; expected {what} such as {example}')
    return value


def _exact(factor: float) -> Fraction:
    """The factor as it is meant: below 1 it is one over a number that has few digits (1/60, not the float nearest to it)."""
    return Fraction(factor) if factor >= 1 else 1 / Fraction(round(1 / factor, 6))


def _written(units: Mapping[str, float]) -> Callable[[float], str]:
    """Writes a value in the table's SI unit (percent for fractions), with every digit: read back, it is the same value."""
    unit = next(name for name, factor in units.items() if factor == 1.0 or units in (FRACTION, GROWTH))
    space = " " if unit.startswith("USD") else ""
    return lambda value: f"{_digits(Decimal(repr(value)) / Decimal(repr(units[unit])))}{space}{unit}"


def _digits(value: Decimal) -> str:
    return format(value, "f").rstrip("0").rstrip(".") if "." in format(value, "f") else format(value, "f")


class MoneyType:
    """Metadata of a type whose values are amounts of money: readers without access to costs get no field of such a type. `aside`: what the amount
    is a field of is about other things too, and is shown without it."""

    def __init__(self, aside: bool = False) -> None:
        self.aside = aside


MONEY = MoneyType()
Amount = Annotated[float, MONEY]
"""An amount of money, or a price, that was checked before."""
AmountText = Annotated[str, MONEY]
"""A text that is about an amount of money, or about a share of a bill."""


def text_schema(example: str) -> WithJsonSchema:
    """The JSON Schema of a value that is written as text."""
    return WithJsonSchema({"type": "string", "examples": [example]})


def _quantity(
    units: Mapping[str, float], what: str, example: str, *, zero: bool = False, high: float = math.inf, money: MoneyType | None = None
) -> Any:
    @lru_cache(maxsize=1024)  # the documents of a campaign repeat the same few quantities thousands of times
    def known(text: str) -> float:
        return parse(text, units, what, example)

    def check(value: object) -> float:
        number = known(value) if isinstance(value, str) else parse(value, units, what, example)
        if number < 0 or (number == 0 and not zero):
            raise ValueError(f'"{value}" must be {"at least" if zero else "above"} 0; expected {what} such as {example}')
        if number > high:
            raise ValueError(f'"{value}" is too much; expected {what} such as {example}')
        return number

    return Annotated[
        float,
        BeforeValidator(check),
        PlainSerializer(_written(units), return_type=str),
        text_schema(example),
        MONEY if any(unit.startswith("USD") for unit in units) else money,
    ]


Duration = _quantity(SECONDS, "a duration", "60s")
Pause = _quantity(SECONDS, "a duration", "2s", zero=True)
Rate = _quantity(PER_SECOND, "a rate", "8/s")
Percent = _quantity(FRACTION, "a percentage", "5%")
Share = _quantity(FRACTION, "a percentage up to 100%", "95%", high=1.0)
CreditShare = _quantity(FRACTION, "a percentage up to 100%", "95%", high=1.0, money=MoneyType(aside=True))
"""A share of a bill."""
Spread = _quantity(FRACTION, "a percentage from 0% to 100%", "0.5%", zero=True, high=1.0)
ByteSize = _quantity(BYTES, "a size", "8GiB")
HourlyPrice = _quantity(USD_PER_HOUR, "a price", "12.29 USD/h", zero=True)
MonthlyAmount = _quantity(USD_PER_MONTH, "an amount a month", "15000 USD/month", zero=True)
TokenPrice = _quantity(USD_PER_TOKEN, "a price of tokens", "0.20 USD/1M tokens", zero=True)
RequestPrice = _quantity(USD_PER_REQUEST, "a price of requests", "0.50 USD/1k requests", zero=True)
MonthlyGrowth = _quantity(GROWTH, "a growth", "5%/month", zero=True, high=10.0)
Multiple = _quantity(MULTIPLE, "a multiple", "1.2x")
