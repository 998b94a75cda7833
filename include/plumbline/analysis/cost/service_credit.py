"""The credit that a broken promise grants, in money."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from fractions import Fraction

from plumbline.analysis.cost.bill import Money
from plumbline.declarations import Provider
from plumbline.declarations.alerts import RentedVolume
from plumbline.metrics.time_spans import month_span
from plumbline.metrics.units import exact


def credit_of(share: float, provider: Provider, volumes: Sequence[RentedVolume], at: datetime) -> Money | None:
    """The share that is granted of the bill of the month that `at` lies in, to the cent: the declared volumes, spread evenly over its days, each at
    its own price. None without volumes, or where a day has no price."""
    first, end = (each.date() for each in month_span(at))
    days, bill = [first + timedelta(days=n) for n in range((end - first).days)], Fraction(0)
    for volume in volumes:
        prices = [price.price for day in days if (price := provider.price_on(day, volume.purchase)) is not None]
        if len(prices) < len(days):
            return None
        bill += exact(volume.time_per_month) / 3600 * sum(map(exact, prices)) / len(days)
    return Money(float(Money(float(exact(share) * bill)).cents)) if bill else None
