"""The interface of a price source, and its failures. A failure is never a price of 0."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime
from statistics import median
from typing import Protocol

from plumbline.declarations import Provider
from plumbline.results.price_reading import Reading

MOST_USD_PER_GPU_HOUR = 10_000.0
"""A thousand times what any accelerator costs: more is damage, or another unit."""


class PriceSourceError(Exception):
    """No price of `provider` was learnt from `source`; the message says why and what to do."""

    def __init__(self, source: str, provider: str, why: str, remedy: str) -> None:
        super().__init__(source, provider, why, remedy)
        self.source, self.provider, self.why, self.remedy = source, provider, why, remedy

    def __str__(self) -> str:
        return f"{self.source}, price of {self.provider}: {self.why}; {self.remedy}"


class PriceSourceDown(PriceSourceError):
    """The source cannot be read: time or its operator mends that."""


class NoPrice(PriceSourceError):
    """The source was read and says nothing that can be used for the provider: its declaration or the source's data mends that.

    `readings`: of the purchases that it does price, where another one failed.
    """

    def __init__(self, source: str, provider: str, why: str, remedy: str, readings: Iterable[Reading] = ()) -> None:
        super().__init__(source, provider, why, remedy)
        self.readings = tuple(readings)


class PriceSource(Protocol):
    """One way to learn prices."""

    def read(self, provider: Provider, at: datetime) -> list[Reading]:
        """The source's readings for the provider at `at` (UTC): at least one reading, at most one for each purchase and term.

        Raises PriceSourceDown if it cannot be read, NoPrice if it says nothing usable.
        """
        ...


_OUTLIER = 10.0


def typical_range(price: float, others: Iterable[float], elsewhere: Iterable[float] = ()) -> tuple[float, float] | None:
    """Lowest and highest price of a source's other instance types of one product and size; None without any.

    `elsewhere`: of `price`'s own instance type in other places. They count where there are no others, and only if prices differ by place: a
    wrong price is wrong everywhere. What is ten times away from the median is an error of its own.
    """
    usable = [other for other in others if math.isfinite(other) and other > 0]
    if not usable:
        own = [other for other in elsewhere if math.isfinite(other) and other > 0]
        usable = own if any(other != price for other in own) else []
    if not usable:
        return None
    middle = median(usable)
    near = [other for other in usable if middle / _OUTLIER < other < middle * _OUTLIER]
    return (min(near), max(near)) if near else None
