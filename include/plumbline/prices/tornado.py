"""Which assumption the cost of an outcome hangs on: each driver moved over its range while the others stay as expected. Pure arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

from plumbline.prices.scenarios import CostModel, Driver, Range, cost_at


@dataclass(frozen=True)
class Bar:
    """One driver over its range: what the outcomes cost at its low and at its high end, USD."""

    driver: Driver
    range: Range
    at_low: float
    at_high: float

    @property
    def width(self) -> float:
        """How far the driver alone moves the cost, USD."""
        return abs(self.at_high - self.at_low)


@dataclass(frozen=True)
class Tornado:
    """What `amount` outcomes cost as expected, USD, and the drivers, the one that moves it most first."""

    amount: float
    expected: float
    bars: tuple[Bar, ...]


def tornado(model: CostModel, amount: float) -> Tornado:
    """A bar for each driver that has a range; one that is known exactly has none."""
    bars = [
        Bar(
            driver,
            span,
            cost_at(model, amount, model.at({driver: "low"})).total,
            cost_at(model, amount, model.at({driver: "high"})).total,
        )
        for driver, span in model.ranges.items()
        if span.low < span.high
    ]
    bars.sort(key=lambda bar: -bar.width)
    return Tornado(amount, cost_at(model, amount, model.at({})).total, tuple(bars))
