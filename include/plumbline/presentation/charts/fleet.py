"""Charts of the fleet: cost against speed with the Pareto line, for the overview and a report's cover, and the speed index over campaigns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from statistics import median, quantiles

from plumbline.analysis.campaign_data import CampaignData
from plumbline.analysis.conclusions import Conclusions
from plumbline.analysis.fleet import CostUnit, FleetSeries, Number, leading_number, pooled, pooled_costs, unit_of
from plumbline.analysis.scorecards.pooling import Pooled
from plumbline.analysis.scorecards.scorecard import Row, Scorecard
from plumbline.metrics import METRICS
from plumbline.metrics.formatting import common_scale, format_name
from plumbline.presentation.charts.chart import BETTER, PAPER, Chart, Part, axis, error_bars, labels, line, marks, plotly_time, significant
from plumbline.presentation.charts.trend import TrendEvent, event_lanes
from plumbline.presentation.series_summary import HEADLINE_COSTS


def pareto(points: Mapping[str, tuple[float, float]], lower_is_better: bool) -> tuple[str, ...]:
    """Providers that no other one beats on both cost and speed, cheapest first. `points`: (cost, speed)."""
    sign = 1 if lower_is_better else -1
    found: list[str] = []
    best = float("inf")
    for name in sorted(points, key=lambda p: (points[p][0], sign * points[p][1], p)):
        if sign * points[name][1] < best:
            best = sign * points[name][1]
            found.append(name)
    return tuple(found)


def cost_against_speed_chart(own: Sequence[FleetSeries], first: Number | None, per: CostUnit = "token") -> Chart | None:
    """A mark for each provider of one workload that has both numbers; None for fewer than two."""
    if not own:
        return None
    metric, statistic, phase = leading_number(own, first)
    speeds = pooled(own, metric, statistic, phase)
    cost_metric, costs = pooled_costs(own, per)
    both = sorted(speeds.keys() & costs.keys())
    if len(both) < 2:
        return None
    known = METRICS[metric]
    fast = common_scale(known.unit, [speeds[p].value for p in both], metric)
    cheap = common_scale(unit_of(cost_metric), [costs[p].value for p in both], cost_metric)
    front = pareto({p: (costs[p].value, speeds[p].value) for p in both}, known.direction == "lower_is_better")

    def at(name: str) -> tuple[float | None, float | None]:
        return significant(costs[name].value / cheap.factor), significant(speeds[name].value / fast.factor)

    def bars(numbers: Mapping[str, Pooled], names: Sequence[str], factor: float) -> dict[str, object]:
        found = [numbers[p] for p in names]
        return error_bars([n.value for n in found], [n.low for n in found], [n.high for n in found], factor, "$faint", width=0, thickness=1)

    corners = [at(p) for p in front]
    data = [line([x for x, _ in corners], [y for _, y in corners], "$accent", dash="dot", name="Pareto line")] if len(front) > 1 else []
    rest = [p for p in both if p not in front]
    named = labels({p: costs[p].value for p in front}, [costs[p].value for p in both])
    for names, colour, size, label in ((rest, "$faint", 8, "beaten on both"), (list(front), "$accent", 12, "not beaten")):
        if names:
            x, y = zip(*(at(p) for p in names), strict=True)
            data.append(
                marks(
                    x, y, colour, f"%{{hovertext}}<br>%{{x:.4g}} {cheap.suffix}<br>%{{y:.4g}} {fast.suffix}", size=size,
                    marker={"line": PAPER}, hovertext=names, customdata=[f"/providers/{p}" for p in names], name=label,
                    error_x=bars(costs, names, cheap.factor), error_y=bars(speeds, names, fast.factor),
                    **(named if label == "not beaten" else {}),
                )
            )  # fmt: skip
    return Chart(
        name="cost-against-speed",
        section="overview",
        title=f"{own[0].workload}: {format_name(metric)} against cost",
        caption="Mark: median over usable repeats, linked to its provider; lines: intervals. No provider is cheaper and faster than one of the "
        "Pareto line.",
        data=data,
        layout={
            "xaxis": axis(f"{format_name(cost_metric)}, {cheap.suffix}{BETTER['lower_is_better']}"),
            "yaxis": axis(f"{fast.suffix}{BETTER.get(known.direction, '')}"),
            "hovermode": "closest",
        },
        height=420,
        wide=True,
    )


SPEEDS: dict[str, tuple[str, ...]] = {
    "training": ("tokens_per_second", "samples_per_second", "step_time"),
    "inference": ("time_per_output_token", "inter_token_latency", "request_scheduled_latency", "time_to_first_token"),
}
"""Of each kind the first one that was measured on most providers: what a provider's hardware sets, and not the offered load."""
HEIGHT = 196
_LINES = 4


