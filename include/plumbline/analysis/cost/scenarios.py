"""The cost of an outcome at best, as expected and at worst, by utilisation and further costs. Pure arithmetic.

    instance-hours = volume / (3600 · rate · utilisation · (1 − failure rate)), but at least always_on · 730.5 a month
    paid by the month (always_on, reserved, owned): whole instances, instance-hours rounded up to a multiple of 730.5
    scaled to zero: the hours in which requests keep it up, `scale_to_zero`, whatever the utilisation
    cost           = instance-hours · price + (egress + storage + engineering + support) a month

`rate` is what the instances deliver together while they are asked, as measured; `utilisation` the share of the paid time in which they are;
`failure rate` the share of the paid work that has to be done again. Every driver moves the cost one way only, so that the best and the worst
case lie at the ends of the ranges. Without a monthly volume there is no telling how much of what is paid by the month falls on an outcome:
those parts are then None, and so is what rests on them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from plumbline.analysis.cost.scale_to_zero import ScaleToZero
from plumbline.analysis.cost.trial_bill import MONTH_H
from plumbline.analysis.cost.unit_costs import HOUR_S

Driver = Literal["price", "rate", "utilisation", "failure_rate", "egress", "storage"]
DEARER: dict[Driver, Literal["low", "high"]] = {
    "price": "high",
    "rate": "low",
    "utilisation": "low",
    "failure_rate": "high",
    "egress": "high",
    "storage": "high",
}
"""The end of each driver's range at which an outcome costs more."""


@dataclass(frozen=True)
class Range:
    """The expected, lowest and highest value of a driver. ValueError if these do not rise, or are below 0."""

    low: float
    expected: float
    high: float

    def __post_init__(self) -> None:
        if not (0 <= self.low <= self.expected <= self.high < math.inf):
            raise ValueError(f"the range {self.low}, {self.expected}, {self.high}; expected 0 <= low <= expected <= high")

    @classmethod
    def fixed(cls, value: float) -> Range:
        """A driver that is known."""
        return cls(value, value, value)

    def times(self, factor: float) -> Range:
        """All three, multiplied."""
        return Range(self.low * factor, self.expected * factor, self.high * factor)


@dataclass(frozen=True)
class FleetScenario:
    """`needed`: mean instances of a month (each all that deliver the rate together); `bought`: as many, or whole ones."""

    needed: float
    bought: float
    whole: bool

    @property
    def hours(self) -> float:
        """Instance-hours that are paid in a month."""
        return self.bought * MONTH_H


def fleet(volume: float, rate: float, used: float = 1.0, failing: float = 0.0, always_on: int = 0, whole: bool = False) -> FleetScenario:
    """The instances for `volume` outcomes in a month. `always_on` and `whole`: paid by the month, which no part of an instance is."""
    needed, whole = volume / (HOUR_S * rate * used * (1 - failing)) / MONTH_H, whole or always_on > 0
    return FleetScenario(needed, max(math.ceil(round(needed, 9)), always_on) if whole else needed, whole)


