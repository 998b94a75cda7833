"""Charts of the fleet: cost against speed with the Pareto line, for the overview and a report's cover, and the speed index over campaigns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from statistics import median, quantiles

from plumbline.analysis.conclusions import Conclusions
from plumbline.analysis.fleet import CostUnit, FleetSeries, Number, leading_number, metric_among, pooled, pooled_costs, unit_of
from plumbline.analysis.scorecards.scorecard import Row, Scorecard
from plumbline.metrics import METRICS, Metric, leading_names
from plumbline.metrics.formatting import common_scale, format_name
from plumbline.metrics.pooling import Estimate
from plumbline.presentation.charts.chart import BETTER, PAPER, Chart, Part, axis, error_bars, labels, line, marks, plotly_time, significant
from plumbline.presentation.charts.trend import event_lanes
from plumbline.presentation.events.event import StreamEvent


def pareto(points: Mapping[str, tuple[float, float]], lower_is_better: bool) -> tuple[str, ...]:
    """Providers that no other one beats on both cost and speed, cheapest first. `points`: (cost, speed)."""
    sign = 1 if lower_is_better else -1
    frontier: list[str] = []
    best = float("inf")
    for name in sorted(points, key=lambda p: (points[p][0], sign * points[p][1], p)):
        if sign * points[name][1] < best:
            best = sign * points[name][1]
            frontier.append(name)
    return tuple(frontier)


def cost_against_speed_chart(series: Sequence[FleetSeries], first: Number | None, per: CostUnit = "token") -> Chart | None:
    """A mark for each provider of one workload that has both numbers; None for fewer than two."""
    if not series:
        return None
    metric, statistic, phase = leading_number(series, first)
    speeds = pooled(series, metric, statistic, phase)
    cost_metric, costs = pooled_costs(series, per)
    providers = sorted(speeds.keys() & costs.keys())
    if len(providers) < 2:
        return None
    return _scatter(series[0].workload, (cost_metric, unit_of(cost_metric), costs), (metric_among(series, metric), speeds), providers)


_Quantity = tuple[str, str, Mapping[str, Estimate]]
"""A metric, its unit, and its value by provider."""


def _scatter(workload: str, cost: _Quantity, speed: tuple[Metric, Mapping[str, Estimate]], providers: Sequence[str]) -> Chart:
    """A mark for each of `providers`, which have both numbers; a line through those that no other one beats on both."""
    (cost_metric, cost_unit, costs), (known, speeds) = cost, speed
    metric, unit, direction = known.name, known.unit, known.direction
    x, y = ({p: numbers[p].value or 0.0 for p in providers} for numbers in (costs, speeds))
    x_scale, y_scale = common_scale(cost_unit, x.values(), cost_metric), common_scale(unit, y.values(), metric)
    front = pareto({p: (x[p], y[p]) for p in providers}, direction == "lower_is_better")

    def coordinates(names: Sequence[str]) -> tuple[list[float | None], list[float | None]]:
        return [significant(x[p] / x_scale.factor) for p in names], [significant(y[p] / y_scale.factor) for p in names]

    def intervals(numbers: Mapping[str, Estimate], values: Mapping[str, float], names: Sequence[str], factor: float) -> Part:
        measured = [numbers[p] for p in names]
        ends = ([n.low for n in measured], [n.high for n in measured])
        return error_bars([values[p] for p in names], *ends, factor, "$faint", width=0, thickness=1)

    data = [line(*coordinates(front), "$accent", dash="dot", name="Pareto line")] if len(front) > 1 else []
    front_labels = labels({p: x[p] for p in front}, list(x.values()))
    beaten = [p for p in providers if p not in front]
    for names, colour, size, label in ((beaten, "$faint", 8, "beaten on both"), (list(front), "$accent", 12, "not beaten")):
        if names:
            data.append(
                marks(
                    *coordinates(names), colour, f"%{{hovertext}}<br>%{{x:.4g}} {x_scale.suffix}<br>%{{y:.4g}} {y_scale.suffix}", size=size,
                    marker={"line": PAPER}, hovertext=names, customdata=[f"/providers/{p}" for p in names], name=label,
                    error_x=intervals(costs, x, names, x_scale.factor), error_y=intervals(speeds, y, names, y_scale.factor),
                    **(front_labels if label == "not beaten" else {}),
                )
            )  # fmt: skip
    return Chart(
        name="cost-against-speed",
        section="overview",
        title=f"{workload}: {format_name(metric)} against {format_name(cost_metric)}",
        caption="Mark: median over usable repeats, linked to its provider; lines: intervals. No provider is cheaper and faster than one of the "
        "Pareto line.",
        data=data,
        layout={
            "xaxis": axis(f"{x_scale.suffix}{BETTER['lower_is_better']}"),
            "yaxis": axis(f"{y_scale.suffix}{BETTER.get(direction, '')}"),
            "hovermode": "closest",
        },
        height=360,
        wide=True,
    )


HEIGHT = 172
_PROVIDERS_DRAWN = 4


def pareto_chart(conclusions: Conclusions) -> Chart | None:
    """Cost against speed of the workload that most providers share; None if fewer than two providers have both."""
    decided_workloads = [w for d in conclusions.decided for w in d.preference.workloads]
    points_by_workload = {
        w: points
        for w in dict.fromkeys([*decided_workloads, *(c.workload for c in conclusions.cards)])
        if (points := _points(conclusions.cards, w))
    }
    workload = max(points_by_workload, key=lambda w: len(points_by_workload[w][2]), default=None)
    if workload is None or len(points_by_workload[workload][2]) < 2:
        return None
    cost, speed, rows = points_by_workload[workload]
    quantities = (cost, "USD", {p: c for p, (c, _) in rows.items()}), (METRICS[speed], {p: s for p, (_, s) in rows.items()})
    chart = _scatter(workload, *quantities, sorted(rows))
    if len(rows) > 12:  # fifty crosses hide each other
        chart = replace(chart, data=[{name: v for name, v in part.items() if not name.startswith("error_")} for part in chart.data])
    caption = "Lines: intervals. No provider is cheaper and faster than one of the Pareto line."
    return replace(chart, name="cover-pareto", section="cover", caption=caption, height=HEIGHT, wide=False)


def _points(cards: Sequence[Scorecard], workload: str) -> tuple[str, str, dict[str, tuple[Row, Row]]] | None:
    """Cost metric, speed metric, and both rows of every provider that has them."""
    workload_cards = [c for c in cards if c.workload == workload]
    if not workload_cards:
        return None
    costs = leading_names(f"{workload_cards[0].kind}_cost")
    pairs = [(cost, speed) for cost in costs for speed in leading_names("hardware", workload_cards[0].kind)]
    best: tuple[str, str, dict[str, tuple[Row, Row]]] | None = None
    for cost, speed in pairs:
        rows = {
            c.provider: (x, y)
            for c in workload_cards
            if (x := c.row(cost)) is not None and (y := c.row(speed)) is not None and x.value is not None and y.value is not None
        }
        if rows and (best is None or len(rows) > len(best[2])):
            best = (cost, speed, rows)
    return best


def index_chart(index: Mapping[str, Mapping[str, float]], height: int = HEIGHT) -> Chart | None:
    """Speed of the fleet and of the providers that moved most, 100 in each one's first campaign; None with fewer than two campaigns.

    `index`: provider → campaign → speed.
    """
    campaigns = sorted({c for provider_index in index.values() for c in provider_index})
    if len(campaigns) < 2:
        return None
    fleet = [median(v for provider_index in index.values() if (v := provider_index.get(c)) is not None) for c in campaigns]
    last = {p: next((own[c] for c in reversed(campaigns) if c in own), 100.0) for p, own in index.items()}
    most_moved = sorted(index, key=lambda p: (-abs(last[p] - 100), p))[:_PROVIDERS_DRAWN]
    all_values = [v for provider_index in index.values() for v in provider_index.values()]
    data = [line(campaigns, [significant(v, 5) for v in fleet], "$ink", "", width=3, name=f"median of {len(index)}")]
    for i, provider in enumerate(sorted(most_moved)):
        values = [significant(index[provider].get(c), 5) for c in campaigns]
        data.append(line(campaigns, values, f"$p{i}", "", width=1.8, dash=("solid", "dash", "dot", "dashdot")[i], name=provider))
    return Chart(
        name="cover-index",
        section="cover",
        title="Speed index, all workloads",
        caption="Geometric mean; 100 is each one's first campaign. "
        + ("Higher is faster." if len(index) <= _PROVIDERS_DRAWN else f"The {_PROVIDERS_DRAWN} that moved most of {len(index)}."),
        data=data,
        layout={
            "xaxis": axis("", type="category", categoryarray=campaigns),
            "yaxis": axis("", range=[min(97.0, *all_values) - 1, max(103.0, *all_values) + 1]),
        },  # noise of a tenth is no cliff
        height=height,
    )


_MAX_SINGLE_LINES = 8
"""Providers up to which each one's line is drawn; of more, the middle half."""