def pareto_chart(found: Conclusions) -> Chart | None:
    """Cost against speed of the workload that most providers share; None if fewer than two providers have both."""
    asked = [w for d in found.decided for w in d.preference.workloads]
    known = {w: points for w in dict.fromkeys([*asked, *(c.workload for c in found.cards)]) if (points := _points(found.cards, w))}
    most = max(known, key=lambda w: len(known[w][2]), default=None)
    if most is None or len(known[most][2]) < 2:
        return None
    cost, speed, rows = known[most]
    lower = METRICS[speed].direction == "lower_is_better"
    x_scale = common_scale("USD", [c.value for c, _ in rows.values()], cost)
    y_scale = common_scale(METRICS[speed].unit, [s.value for _, s in rows.values()], speed)
    at = {name: (_value(c) / x_scale.factor, _value(s) / y_scale.factor) for name, (c, s) in rows.items()}
    front = list(pareto(at, lower))
    others = sorted(at.keys() - set(front))
    data = [line([at[n][0] for n in front], [at[n][1] for n in front], "$p2", "", width=1.6, dash="dash", name="Pareto line")]
    groups = ((others, "$faint", "other providers", 7), (front, "$p0", "not beaten on both", 10))
    for names, colour, label, size in groups:
        if names:
            more: Part = {"name": label, **_intervals(names, rows, x_scale.factor, y_scale.factor, colour)}
            if names is front:
                more |= labels({n: at[n][0] for n in front}, [x for x, _ in at.values()])
            data.append(marks([at[n][0] for n in names], [at[n][1] for n in names], colour, "%{text}", size=size, **more))
    better = "lower" if lower else "higher"
    return Chart(
        name="cover-pareto",
        section="cover",
        title=f"Cost and speed, {most}",
        caption=f"Left and {better} is better; no provider beats one on the line in both.",
        data=data,
        layout={"xaxis": axis(f"{format_name(cost)} ({x_scale.suffix})"), "yaxis": axis(f"{format_name(speed)} ({y_scale.suffix})")},
        height=HEIGHT,
    )


