"""Prices over time: what was accepted and what is declared as steps, what the sources said as dots."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any

from plumbline.archive import PriceReadingView, PriceView
from plumbline.declarations import Price
from plumbline.reports.chart import Chart, axis

_SYMBOLS = {"contract": "square", "csv": "diamond", "gpuhunt": "circle", "opencost": "cross", "simulated": "star"}
_PAST = timedelta(days=365)


def price_chart(
    purchase: str,
    term: str | None,
    declared: Sequence[Price],
    accepted: Sequence[PriceView],
    readings: Sequence[PriceReadingView],
    held_since: str | None,
    now: datetime,
) -> Chart | None:
    """One kind of purchase of one provider, in USD per hour of the instance; None if nothing is known of it.

    `held_since`: the day (ISO 8601) from which readings are held back, which are drawn hollow.
    """
    end = now.date() + timedelta(days=1)
    seen = [r.observed_at.date() for r in readings] + [p.since for p in accepted]
    begin = min(seen) - timedelta(days=3) if seen else end - _PAST
    data: list[dict[str, Any]] = []
    for source in dict.fromkeys(r.source for r in readings):
        own = [r for r in readings if r.source == source]
        hollow = [held_since is not None and f"{r.observed_at:%Y-%m-%d}" >= held_since for r in own]
        symbol = _SYMBOLS.get(source, "circle")
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": [r.observed_at.isoformat() for r in own],
                "y": [r.usd_per_instance_hour for r in own],
                "text": [r.source_version for r in own],
                "name": f"read: {source}",
                "marker": {
                    "color": "$p1",
                    "symbol": [f"{symbol}-open" if h else symbol for h in hollow],
                    "size": 6,
                    "opacity": 0.75,
                    "line": {"color": "$p1", "width": 1},
                },
                "hovertemplate": "%{x|%Y-%m-%d %H:%M}: %{y:.4f} USD/h<extra>%{text}</extra>",
            }
        )
    for name, spans, look in (
        ("declared", [(p.since, p.until, p.price, p.source) for p in declared], {"color": "$p7", "dash": "dot", "width": 2}),
        (
            "accepted",
            [(p.since, p.until, p.usd_per_hour, p.source) for p in accepted if p.until != p.since],
            {"color": "$p0", "width": 2.5},
        ),
    ):
        data += _steps(name, sorted(spans), look, begin, end)
    if not data:
        return None
    what = purchase.replace("_", "-") + (f" {term}" if term else "")
    held = f" Hollow since {held_since}: held, nothing uses it until somebody accepts it." if held_since else ""
    return Chart(
        name=f"price-{what.replace(' ', '-')}",
        section="prices",
        title=f"{what[:1].upper()}{what[1:]}",
        caption=f"Steps: what was accepted and what is declared. Marks: what the sources said.{held}",
        data=data,
        layout={
            "xaxis": axis("", type="date", range=[begin.isoformat(), end.isoformat()]),
            "yaxis": axis("USD per hour of the instance", rangemode="tozero"),
            "hovermode": "closest",
            "showlegend": True,
        },
        height=330,
        wide=True,
    )


def _steps(
    name: str, spans: Sequence[tuple[date, date | None, float, str]], look: dict[str, Any], begin: date, end: date
) -> list[dict[str, Any]]:
    """One line that steps, broken where no price holds; cut to what the chart shows."""
    x: list[str | None] = []
    y: list[float | None] = []
    told: list[str] = []
    for since, until, price, source in spans:
        first, last = max(since, begin), min(until or end, end)
        if first >= last:
            continue
        if x and x[-1] != first.isoformat():
            x, y, told = [*x, None], [*y, None], [*told, ""]
        x, y, told = [*x, first.isoformat(), last.isoformat()], [*y, price, price], [*told, source, source]
    if not x:
        return []
    line = {"type": "scatter", "mode": "lines", "x": x, "y": y, "text": told, "name": name, "line": look, "connectgaps": False}
    return [{**line, "hovertemplate": f"{name}: %{{y:.4f}} USD/h from %{{x|%Y-%m-%d}}<extra>%{{text}}</extra>"}]
