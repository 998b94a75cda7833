"""The fleet as rows: every provider's place on a workload, and the heat map: distance to the best, cost, drift, age or reliability."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

from plumbline.analysis.fleet import CostUnit, FleetSeries, Number, leading_number, metric_among, placings_of, pooled_costs, unit_of
from plumbline.analysis.scorecards.placings import Placing, place
from plumbline.metrics.formatting import Scale, common_scale, format_count, format_name
from plumbline.presentation.series_summary import ShownState


@dataclass(frozen=True)
class NumberText:
    """One provider's number as text. `behind`: distance to the best in words, `best` for the first ones. `tone`: by this number's own distance,
    `good` of the best and what is like it, `warn` from 10 %, `bad` from 25 % on."""

    text: str
    interval: str
    behind: str
    tone: str


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

    @property
    def best(self) -> RankingLine | None:
        return next((line for line in self.lines if line.first is not None and line.place == 1), None)

    @property
    def cheapest(self) -> RankingLine | None:
        return next((line for line in self.lines if line.cost is not None and line.cost.behind == BEST), None)

    @property
    def answer(self) -> str:
        """Who is best, who is cheapest and how far behind; empty for fewer than two providers."""
        first, cheapest = self.best, self.cheapest
        if first is None or first.first is None or len(self.lines) < 2:
            return ""
        close = sum(line.first is not None and line.first.behind in (BEST, LIKE) for line in self.lines if line is not first)
        like = f", too close to call with {format_count(close, 'other')}" if close else ""
        best = f"{first.provider} {'leads with' if close else 'is best at'} {first.first.text}{like}"
        if cheapest is None or cheapest.cost is None:
            return f"{best}."
        if cheapest is first:
            return f"{best}{'; it is' if close else ' and'} cheapest at {cheapest.cost.text}."
        behind = f" and {cheapest.first.behind}" if cheapest.first is not None else ""
        return f"{best}; {cheapest.provider} is cheapest at {cheapest.cost.text}{behind}."


def rank_fleet(series: Sequence[FleetSeries], primary: Number | None, per: CostUnit = "token") -> WorkloadRanking:
    """The providers of one workload, best first, by its `primary` number."""
    if not series:
        return WorkloadRanking("", "", ())
    metric, statistic, phase = leading_number(series, primary)
    speeds = {p.provider: p for p in placings_of(series, metric, statistic, phase)}
    cost_metric, pooled = pooled_costs(series, per)
    costs = {p.provider: p for p in place(pooled, lower_is_better=True)}
    speed_scale = common_scale(metric_among(series, metric).unit if metric else "", [p.value for p in speeds.values()], metric)
    cost_scale = common_scale(unit_of(cost_metric), [p.value for p in costs.values()], cost_metric)
    order = sorted(series, key=lambda s: (_place(speeds, s.provider), _place(costs, s.provider), s.provider))
    return WorkloadRanking(
        metric=format_name(metric) + ("" if statistic in ("", "value") else f" {statistic}") if speeds else "",
        cost_metric=format_name(cost_metric) if costs else "",
        lines=tuple(
            RankingLine(
                speeds[s.provider].place if s.provider in speeds else None,
                s.provider,
                _number_text(speeds.get(s.provider), speed_scale),
                _number_text(costs.get(s.provider), cost_scale),
                len(s.measured),
            )
            for s in order
        ),
    )


def _place(placings: Mapping[str, Placing], provider: str) -> int:
    return placings[provider].place if provider in placings else len(placings) + 1


def _number_text(placing: Placing | None, scale: Scale) -> NumberText | None:
    if placing is None:
        return None
    return NumberText(
        scale.text(placing.value), scale.interval(placing.number.low, placing.number.high), format_behind(placing), _TONES[_level(placing)]
    )


BEST, LIKE = "best", "like the best"
_TONES = ("good", "", "", "warn", "bad", "bad")
"""Level → colour of a cell."""


def _level(placing: Placing) -> int:
    return 0 if placing.leads else next((i for i, limit in enumerate(LEVELS) if placing.behind <= limit), len(LEVELS))


def format_behind(placing: Placing) -> str:
    """`best`, `like the best` within the intervals, else `+12 %` or `−12 %` of the best value."""
    if placing.place == 1:
        return BEST
    if placing.leads:
        return LIKE
    return f"{100 * placing.behind:.{0 if placing.behind >= 0.1 else 1}f} % behind"


HeatView = Literal["speed", "cost", "drift", "age", "reliability"]
VIEWS: tuple[HeatView, ...] = get_args(HeatView)
LEVELS = (0.02, 0.05, 0.1, 0.25, 0.5)
"""Distance to the best, as a fraction, up to which a cell has each colour; the last colour is for all others."""
LEGEND: dict[HeatView, tuple[tuple[str, str], ...]] = {
    "speed": (("h0", "best, or like it"), ("h1", "≤ 5 % behind"), ("h2", "≤ 10 %"), ("h3", "≤ 25 %"), ("h4", "≤ 50 %"), ("h5", "more")),
    "cost": (("h0", "cheapest, or like it"), ("h1", "≤ 5 % dearer"), ("h2", "≤ 10 %"), ("h3", "≤ 25 %"), ("h4", "≤ 50 %"), ("h5", "more")),
    "drift": (
        ("h0", "steady"),
        ("h1", "cannot tell"),
        ("h2", "stale"),
        ("h3", "moved, under your threshold"),
        ("h4", "suspected"),
        ("h5", "drifted"),
    ),
    "age": (("h0", "≤ 7 days"), ("h1", "≤ 14"), ("h2", "≤ 31"), ("h3", "≤ 40"), ("h5", "stale")),
    "reliability": (("h0", "all trials usable"), ("h1", "≥ 95 %"), ("h2", "≥ 90 %"), ("h3", "≥ 75 %"), ("h4", "≥ 50 %"), ("h5", "fewer")),
}
_STATE_LEVEL = {"steady": 0, "cannot_tell": 1, "stale": 2, "moved": 3, "suspected": 4, "drifted": 5}
_AGE_DAYS = ((7, 0), (14, 1), (31, 2), (40, 3))
_USABLE_SHARES = ((1.0, 0), (0.95, 1), (0.9, 2), (0.75, 3), (0.5, 4))
FARTHEST = 1.0
"""Distance that a provider's order counts for a workload at most, and for one that it never ran."""