@dataclass(frozen=True)
class CostModel:
    """The drivers of an outcome's cost. None: not known, and left out of the cost (as if every paid hour delivered, as if nothing failed).

    `price`: USD an hour of all instances that deliver `rate` (outcomes a second) together. `utilisation` (0 … 1], `failure_rate` [0 … 1).
    `egress`, `storage`, `engineering`, `support`: USD a month. `support_share`: of what the instances cost. `whole`: they are paid by the month. `volume`: outcomes a month. `always_on`: how many times those instances are paid all month.
    `scaled`: of an endpoint that scales to zero, with the requests that one outcome takes; it needs a volume.
    """

    price: Range
    rate: Range
    utilisation: Range | None = None
    failure_rate: Range | None = None
    egress: Range | None = None
    storage: Range | None = None
    engineering: float | None = None
    volume: float | None = None
    always_on: int = 0
    support: float | None = None
    support_share: float = 0.0
    whole: bool = False
    scaled: tuple[ScaleToZero, float] | None = None

    def __post_init__(self) -> None:
        if self.scaled is not None and self.volume is None:
            raise ValueError("no volume of an endpoint that scales to zero; expected the outcomes of a month")
        if self.rate.low <= 0:
            raise ValueError(f"a rate of {self.rate.low:g}/s: nothing is delivered for the price; expected one above 0")
        if self.utilisation is not None and not (self.utilisation.low > 0 and self.utilisation.high <= 1):
            raise ValueError(f"utilisation {self.utilisation.low:g} to {self.utilisation.high:g}; expected above 0 and at most 1")
        if self.failure_rate is not None and self.failure_rate.high >= 1:
            raise ValueError(f"failure rate up to {self.failure_rate.high:g}; expected below 1")
        if self.volume is not None and self.volume <= 0:
            raise ValueError(f"a volume of {self.volume:g} a month; expected one above 0")

    @property
    def ranges(self) -> dict[Driver, Range]:
        """The drivers that are known; what is paid by the month only where the volume is known."""
        ranges: dict[Driver, Range | None] = {
            "price": self.price,
            "rate": self.rate,
            "utilisation": self.utilisation,
            "failure_rate": self.failure_rate,
            "egress": self.egress if self.volume is not None else None,
            "storage": self.storage if self.volume is not None else None,
        }
        return {driver: span for driver, span in ranges.items() if span is not None}

    def fleet(self, volume: float, values: Mapping[Driver, float]) -> FleetScenario:
        """The instances for `volume` outcomes at these values; whole ones only of a month's volume."""
        if self.scaled is not None:
            endpoint, each = self.scaled
            sent = volume * each / (1 - values.get("failure_rate", 0.0))
            up = replace(endpoint, rate=values["rate"] * each).hours(sent) / MONTH_H
            return FleetScenario(up, up, False)
        rounding = (self.always_on, self.whole) if self.volume is not None else (0, False)
        return fleet(volume, values["rate"], values.get("utilisation", 1.0), values.get("failure_rate", 0.0), *rounding)

    def at(self, ends: Mapping[Driver, Literal["low", "high"]]) -> dict[Driver, float]:
        """Every known driver's value: at the end that is named, else as expected."""
        return {driver: getattr(span, ends.get(driver, "expected")) for driver, span in self.ranges.items()}


@dataclass(frozen=True)
class Parts:
    """A cost in USD and what it is made of. `busy`: instances while they deliver what counts; `failed`: what has to be done again; `idle`:
    paid and not asked. None: not known, and not in the total."""

    busy: float
    failed: float
    idle: float
    egress: float | None = None
    storage: float | None = None
    engineering: float | None = None
    support: float | None = None

    @property
    def total(self) -> float:
        """The sum of what is known."""
        return math.fsum(part for part in self.by_name().values() if part is not None)

    def by_name(self) -> dict[str, float | None]:
        """The parts in their order."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True)
class Scenarios:
    """Cost of `amount` outcomes, USD."""

    amount: float
    best: Parts
    expected: Parts
    worst: Parts


def cost_at(model: CostModel, amount: float, values: Mapping[Driver, float]) -> Parts:
    """Cost of `amount` outcomes at these values of the drivers (`CostModel.at`)."""
    whole = model.volume if model.volume is not None else amount
    price, rate, failing = values["price"], values["rate"], values.get("failure_rate", 0.0)
    hours, busy_hours = model.fleet(whole, values).hours, fleet(whole, rate).hours
    failed_hours = busy_hours * failing / (1 - failing)
    share = price * amount / whole
    by_month = amount / model.volume if model.volume is not None else None
    idle_hours = max(0.0, hours - busy_hours - failed_hours)
    support = (model.support or 0.0) * (by_month or 0.0) + model.support_share * (busy_hours + failed_hours + idle_hours) * share
    return Parts(
        busy=busy_hours * share,
        failed=failed_hours * share,
        idle=idle_hours * share,
        egress=None if by_month is None or "egress" not in values else values["egress"] * by_month,
        storage=None if by_month is None or "storage" not in values else values["storage"] * by_month,
        engineering=None if by_month is None or model.engineering is None else model.engineering * by_month,
        support=support or None,
    )


def scenarios(model: CostModel, amount: float) -> Scenarios:
    """Best: every driver at its cheaper end at once; worst: at its dearer one. Both are bounds, rarer than any single range."""
    cheap: dict[Driver, Literal["low", "high"]] = {driver: "high" if end == "low" else "low" for driver, end in DEARER.items()}
    points = (cost_at(model, amount, model.at(ends)) for ends in (cheap, {}, DEARER))
    return Scenarios(amount, *points)


@dataclass(frozen=True)
class TornadoBar:
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
    """The expected cost of `amount` outcomes, USD, and its drivers, the most influential first."""

    amount: float
    expected: float
    bars: tuple[TornadoBar, ...]


def tornado(model: CostModel, amount: float) -> Tornado:
    """A bar for each driver that has a range; one that is known exactly has none."""
    bars = [
        TornadoBar(
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
