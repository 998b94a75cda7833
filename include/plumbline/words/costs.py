"""Cost forecasts in words."""

from __future__ import annotations

from plumbline.analysis.cost.scenarios import Driver, Fleet
from plumbline.metrics.formatting import format_significant


def fleet_text(fleet: Fleet) -> str:
    """The instances of a month, such as `2.4 instances needed, 3 bought, 0.6 slack`."""
    if not fleet.whole:
        return f"{format_significant(fleet.needed)} instances on average, held by the hour"
    slack = format_significant(fleet.bought - fleet.needed)
    return f"{format_significant(fleet.needed)} instances needed, {fleet.bought:g} bought, {slack} slack"


def format_driver(driver: Driver, value: float) -> str:
    """A driver's value with its unit, such as `3.6 USD/h`."""
    if driver in ("utilisation", "failure_rate"):
        return f"{100 * value:.3g} %"
    return f"{format_significant(value)}{'/s' if driver == 'rate' else ' USD/h' if driver == 'price' else ' USD a month'}"