@dataclass(frozen=True)
class SeriesStatus:
    """A cell's state beside its numbers. `usable`, `planned`: trials of the newest campaign, `campaign_id`. `kind`: of the workload, which has a
    column although nobody has a usable result; empty: only beside others. `unusable`: why no trial is usable, empty where one is."""

    state: ShownState
    planned_at: datetime
    usable: int
    planned: int
    campaign_id: str = ""
    kind: str = ""
    unusable: str = ""


@dataclass(frozen=True)
class HeatCell:
    """`level`: a colour class; `text`: short; `words`: state and distance for a screen reader and the pointer. `single`: its number rests on one
    repeat, so that nothing is known of its noise."""

    workload: str
    level: str
    text: str
    words: str
    drifted: bool
    single: bool = False


@dataclass(frozen=True)
class HeatRow:
    provider: str
    cells: tuple[HeatCell | None, ...]


@dataclass(frozen=True)
class HeatColumn:
    """`unit`: of the texts of its cells."""

    workload: str
    kind: str
    title: str
    unit: str


@dataclass(frozen=True)
class HeatMap:
    view: HeatView
    columns: tuple[HeatColumn, ...]
    rows: tuple[HeatRow, ...]

    @property
    def density(self) -> str:
        return density_of(len(self.rows))

    @property
    def has_single(self) -> bool:
        """Whether a cell rests on a single repeat."""
        return any(cell is not None and cell.single for row in self.rows for cell in row.cells)


def density_of(rows: int) -> str:
    """How much room a row has on a screen: large, medium or small."""
    return "large" if rows <= 8 else "medium" if rows <= 20 else "small"


