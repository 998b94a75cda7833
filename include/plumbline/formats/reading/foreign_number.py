"""Numbers and moments that others wrote: finite, of a size that a measurement, an amount or a log can have, and of this century.

Every reader of a foreign file takes its numbers from here, so that none of them meets NaN, infinity, 1e300 or the year 1."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timezone
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

from pydantic import BeforeValidator

MAX_NUMBER = 1e15
"""Larger numbers are damage: 1e15 ns are eleven days, 1e15 USD no bill."""
MAX_COUNT = 10**12
"""Of whole things, such as steps, tokens or GPUs."""
FIRST, AFTER = (datetime(year, 1, 1, tzinfo=timezone.utc) for year in (2000, 2101))
"""Moments that a file may name, the second excluded: far enough from both ends of a calendar that any arithmetic with days holds."""
_MOMENT = "a time from 2000 until 2100"


class ForeignNumber(ValueError):
    """It is no such number; `expected` is the shape in words. Whoever reads the file adds file, line and field. `finite`: it is a number, too large."""

    def __init__(self, value: object, expected: str, finite: bool = False) -> None:
        self.value, self.expected, self.finite = value, expected, finite
        super().__init__(f"{described(value)}; expected {expected}")


def described(value: object) -> str:
    """A value in a message, of which long ones are only named."""
    try:
        text = f'"{value}"' if isinstance(value, str) else repr(value)
    except ValueError:  # an integer of more digits than Python writes
        return "a number of thousands of digits"
    return text if len(text) <= 60 else f"{text[:30]}… of {len(text) - 2 * isinstance(value, str):,} characters"


def number(value: Any, *, least: float = -MAX_NUMBER, most: float = MAX_NUMBER, above: bool = False, unit: str = "") -> float:
    """A finite number from `least` (with `above`: more than it) to `most`, of a number or a text without separators. ForeignNumber."""
    expected = f"a number {'above' if above else 'from'} {least:g} to {most:g} {unit}".rstrip()
    try:
        if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)) or (isinstance(value, str) and "_" in value):
            raise TypeError
        found = float(value)
    except (TypeError, ValueError, OverflowError, InvalidOperation):
        raise ForeignNumber(value, expected) from None
    if not (least <= found <= most) or (above and found == least):  # false for NaN too
        raise ForeignNumber(value, expected)
    return found


def whole(value: Any, *, least: int = 0, most: int = MAX_COUNT) -> int:
    """A whole number from `least` to `most`. ForeignNumber."""
    expected = f"a whole number from {least:,} to {most:,}"
    try:
        found = number(value, least=least, most=most)
    except ForeignNumber:
        raise ForeignNumber(value, expected) from None
    if found != int(found):
        raise ForeignNumber(value, expected)
    return int(found)


def amount(text: str) -> Decimal:
    """An exact number of a bill, up to MAX_NUMBER on both sides of 0. ForeignNumber."""
    expected = f"a finite number such as 98.32, without a currency, at most {MAX_NUMBER:g}"
    try:
        found = Decimal("" if "_" in text else text)
    except InvalidOperation:
        raise ForeignNumber(text, expected) from None
    if not found.is_finite() or abs(found) > Decimal(MAX_NUMBER):
        raise ForeignNumber(text, expected, found.is_finite())
    # Digits behind the fifteenth decimal place are none of a currency, and a million of them cost time in each sum.
    return found if len(found.as_tuple().digits) <= 60 and found.adjusted() > -60 else Decimal(repr(float(found)))


def moment(value: Any, expected: str = "a time such as 2026-11-01T00:00:00Z") -> datetime:
    """A moment in UTC from FIRST until AFTER, of a text in ISO 8601 (UTC without a zone) or of seconds since 1970. ForeignNumber."""
    try:
        if isinstance(value, str):
            read = datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
            found = read.astimezone(timezone.utc) if read.tzinfo else read.replace(tzinfo=timezone.utc)
        else:
            found = datetime.fromtimestamp(number(value), timezone.utc)
    except ForeignNumber:
        raise ForeignNumber(value, expected) from None
    except (ValueError, OverflowError, OSError):
        raise ForeignNumber(value, f"{expected}, from 2000 until 2100" if _has_year(value) else expected) from None
    if not FIRST <= found < AFTER:
        raise ForeignNumber(value, f"{_MOMENT}, such as 2026-11-01")
    return found


def day(value: date) -> date:
    """A day of this century. ForeignNumber."""
    if not FIRST.date() <= value < AFTER.date():
        raise ForeignNumber(str(value), f"{_MOMENT}, such as 2026-11-01")
    return value


def _has_year(value: Any) -> bool:
    """Whether a text in ISO 8601 was refused for its year alone."""
    try:
        datetime.fromisoformat(str(value).strip().replace("Z", "")[:19])
    except ValueError:
        return False
    return True


def _typed(read: Callable[[Any], Any]) -> BeforeValidator:
    def checked(value: Any) -> Any:
        return None if value is None else read(value)

    return BeforeValidator(checked)


Amount = Annotated[float, _typed(lambda value: number(value, least=0.0))]
"""The type of a model's field that others write: a sum or a time of at least 0."""
Count = Annotated[int, _typed(lambda value: whole(value, most=2**60))]
"""Whole things, such as bytes."""
Nanoseconds = Annotated[int, _typed(lambda value: whole(value, most=2**62))]
"""A moment of a clock that began with the machine."""
