"""The verdict on a price in words: why it is held, outdated, or believed as the first one."""

from __future__ import annotations

from typing import Any

from plumbline.analysis.prices.check import IMPLAUSIBLE_MOVE, PriceReason, PriceVerdict
from plumbline.metrics.formatting import format_amount, format_money, format_percent
from plumbline.results.price_reading import Reading


def verdict_reason(checked: PriceVerdict) -> str | None:
    """The reason of a verdict; None of one that needs none."""
    return None if checked.reason is None else price_reason(checked.reason, checked.reading)


def verdict_data(checked: PriceVerdict) -> dict[str, Any]:
    """The fields of a verdict for JSON, its reason in words."""
    return {**vars(checked), "reason": verdict_reason(checked)}


def price_reason(reason: PriceReason, reading: Reading) -> str:
    """The reason for what is said of a `reading`, without a full stop."""
    price, compared = format_amount(reason.price), format_money(reason.compared)
    far = f"is more than {format_percent(IMPLAUSIBLE_MOVE)} away from the accepted {compared}"
    match reason.code:
        case "costs_nothing":
            return f"the source says {reason.price:g} USD, and nothing costs nothing"
        case "not_below_on_demand":
            return f"{reading.purchase} {price} is not below on-demand {compared}"
        case "far_below_on_demand":
            return f"{reading.purchase} {price} is below a tenth of on-demand {compared}"
        case "far_from_accepted":
            return f"{price} {far}"
        case "median_far_from_accepted":
            return f"the median {price} of three readings {far}"
        case "old":
            return f"it was observed on {reading.observed_at.date()}, {reason.days} days ago"
        case "first_alone":
            return f"it is the first price, and {reading.source} lists no other price of this product and size to compare it with"
        case "first_unlike_others":
            low, high = reading.typical or (0.0, 0.0)
            listed = f"{format_amount(low)} to {format_money(high)}" if low < high else format_money(high)
            return f"it is the first price, and {reading.source} lists this product and size elsewhere at {listed}"
        case "declared":
            return f"it is declared ({reading.source})"
        case "like_others":
            return "it is like what its source lists elsewhere for this product and size"
        case "confirmed":
            return f"{reason.source} says the same"
