"""The current numbers of every provider on every workload: what a heat map, a scatter and the marks of a scorecard are made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, get_args

from plumbline.analysis.cost.all_in import Priced, all_in
from plumbline.analysis.cost.monthly_worth import monthly_hours
from plumbline.analysis.cost.unit_costs import costs_of
from plumbline.analysis.prices.book import Quote
from plumbline.analysis.scorecards.placings import Placing, place
from plumbline.analysis.trial_sample import PHASE_ORDER, WorkloadKind
from plumbline.declarations.alerts import RentedVolume
from plumbline.metrics import METRICS, Metric, leading, leading_names, with_own
from plumbline.metrics.pooling import Pooled, pool
from plumbline.metrics.units import Amount

Key = tuple[str, str, str]
"""(metric, statistic, phase)"""

Number = tuple[str, str, str | None]
"""(metric, statistic, phase); no phase: the first of PHASE_ORDER in which it was measured."""


def usual_numbers(kind: WorkloadKind) -> tuple[Number, ...]:
    """What comes first of a workload that is no longer declared, or did not measure what it declares: the first one that was measured."""
    names = (*leading(kind)[0], *(leading_names("whole_answer") if kind == "inference" else ()))
    return tuple((name, METRICS[name].statistic, None) for name in names)


@dataclass(frozen=True)
class FleetSeries:
    """One provider's current results on one workload. `measured`: the numbers of each usable trial; `price`: of the share of an instance that
    its trials hold, None where none can be charged. `planned_at`: of its campaign. `usd_per_hour`: of a whole instance; `outcomes_per_month`: of its workload at
    the declared volumes, whatever the provider, in the outcomes that the fitting cost is of. `beside`: what is paid beside the hours; None: nothing.
    `own_metrics`: those that the workload declares."""

    provider: str
    kind: WorkloadKind
    workload: str
    version: int
    series_key: str
    campaign_id: str
    planned_at: datetime
    simulated: bool
    measured: tuple[Mapping[Key, float], ...]
    price: Quote | None
    nodes: int = 1
    epoch_size: int | None = None
    usd_per_hour: Amount | None = None
    outcomes_per_month: float | None = None
    beside: Priced | None = None
    own_metrics: tuple[Metric, ...] = ()

    def values(self, metric: str, statistic: str, phase: str | None = None) -> tuple[float, ...]:
        """One number of each trial; without a phase, of the first phase of PHASE_ORDER in which it was measured."""
        for at in (phase,) if phase else PHASE_ORDER:
            if values := tuple(own[metric, statistic, at] for own in self.measured if (metric, statistic, at) in own):
                return values
        return ()

    def costs(self) -> dict[str, tuple[float, ...]]:
        """Each cost metric that follows from measured rates and the price, by trial; costs by held time need whole documents."""
        costs: dict[str, list[float]] = {}
        for own in self.measured if self.price is not None else ():

            def measured(metric: str, statistic: str, phase: str, own: Mapping[Key, float] = own) -> float | None:
                return own.get((metric, statistic, phase))

            assert self.price is not None
            each = costs_of(self.kind, self.price, measured, nodes=self.nodes, epoch_size=self.epoch_size)
            if self.beside is not None:
                each = all_in(each, *self.beside, measured, self.nodes).costs
            for cost in each:
                if cost.value is not None:
                    costs.setdefault(cost.metric, []).append(cost.value)
        return {metric: tuple(values) for metric, values in costs.items()}


@dataclass(frozen=True)
class Fleet:
    """`series`: one for each provider and workload with usable results."""

    series: tuple[FleetSeries, ...]

    def of(self, workload: str) -> tuple[FleetSeries, ...]:
        return tuple(s for s in self.series if s.workload == workload)


def pooled(own: Sequence[FleetSeries], metric: str, statistic: str, phase: str | None = None) -> dict[str, Pooled]:
    """Provider → one number over its usable trials."""
    return {s.provider: pool(values) for s in own if (values := s.values(metric, statistic, phase))}


CostUnit = Literal["token", "hour", "month"]
COST_UNITS: tuple[CostUnit, ...] = get_args(CostUnit)
"""Units of a cost: the outcome, such as a million tokens; an instance-hour; a month at the declared volumes."""
HOURLY, MONTHLY = "price_per_hour", "cost_per_month"


def unit_of(cost: str) -> str:
    """The unit of a cost that pooled_costs names; empty without a name."""
    return "" if not cost else METRICS[cost].unit if cost in METRICS else "USD"


def pooled_costs(own: Sequence[FleetSeries], per: CostUnit = "token") -> tuple[str, dict[str, Pooled]]:
    """The cost that fits what was measured, and each provider's, in USD; an empty name without any."""
    if per == "hour":
        # A price is exact: without a width, nothing else is like the cheapest.
        prices = {s.provider: Pooled(usd, usd, usd, None, 1) for s in own if (usd := s.usd_per_hour) is not None}
        return (HOURLY, prices) if prices else ("", {})
    metric, pooled = _outcome_costs(own)
    if per == "token":
        return metric, pooled
    month = next((s.outcomes_per_month for s in own if s.outcomes_per_month), None)
    if month is None:
        return "", {}
    return MONTHLY, {s.provider: pool([v * month for v in values]) for s in own if (values := s.costs().get(metric))}


def with_monthly_outcomes(series: Sequence[FleetSeries], volumes: Sequence[RentedVolume]) -> tuple[FleetSeries, ...]:
    """The series with their outcomes a month: the work of the declared rented hours on their provider."""
    done: dict[str, float] = {}
    for s in series:
        among = {other.workload for other in series if other.provider == s.provider}
        hours = [each for _, each in monthly_hours(s.provider, s.workload, among, volumes)]
        if not hours or s.usd_per_hour is None:
            continue
        _, costs = _outcome_costs([other for other in series if other.workload == s.workload])
        if s.provider in costs and costs[s.provider].value:
            done[s.workload] = done.get(s.workload, 0.0) + sum(hours) * s.usd_per_hour / costs[s.provider].value
    return tuple(replace(s, outcomes_per_month=done.get(s.workload)) for s in series)


def _outcome_costs(own: Sequence[FleetSeries]) -> tuple[str, dict[str, Pooled]]:
    costs = {s.provider: s.costs() for s in own}
    for metric in leading_names(f"{own[0].kind}_cost") if own else ():
        if pooled := {provider: pool(values[metric]) for provider, values in costs.items() if metric in values}:
            return metric, pooled
    return "", {}


def leading_number(own: Sequence[FleetSeries], first: Number | None) -> Number:
    """The workload's `first` number where any provider measured it, else the kind's first usual one that was measured. `own`: of one workload, at least one."""
    usual = usual_numbers(own[0].kind)
    candidates = (*((first,) if first is not None else ()), *usual)
    return next((number for number in candidates if any(s.values(*number) for s in own)), usual[0])


def metric_among(own: Sequence[FleetSeries], name: str) -> Metric:
    """A metric of one workload, which may be its own."""
    return with_own(own[0].own_metrics if own else ())[name]


def placings_of(own: Sequence[FleetSeries], metric: str, statistic: str, phase: str | None = None) -> tuple[Placing, ...]:
    """Every provider's place on one measured number."""
    return place(pooled(own, metric, statistic, phase), metric_among(own, metric).direction == "lower_is_better")