def _points(cards: Sequence[Scorecard], workload: str) -> tuple[str, str, dict[str, tuple[Row, Row]]] | None:
    """Cost metric, speed metric, and both rows of every provider that has them."""
    own = [c for c in cards if c.workload == workload]
    if not own:
        return None
    pairs = [(cost, speed) for cost in HEADLINE_COSTS[own[0].kind] for speed in SPEEDS[own[0].kind]]
    best: tuple[str, str, dict[str, tuple[Row, Row]]] | None = None
    for cost, speed in pairs:
        rows = {
            c.provider: (x, y)
            for c in own
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
    found: Part = {}
    for i, (along, factor) in enumerate((("error_x", x_factor), ("error_y", y_factor))):
        own = [rows[n][i] for n in names]
        up = [0.0 if r.high is None else (r.high - _value(r)) / factor for r in own]
        down = [0.0 if r.low is None else (_value(r) - r.low) / factor for r in own]
        found[along] = {"type": "data", "symmetric": False, "array": up, "arrayminus": down, "color": colour, "thickness": 1, "width": 0}
    return found


def index_chart(campaign: CampaignData) -> Chart | None:
    """Speed of the fleet and of the providers that moved most, 100 in each one's first campaign; None with fewer than two campaigns."""
    index = campaign.history.index
    campaigns = sorted({c for own in index.values() for c in own})
    if len(campaigns) < 2:
        return None
    fleet = [median(v for own in index.values() if (v := own.get(c)) is not None) for c in campaigns]
    moved = sorted(index, key=lambda p: (-abs(_last(index[p], campaigns) - 100), p))[:_LINES]
    every = [v for own in index.values() for v in own.values()]
    data = [line(campaigns, [significant(v, 5) for v in fleet], "$ink", "", width=3, name=f"median of {len(index)}")]
    for i, provider in enumerate(sorted(moved)):
        values = [significant(index[provider].get(c), 5) for c in campaigns]
        data.append(line(campaigns, values, f"$p{i}", "", width=1.8, dash=("solid", "dash", "dot", "dashdot")[i], name=provider))
    return Chart(
        name="cover-index",
        section="cover",
        title="Speed index, all workloads",
        caption="Geometric mean; 100 is each one's first campaign. "
        + ("Higher is faster." if len(index) <= _LINES else f"The {_LINES} that moved most of {len(index)}."),
        data=data,
        layout={
            "xaxis": axis("", type="category", categoryarray=campaigns),
            "yaxis": axis("", range=[min(97.0, *every) - 1, max(103.0, *every) + 1]),
        },  # noise of a tenth is no cliff
        height=HEIGHT,
    )


def _last(own: Mapping[str, float], campaigns: Sequence[str]) -> float:
    return next((own[c] for c in reversed(campaigns) if c in own), 100.0)


_FEW = 8
"""Providers up to which each one's line is drawn; of more, the middle half."""


def year_chart(
    provider: str, campaigns: Sequence[tuple[str, datetime]], index: Mapping[str, Mapping[str, float]], events: Sequence[TrendEvent]
) -> Chart | None:
    """None with fewer than two campaigns of the provider. `campaigns`: oldest first."""
    own = index.get(provider, {})
    if len(own) < 2:
        return None
    rows = [(campaign, plotly_time(at)) for campaign, at in campaigns]
    others = {name: values for name, values in index.items() if name != provider}
    mine = [(campaign, at) for campaign, at in rows if campaign in own]
    data: list[Part] = [
        *_fleet(rows, others),
        line(
            [at for _, at in mine],
            [significant(own[c], 5) for c, _ in mine],
            "$p0",
            "%{y:.4g}<br>%{text}",
            width=3,
            mode="lines+markers",
            name=provider,
            text=[c for c, _ in mine],
            customdata=[f"/campaigns/{c}" for c, _ in mine],
        ),
    ]
    first = campaigns[0][1]
    shown = [e for e in events if e.at >= first]
    lanes, layout = event_lanes(shown)
    every = [*own.values(), *(v for values in others.values() for v in values.values())]
    layout["xaxis"] = axis("", type="date", anchor="y")
    layout["yaxis"] |= {"range": [min(97.0, *every) - 1, max(103.0, *every) + 1], "title": {"text": "speed index, higher is faster"}}
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


def _fleet(rows: Sequence[tuple[str, str]], others: Mapping[str, Mapping[str, float]]) -> list[Part]:
    by_campaign = [(at, [v[c] for v in others.values() if c in v]) for c, at in rows]
    known = [(at, values) for at, values in by_campaign if values]
    if not known:
        return []
    middle = line([at for at, _ in known], [significant(median(v), 5) for _, v in known], "$soft", dash="dash", name="median of the others")
    if len(others) <= _FEW:
        each = [
            line([at for c, at in rows if c in own], [significant(own[c], 5) for c, _ in rows if c in own], "$faint", f"%{{y:.4g}}<br>{name}", width=1.2, name=name, showlegend=False)
            for name, own in sorted(others.items())
        ]  # fmt: skip
        return [*each, middle]
    halves = [(at, quantiles(v, n=4)) for at, v in known if len(v) > 1]
    times = [at for at, _ in halves]
    area = {"fill": "toself", "fillcolor": "$basearea", "name": "middle half of the others"}
    return [line([*times, *times[::-1]], [*(q[0] for _, q in halves), *(q[2] for _, q in halves[::-1])], "$base", width=0, **area), middle]
