"""Readings of prices for tests, one a day."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

from plumbline.results.price_reading import Reading

FIRST = datetime(2026, 11, 1, 6, tzinfo=timezone.utc)
ONE = Reading("coreweave-h100", "on_demand", None, "csv", "prices.csv", FIRST, 2.39, "USD", "gpu_hour", 8)
SPOT = replace(ONE, purchase="spot")
RESERVED = replace(ONE, purchase="reserved", term="1y")


def days(*prices: float, of: Reading = ONE, start: int = 0) -> list[Reading]:
    """A reading a day, in USD per GPU-hour."""
    return [replace(of, amount=price, observed_at=FIRST + timedelta(days=start + i)) for i, price in enumerate(prices)]