def year_chart(
    provider: str, campaigns: Sequence[tuple[str, datetime]], index: Mapping[str, Mapping[str, float]], events: Sequence[StreamEvent]
) -> Chart | None:
    """None with fewer than two campaigns of the provider. `campaigns`: oldest first."""
    provider_index = index.get(provider, {})
    if len(provider_index) < 2:
        return None
    rows = [(campaign, plotly_time(at)) for campaign, at in campaigns]
    other_indices = {name: values for name, values in index.items() if name != provider}
    provider_rows = [(campaign, at) for campaign, at in rows if campaign in provider_index]
    data: list[Part] = [
        *_fleet_lines(rows, other_indices),
        line(
            [at for _, at in provider_rows],
            [significant(provider_index[c], 5) for c, _ in provider_rows],
            "$p0",
            "%{y:.4g}<br>%{text}",
            width=3,
            mode="lines+markers",
            name=provider,
            text=[c for c, _ in provider_rows],
            customdata=[f"/campaigns/{c}" for c, _ in provider_rows],
        ),
    ]
    lanes, layout = event_lanes(events)
    all_values = [*provider_index.values(), *(v for values in other_indices.values() for v in values.values())]
    layout["xaxis"] = axis("", type="date", anchor="y")
    layout["yaxis"] |= {
        "range": [min(97.0, *all_values) - 1, max(103.0, *all_values) + 1],
        "title": {"text": "speed index, higher is faster"},
    }
    return Chart(
        name="year",
        section="provider",
        title="Speed of all workloads against the fleet",
        caption="Geometric mean over all workloads; 100 is each provider's first campaign shown. Dotted lines: changes; the list below names each number.",
        data=[*data, *lanes],
        layout={**layout, "hovermode": "closest"},
        height=330 + 20 * len(lanes),
        wide=True,
    )


