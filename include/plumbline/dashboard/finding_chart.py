"""The history of a finding as a chart of a page: the same facts as in Slack's picture."""

from __future__ import annotations

from typing import Any

from plumbline.drift.history import History
from plumbline.reports.chart import Chart, axis


def finding_chart(history: History) -> Chart:
    """Repeats as small marks, campaigns as a line through their medians, baseline, change and its interval."""
    points, since = history.points, history.since
    labels = [p.label for p in points]
    data: list[dict[str, Any]] = []
    scattered = [(p.label, v) for p in points if len(p.values) > 1 for v in p.values]
    if scattered:
        data.append(_marks("repeats", [x for x, _ in scattered], [y for _, y in scattered], history.unit, "$p0", "circle", 6, 0.4))
    line: dict[str, Any] = {"color": "$p0", "width": 2}
    if history.steps:
        line["shape"] = "hv"
    data.append(
        {
            "type": "scatter",
            "mode": "lines",
            "x": labels,
            "y": [p.middle for p in points],
            "line": line,
            "name": "price" if history.steps else "median",
            "hovertemplate": f"%{{x}}: %{{y:.4g}} {history.unit}<extra></extra>",
        }
    )
    groups: tuple[tuple[str, list[int], str, str], ...] = (
        ("before", [i for i in range(since) if not points[i].baseline], "$p0", "circle"),
        ("baseline", [i for i, p in enumerate(points) if p.baseline], "$p2", "square"),
        ("since the change", [i for i in range(since, len(points)) if not points[i].baseline], "$p1", "diamond"),
    )
    if history.steps:
        groups = (("the change", [since], "$p1", "diamond"),)
    for name, places, paint, symbol in groups:
        if places:
            data.append(_marks(name, [labels[i] for i in places], [points[i].middle for i in places], history.unit, paint, symbol, 10, 1.0))
    return Chart(
        name="history",
        section="finding",
        title=history.title,
        caption=f"{history.change} since {history.begin}. "
        + ("A price holds until the next one is read." if history.steps else "Small marks are repeats, large ones medians of a campaign."),
        data=data,
        layout={
            "xaxis": axis("", type="category", categoryorder="array", categoryarray=labels, tickangle=0, nticks=8),
            "yaxis": axis(history.unit),
            "shapes": _shapes(history),
            "annotations": _notes(history),
            "hovermode": "closest",
        },
        height=360,
        wide=True,
    )


def _marks(name: str, x: list[str], y: list[float], unit: str, paint: str, symbol: str, size: int, opacity: float) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": x,
        "y": y,
        "name": name,
        "marker": {"color": paint, "symbol": symbol, "size": size, "opacity": opacity, "line": {"color": "$paper", "width": 1}},
        "hovertemplate": f"{name}, %{{x}}: %{{y:.4g}} {unit}<extra></extra>",
    }


def _shapes(history: History) -> list[dict[str, Any]]:
    since, last = history.since - 0.5, len(history.points) - 0.5
    changed = {"type": "rect", "xref": "x", "yref": "paper", "x0": since, "x1": last, "y0": 0, "y1": 1, "fillcolor": "$band"}
    shapes: list[dict[str, Any]] = [{**changed, "line": {"width": 0}, "layer": "below"}]
    shapes.append(
        {
            "type": "line",
            "xref": "x",
            "yref": "paper",
            "x0": since,
            "x1": since,
            "y0": 0,
            "y1": 1,
            "line": {"color": "$p1", "width": 1.5, "dash": "dot"},
        }
    )
    if history.band is not None:
        low, high = history.band
        edge = {"color": "$p1", "width": 1, "dash": "dot"}
        shapes.append(
            {"type": "rect", "xref": "x", "yref": "y", "x0": since, "x1": last, "y0": low, "y1": high, "line": edge, "layer": "below"}
        )
    if history.level is not None:
        level = {"type": "line", "xref": "paper", "yref": "y", "x0": 0, "x1": 1, "y0": history.level, "y1": history.level}
        shapes.append({**level, "line": {"color": "$p2", "width": 1.5, "dash": "dash"}})
    return shapes


def _notes(history: History) -> list[dict[str, Any]]:
    if history.level is None:
        return []
    text = f"{history.level_name} {history.level:,.4g} {history.unit}"
    at = {"xref": "paper", "yref": "y", "x": 0, "y": history.level, "xanchor": "left", "yanchor": "bottom"}
    return [{**at, "text": text, "showarrow": False, "font": {"color": "$p2", "size": 11}}]
