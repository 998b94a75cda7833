"""Readings of prices as the archive takes them in."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from plumbline.results.price_reading import Reading

FIRST = datetime(2026, 11, 1, 6, tzinfo=timezone.utc)


def reading(number: int, amount: float = 2.5, **other: Any) -> Reading:
    """The on-demand price that was read `number` days after FIRST, per GPU-hour of an instance with 8."""
    of: dict[str, Any] = {
        "provider": "lab-2core",
        "purchase": "on_demand",
        "term": None,
        "source": "gpuhunt",
        "source_version": "20261101",
        "observed_at": FIRST + timedelta(days=number),
        "amount": amount,
        "currency": "USD",
        "per": "gpu_hour",
        "gpus": 8,
    }
    return Reading(**(of | other))
