"""A change of a price in words: the same sentence in a finding of the price, and in what a choice moved for."""

from __future__ import annotations

from plumbline.metrics.formatting import format_change, format_day


def price_cause(provider: str, effect: float, since: str | None, price: str = "") -> str:
    """The cause as text, such as `p5 raised its spot price 30 % on 1 September 2026`. `effect`: a fraction; `since`: ISO 8601; `price`: which of its prices."""
    day = f" on {format_day(since)}" if since else ""
    return f"{provider} {'raised' if effect > 0 else 'cut'} its {f'{price} ' if price else ''}price {format_change(effect)[1:]}{day}"