def _fleet_lines(rows: Sequence[tuple[str, str]], indices: Mapping[str, Mapping[str, float]]) -> list[Part]:
    by_campaign = [(at, [v[c] for v in indices.values() if c in v]) for c, at in rows]
    measured = [(at, values) for at, values in by_campaign if values]
    if not measured:
        return []
    middle = line(
        [at for at, _ in measured], [significant(median(v), 5) for _, v in measured], "$soft", dash="dash", name="median of the others"
    )
    if len(indices) <= _MAX_SINGLE_LINES:
        lines = [
            line([at for c, at in rows if c in provider_index], [significant(provider_index[c], 5) for c, _ in rows if c in provider_index], "$faint", f"%{{y:.4g}}<br>{name}", width=1.2, name=name, showlegend=False)
            for name, provider_index in sorted(indices.items())
        ]  # fmt: skip
        return [*lines, middle]
    halves = [(at, quantiles(v, n=4)) for at, v in measured if len(v) > 1]
    times = [at for at, _ in halves]
    area = {"fill": "toself", "fillcolor": "$basearea", "name": "middle half of the others"}
    return [line([*times, *times[::-1]], [*(q[0] for _, q in halves), *(q[2] for _, q in halves[::-1])], "$base", width=0, **area), middle]


def cover_charts(conclusions: Conclusions) -> tuple[Chart, ...]:
    """Cost against speed, and the year's index."""
    return tuple(c for c in (pareto_chart(conclusions), index_chart(conclusions.campaign.history.index)) if c is not None)