def heat_map(
    view: HeatView,
    series: Sequence[FleetSeries],
    primary: Callable[[str], Number | None],
    status: Mapping[tuple[str, str], SeriesStatus],
    now: datetime,
    per: CostUnit = "token",
) -> HeatMap:
    """One column a workload, training first; one row a provider, the nearest to the best over all workloads first, of drift and age the worst.

    `status`: by (provider, workload), of every pair that ever ran, also without a usable number.
    """
    kinds = {name: s.kind for (_, name), s in status.items() if s.kind} | {s.workload: str(s.kind) for s in series}
    workloads = sorted((kind != "training", name) for name, kind in kinds.items())
    providers = {s.provider for s in series} | {provider for provider, _ in status}
    worst_first = view in ("drift", "age")
    sign, absent = (-1, 0.0) if worst_first else (1, FARTHEST)
    columns, cells, distances = [], {}, dict.fromkeys(providers, 0.0)
    for _, workload in workloads:
        workload_series = [s for s in series if s.workload == workload]
        title, unit, column_cells = _column(view, workload, workload_series, primary(workload), status, now, per)
        columns.append(HeatColumn(workload, kinds[workload], title, unit))
        for provider in providers:
            distance, cell = column_cells.get(provider, (absent, None))
            if cell is None and (provider, workload) in status:
                words = f"{status[provider, workload].unusable or 'no usable result'}; {status[provider, workload].state.text}"
                cell = HeatCell(workload, "none", "–", words, status[provider, workload].state.name == "drifted")
            cells[provider, workload] = cell
            distances[provider] += min(distance, FARTHEST)

    order = sorted(providers, key=lambda p: (sign * distances[p], p))
    return HeatMap(view, tuple(columns), tuple(HeatRow(p, tuple(cells[p, w] for _, w in workloads)) for p in order))


ColumnCells = dict[str, tuple[float, HeatCell]]


def _column(
    view: HeatView,
    workload: str,
    series: Sequence[FleetSeries],
    first: Number | None,
    status: Mapping[tuple[str, str], SeriesStatus],
    now: datetime,
    per: CostUnit,
) -> tuple[str, str, ColumnCells]:
    if view in ("speed", "cost"):
        if not series:
            return "no usable result", "", {}
        if view == "speed":
            metric, statistic, phase = leading_number(series, first)
            placings, name = placings_of(series, metric, statistic, phase), format_name(metric)
        else:
            metric, pooled = pooled_costs(series, per)
            placings, name = place(pooled, lower_is_better=True), format_name(metric)
        scale = common_scale(metric_among(series, metric).unit if view == "speed" else unit_of(metric), [p.value for p in placings], metric)
        return (
            name,
            {"/s": "per second"}.get(scale.suffix, scale.suffix),
            {p.provider: (p.behind, _placed_cell(p, series, scale.number(p.value), scale.text(p.value), status)) for p in placings},
        )
    cells: ColumnCells = {}
    for provider, series_status in ((provider, own) for (provider, name), own in status.items() if name == workload):
        if view == "drift":
            level, text = _STATE_LEVEL.get(series_status.state.name, 1), _short_state(series_status.state)
        elif view == "age":
            days = (now - series_status.planned_at).days
            level, text = next((level for limit, level in _AGE_DAYS if days <= limit), 5), f"{days} d"
        else:
            share = series_status.usable / series_status.planned if series_status.planned else 0.0
            level, text = (
                next((level for least, level in _USABLE_SHARES if share >= least), 5),
                f"{series_status.usable}/{series_status.planned}",
            )
        words = f"{text}; {series_status.state.text}" if view != "drift" else series_status.state.text
        cells[provider] = (level / 5, HeatCell(workload, f"h{level}", text, words, series_status.state.name == "drifted"))
    return {"drift": "state", "age": "days", "reliability": "usable trials"}[view], "", cells


def _placed_cell(
    placing: Placing, series: Sequence[FleetSeries], number: str, text: str, status: Mapping[tuple[str, str], SeriesStatus]
) -> HeatCell:
    workload = series[0].workload
    series_status = status.get((placing.provider, workload))
    single = any(s.provider == placing.provider and len(s.measured) == 1 for s in series)
    parts = (f"{text}, {format_behind(placing)}", "a single repeat" if single else "", series_status.state.text if series_status else "")
    drifted = series_status is not None and series_status.state.name == "drifted"
    return HeatCell(workload, f"h{_level(placing)}", number, "; ".join(filter(None, parts)), drifted, single)


def _short_state(state: ShownState) -> str:
    if state.name == "steady":
        return state.text.removeprefix("steady").strip(" ()") or "steady"
    if state.name == "moved":
        return state.text.removeprefix("moved ").partition(",")[0]
    return {"suspected": "suspected", "cannot_tell": "?", "drifted": "drifted", "stale": "stale"}.get(state.name, "–")
