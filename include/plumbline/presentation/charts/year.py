"""A provider's year in one chart: its speed index beside the fleet's, with what changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from statistics import median, quantiles

from plumbline.presentation.charts.chart import Chart, Part, axis, line, plotly_time, significant
from plumbline.presentation.charts.trend import TrendEvent, event_lanes

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
