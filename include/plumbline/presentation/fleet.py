"""The fleet as rows: every provider's place on a workload, and the heat map of providers and workloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from plumbline.analysis.fleet import CostUnit, FleetSeries, Number, leading_number, placings_of, pooled_costs, unit_of
from plumbline.analysis.scorecards.placings import Placing, place
from plumbline.metrics import METRICS
from plumbline.metrics.formatting import Scale, common_scale, format_name


@dataclass(frozen=True)
class NumberText:
    """One provider's number as text. `behind`: distance to the best in words, `best` for the first ones."""

    text: str
    interval: str
    behind: str
    leads: bool


@dataclass(frozen=True)
class RankingLine:
    """One provider on a workload; `first`, `cost`: None where it has no such number."""

    place: int | None
    provider: str
    first: NumberText | None
    cost: NumberText | None
    n: int


@dataclass(frozen=True)
class WorkloadRanking:
    """Every provider by its place on the primary number, then by cost. `metric`, `cost_metric`: names, empty where no provider has one."""

    metric: str
    cost_metric: str
    lines: tuple[RankingLine, ...]


def rank_fleet(own: Sequence[FleetSeries], primary: Number | None, per: CostUnit = "token") -> WorkloadRanking:
    """The providers of one workload, best first, by its `primary` number."""
    if not own:
        return WorkloadRanking("", "", ())
    metric, statistic, phase = leading_number(own, primary)
    speeds = {p.provider: p for p in placings_of(own, metric, statistic, phase)}
    cost_metric, found = pooled_costs(own, per)
    costs = {p.provider: p for p in place(found, lower_is_better=True)}
    fast = _scale(metric, speeds)
    cheap = common_scale(unit_of(cost_metric), [p.value for p in costs.values()], cost_metric)
    order = sorted(own, key=lambda s: (_place(speeds, s.provider), _place(costs, s.provider), s.provider))
    return WorkloadRanking(
        metric=format_name(metric) + ("" if statistic in ("", "value") else f" {statistic}") if speeds else "",
        cost_metric=format_name(cost_metric) if costs else "",
        lines=tuple(
            RankingLine(
                speeds[s.provider].place if s.provider in speeds else None,
                s.provider,
                _text(speeds.get(s.provider), fast),
                _text(costs.get(s.provider), cheap),
                len(s.measured),
            )
            for s in order
        ),
    )


def _place(placings: Mapping[str, Placing], provider: str) -> int:
    return placings[provider].place if provider in placings else len(placings) + 1


def _scale(metric: str, placings: Mapping[str, Placing]) -> Scale:
    return common_scale(METRICS[metric].unit if metric else "", [p.value for p in placings.values()], metric)


def _text(placing: Placing | None, shown: Scale) -> NumberText | None:
    if placing is None:
        return None
    interval = "" if placing.low is None or placing.high is None else f"{shown.number(placing.low)} … {shown.number(placing.high)}"
    return NumberText(shown.text(placing.value), interval, format_behind(placing), placing.leads)


def format_behind(placing: Placing) -> str:
    """`best`, `like the best` within the intervals, else `+12 %` or `−12 %` of the best value."""
    if placing.place == 1:
        return "best"
    if placing.leads:
        return "like the best"
    return f"{100 * placing.behind:.{0 if placing.behind >= 0.1 else 1}f} % behind"
