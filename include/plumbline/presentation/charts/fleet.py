"""Charts of the fleet: cost against speed with the Pareto line, for the overview and a report's cover, and the speed index over campaigns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from statistics import median, quantiles

from plumbline.analysis.conclusions import Conclusions
from plumbline.analysis.fleet import CostUnit, FleetSeries, Number, leading_number, pooled, pooled_costs, unit_of
from plumbline.analysis.scorecards.pooling import Pooled
from plumbline.analysis.scorecards.scorecard import Row, Scorecard
from plumbline.metrics import METRICS, leading_names
from plumbline.metrics.formatting import common_scale, format_name
from plumbline.presentation.charts.chart import BETTER, PAPER, Chart, Part, axis, error_bars, labels, line, marks, plotly_time, significant
from plumbline.presentation.charts.trend import TrendEvent, event_lanes


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
    definition = METRICS[metric]
    speed_scale = common_scale(definition.unit, [speeds[p].value for p in providers], metric)
    cost_scale = common_scale(unit_of(cost_metric), [costs[p].value for p in providers], cost_metric)
    front = pareto({p: (costs[p].value, speeds[p].value) for p in providers}, definition.direction == "lower_is_better")

    def position(name: str) -> tuple[float | None, float | None]:
        return significant(costs[name].value / cost_scale.factor), significant(speeds[name].value / speed_scale.factor)

    def intervals(numbers: Mapping[str, Pooled], names: Sequence[str], factor: float) -> dict[str, object]:
        measured = [numbers[p] for p in names]
        return error_bars(
            [n.value for n in measured], [n.low for n in measured], [n.high for n in measured], factor, "$faint", width=0, thickness=1
        )

    corners = [position(p) for p in front]
    data = [line([x for x, _ in corners], [y for _, y in corners], "$accent", dash="dot", name="Pareto line")] if len(front) > 1 else []
    beaten = [p for p in providers if p not in front]
    front_labels = labels({p: costs[p].value for p in front}, [costs[p].value for p in providers])
    for names, colour, size, label in ((beaten, "$faint", 8, "beaten on both"), (list(front), "$accent", 12, "not beaten")):
        if names:
            x, y = zip(*(position(p) for p in names), strict=True)
            data.append(
                marks(
                    x, y, colour, f"%{{hovertext}}<br>%{{x:.4g}} {cost_scale.suffix}<br>%{{y:.4g}} {speed_scale.suffix}", size=size,
                    marker={"line": PAPER}, hovertext=names, customdata=[f"/providers/{p}" for p in names], name=label,
                    error_x=intervals(costs, names, cost_scale.factor), error_y=intervals(speeds, names, speed_scale.factor),
                    **(front_labels if label == "not beaten" else {}),
                )
            )  # fmt: skip
    return Chart(
        name="cost-against-speed",
        section="overview",
        title=f"{series[0].workload}: {format_name(metric)} against {format_name(cost_metric)}",
        caption="Mark: median over usable repeats, linked to its provider; lines: intervals. No provider is cheaper and faster than one of the "
        "Pareto line.",
        data=data,
        layout={
            "xaxis": axis(f"{cost_scale.suffix}{BETTER['lower_is_better']}"),
            "yaxis": axis(f"{speed_scale.suffix}{BETTER.get(definition.direction, '')}"),
            "hovermode": "closest",
        },
        height=360,
        wide=True,
    )


HEIGHT = 196
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
    lower = METRICS[speed].direction == "lower_is_better"
    x_scale = common_scale("USD", [c.value for c, _ in rows.values()], cost)
    y_scale = common_scale(METRICS[speed].unit, [s.value for _, s in rows.values()], speed)
    positions = {name: (_value(c) / x_scale.factor, _value(s) / y_scale.factor) for name, (c, s) in rows.items()}
    front = list(pareto(positions, lower))
    other_providers = sorted(positions.keys() - set(front))
    data = [line([positions[n][0] for n in front], [positions[n][1] for n in front], "$p2", "", width=1.6, dash="dash", name="Pareto line")]
    groups = ((other_providers, "$faint", "other providers", 7), (front, "$p0", "not beaten on both", 10))
    for names, colour, label, size in groups:
        if names:
            attributes: Part = {"name": label, **_intervals(names, rows, x_scale.factor, y_scale.factor, colour)}
            if names is front:
                attributes |= labels({n: positions[n][0] for n in front}, [x for x, _ in positions.values()])
            data.append(
                marks([positions[n][0] for n in names], [positions[n][1] for n in names], colour, "%{text}", size=size, **attributes)
            )
    better = "lower" if lower else "higher"
    return Chart(
        name="cover-pareto",
        section="cover",
        title=f"Cost and speed, {workload}",
        caption=f"Left and {better} is better; no provider beats one on the line in both.",
        data=data,
        layout={"xaxis": axis(f"{format_name(cost)} ({x_scale.suffix})"), "yaxis": axis(f"{format_name(speed)} ({y_scale.suffix})")},
        height=HEIGHT,
    )


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


def _value(row: Row) -> float:
    assert row.value is not None  # chosen for it
    return row.value


def _intervals(names: Sequence[str], rows: Mapping[str, tuple[Row, Row]], x_factor: float, y_factor: float, colour: str) -> Part:
    if len(names) > 12:
        return {}  # fifty crosses hide each other
    intervals: Part = {}
    for i, (along, factor) in enumerate((("error_x", x_factor), ("error_y", y_factor))):
        own = [rows[n][i] for n in names]
        intervals[along] = error_bars(
            [_value(r) for r in own], [r.low for r in own], [r.high for r in own], factor, colour, thickness=1, width=0
        )
    return intervals


def index_chart(index: Mapping[str, Mapping[str, float]], height: int = HEIGHT) -> Chart | None:
    """Speed of the fleet and of the providers that moved most, 100 in each one's first campaign; None with fewer than two campaigns.

    `index`: provider → campaign → speed.
    """
    campaigns = sorted({c for provider_index in index.values() for c in provider_index})
    if len(campaigns) < 2:
        return None
    fleet = [median(v for provider_index in index.values() if (v := provider_index.get(c)) is not None) for c in campaigns]
    most_moved = sorted(index, key=lambda p: (-abs(_last_index(index[p], campaigns) - 100), p))[:_PROVIDERS_DRAWN]
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


def _last_index(provider_index: Mapping[str, float], campaigns: Sequence[str]) -> float:
    return next((provider_index[c] for c in reversed(campaigns) if c in provider_index), 100.0)


_MAX_SINGLE_LINES = 8
"""Providers up to which each one's line is drawn; of more, the middle half."""


def year_chart(
    provider: str, campaigns: Sequence[tuple[str, datetime]], index: Mapping[str, Mapping[str, float]], events: Sequence[TrendEvent]
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
    first = campaigns[0][1]
    shown_events = [e for e in events if e.at >= first]
    lanes, layout = event_lanes(shown_events)
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
        caption="Geometric mean over all workloads; 100 is each provider's first campaign shown. Dotted lines: changes, named above the curve.",
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
