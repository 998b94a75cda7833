"""The two charts of a report's cover: cost against speed with the Pareto line, and the speed index of twelve campaigns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from plumbline.analysis.campaign_data import CampaignData
from plumbline.analysis.conclusions import Conclusions
from plumbline.analysis.scorecards.scorecard import Row, Scorecard
from plumbline.metrics import METRICS
from plumbline.metrics.formatting import common_scale, format_name
from plumbline.presentation.charts.chart import Chart, Part, axis, label_places, line, marks, significant
from plumbline.presentation.charts.fleet import pareto
from plumbline.presentation.series_summary import HEADLINE_COSTS

SPEEDS: dict[str, tuple[str, ...]] = {
    "training": ("tokens_per_second", "samples_per_second", "step_time"),
    "inference": ("time_per_output_token", "inter_token_latency", "request_scheduled_latency", "time_to_first_token"),
}
"""Of each kind the first one that was measured on most providers: what a provider's hardware sets, and not the offered load."""
HEIGHT = 196
_NAMED = 4
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
    places = dict(zip(at, label_places([x for x, _ in at.values()]), strict=True))
    data = [line([at[n][0] for n in front], [at[n][1] for n in front], "$p2", "", width=1.6, dash="dash", name="Pareto line")]
    groups = ((others, "$faint", "other providers", 7), (front, "$p0", "not beaten on both", 10))
    for names, colour, label, size in groups:
        if names:
            more: Part = {"name": label, **_intervals(names, rows, x_scale.factor, y_scale.factor, colour)}
            if names is front:
                shown = set(front[:: max(1, -(-len(front) // _NAMED))])
                more |= {
                    "mode": "markers+text",
                    "text": [n if n in shown else "" for n in front],
                    "textposition": [places[n] for n in front],
                }
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
