"""The chart of a number over time, with what could explain it."""

from __future__ import annotations

from datetime import datetime
from textwrap import wrap
from typing import Any

from plumbline.dashboard.trend import EVENT_KINDS, Trend
from plumbline.declarations import METRICS
from plumbline.reports.chart import Chart, axis
from plumbline.reports.figures import percent, sentence

_MARKS = {
    "finding": ("diamond", "$bad"),
    "environment": ("square", "$p3"),
    "price": ("triangle-up", "$p5"),
    "change point": ("x", "$p1"),
}
_BETTER = {"lower_is_better": ", lower is better", "higher_is_better": ", higher is better"}
_SWITCH = 24
"""Repeats of a campaign beyond which their marks are drawn smaller."""


def trend_chart(trend: Trend) -> Chart:
    """All repeats, the campaigns' medians, the baseline's interval, and above them on the same axis what happened."""
    known, unit = METRICS[trend.quantity.metric], trend.shown
    suffix = unit.suffix or known.unit
    data: list[dict[str, Any]] = [*_baseline(trend)]
    repeats = [(p, v, t) for p in trend.points for v, t in zip(p.values, p.trials, strict=True)]
    data.append(
        {
            "type": "scatter",
            "mode": "markers",
            "name": "repeats",
            "x": [moment_of(p.at) for p, _, _ in repeats],
            "y": [v / unit.factor for _, v, _ in repeats],
            "text": [t for _, _, t in repeats],
            "customdata": [f"/trials/{t}" for _, _, t in repeats],
            "marker": {"color": "$p0", "opacity": 0.4, "size": 7 if len(repeats) < _SWITCH * len(trend.points) else 4},
            "hovertemplate": f"%{{y:.4g}} {suffix}<br>%{{text}}<extra></extra>",
        }
    )
    data.append(
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": "median of a campaign",
            "x": [moment_of(p.at) for p in trend.points],
            "y": [p.middle / unit.factor for p in trend.points],
            "text": [f"{p.campaign_id}{' (baseline)' if p.baseline else ''}" for p in trend.points],
            "customdata": [f"/campaigns/{p.campaign_id}" for p in trend.points],
            "line": {"color": "$p0", "width": 2},
            "marker": {"color": "$p0", "size": 9, "symbol": ["square" if p.baseline else "circle" for p in trend.points]},
            "hovertemplate": f"%{{y:.4g}} {suffix}<br>%{{text}}<extra>median</extra>",
        }
    )
    kinds = [kind for kind in EVENT_KINDS if any(h.kind == kind for h in trend.happenings)]
    layout: dict[str, Any] = {
        "xaxis": axis("", type="date", anchor="y"),
        "yaxis": axis(suffix, domain=[0, 0.98 - 0.075 * len(kinds)] if kinds else [0, 1]),
        "hovermode": "closest",
    }
    if kinds:
        data += [_happened(trend, kind) for kind in kinds]
        layout["yaxis2"] = axis(
            "", domain=[1 - 0.075 * len(kinds), 1], type="category", categoryorder="array", categoryarray=kinds[::-1],
            range=[-0.6, len(kinds) - 0.4], fixedrange=True, showgrid=True,
        )  # fmt: skip
        layout["shapes"] = [_line(h.at, _MARKS[h.kind][1]) for h in trend.happenings]
    return Chart(
        name=f"trend {trend.series.workload} {trend.quantity.metric}",
        section="provider",
        title=f"{sentence(trend.quantity.name)}{_BETTER.get(known.direction, '')}",
        caption=(
            "Light marks: usable repeats, each leads to its trial. Line: medians of campaigns; square ones are the accepted baseline, whose "
            "interval is the band. Dotted lines: what happened when, named above the curve."
        ),
        data=data,
        layout=layout,
        height=400 + 20 * len(kinds),
        wide=True,
    )


def _baseline(trend: Trend) -> list[dict[str, Any]]:
    if trend.baseline is None or not trend.points:
        return []
    unit, held = trend.shown, trend.baseline
    begin, end = moment_of(trend.points[0].at), moment_of(trend.points[-1].at)
    found: list[dict[str, Any]] = []
    if held.low is not None and held.high is not None:
        low, high = held.low / unit.factor, held.high / unit.factor
        found.append(
            {
                "type": "scatter", "mode": "lines", "fill": "toself", "fillcolor": "$basearea", "line": {"width": 0, "color": "$base"},
                "name": f"baseline, {percent(held.coverage)} interval", "hoverinfo": "skip",
                "x": [begin, end, end, begin, begin], "y": [low, low, high, high, low],
            }
        )  # fmt: skip
    middle = held.value / unit.factor
    found.append(
        {
            "type": "scatter", "mode": "lines", "name": "baseline", "x": [begin, end], "y": [middle, middle],
            "line": {"color": "$base", "width": 2, "dash": "dash"}, "hoverinfo": "skip",
        }
    )  # fmt: skip
    return found


def _happened(trend: Trend, kind: str) -> dict[str, Any]:
    own = [h for h in trend.happenings if h.kind == kind]
    symbol, paint = _MARKS[kind]
    return {
        "type": "scatter",
        "mode": "markers",
        "yaxis": "y2",
        "name": kind,
        "showlegend": False,
        "x": [moment_of(h.at) for h in own],
        "y": [kind] * len(own),
        "text": [_wrapped(h.text) for h in own],
        "customdata": [h.link for h in own],
        "marker": {"color": paint, "size": 11, "symbol": symbol},
        "hovertemplate": "%{text}<extra></extra>",
    }


def _line(at: datetime, paint: str) -> dict[str, Any]:
    return {
        "type": "line", "xref": "x", "yref": "paper", "x0": moment_of(at), "x1": moment_of(at), "y0": 0, "y1": 1,
        "line": {"color": paint, "width": 1, "dash": "dot"}, "layer": "above",
    }  # fmt: skip


def moment_of(moment: datetime) -> str:
    """A time as Plotly reads it, UTC."""
    return moment.strftime("%Y-%m-%d %H:%M")


def _wrapped(text: str, width: int = 64) -> str:
    """A sentence in lines, for a label that would leave the screen; what Plotly would read as markup is escaped."""
    safe = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "<br>".join(wrap(safe, width)[:6])
