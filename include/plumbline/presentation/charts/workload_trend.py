"""The first number of a workload over time, a line for each provider, with the numbered marks of what happened to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from plumbline.analysis.fleet import Number
from plumbline.archive import Archive, SeriesView
from plumbline.declarations import Declarations
from plumbline.metrics.formatting import Scale, capitalize_first, common_scale
from plumbline.presentation.charts.chart import BETTER, Chart, Part, line, marks, plotly_time, provider_style
from plumbline.presentation.charts.trend import (
    CampaignPoint,
    PlottedMetric,
    Trend,
    event_lanes,
    first_quantity,
    measured_quantities,
    read_trend,
)
from plumbline.presentation.events.event import StreamEvent

CAMPAIGNS = 12
_MOST_EVENTS = 40
_CHART_KINDS = ("environment", "change point")
"""Events that one series shows, whose text names no provider."""
_MANY_REPEATS = 200
"""Repeats beyond which only medians are drawn."""


@dataclass(frozen=True)
class TrendCampaign:
    """A row of the table below the chart. `medians`: under the providers, "–" where it was not measured."""

    campaign_id: str
    day: str
    medians: tuple[str, ...]


@dataclass(frozen=True)
class WorkloadTrend:
    """`providers`: those that measured the number; `others`: asked, and without it. `chart`: None while none of them has two campaigns.
    `events`: what happened to them, oldest first; the chart's marks count them. `campaigns`: newest first, in `unit`."""

    providers: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    chart: Chart | None = None
    events: tuple[StreamEvent, ...] = ()
    campaigns: tuple[TrendCampaign, ...] = ()
    unit: str = ""


def workload_trend(
    archive: Archive, declared: Declarations, series: Sequence[SeriesView], number: Number | None, order: Sequence[str]
) -> WorkloadTrend:
    """The newest campaigns of one series of each provider. `number`: the workload's first; None for the leading one of its kind. `order`:
    providers as other charts of the page colour them."""
    trends: dict[str, Trend] = {}
    for one in series:
        measured = measured_quantities(archive, one)
        quantity = (
            next((q for q in measured if (q.metric, q.statistic) == number[:2] and number[2] in (None, q.phase)), None) if number else None
        )
        quantity = quantity or (first_quantity(one.kind, measured) if number is None and measured else None)
        if quantity is not None and (trend := read_trend(archive, declared, one, quantity, CAMPAIGNS)).points:
            trends[one.provider] = trend
    names = [name for name in order if name in trends] + sorted(trends.keys() - {*order})
    others = tuple(sorted({one.provider for one in series} - trends.keys()))
    if not names:
        return WorkloadTrend(others=others)
    values = [v for trend in trends.values() for point in trend.points for v in point.values]
    first = trends[names[0]].quantity
    scale = common_scale(first.definition.unit, values, first.metric)
    events = _events(trends)
    several = any(len(trend.points) > 1 for trend in trends.values())
    styled = list(dict.fromkeys([*order, *names]))
    return WorkloadTrend(
        tuple(names),
        others,
        _chart(first, {name: trends[name] for name in names}, styled, scale, events) if several else None,
        events,
        _campaigns([trends[name] for name in names], scale),
        (scale.suffix or first.definition.unit).strip(),
    )


def _events(trends: dict[str, Trend]) -> tuple[StreamEvent, ...]:
    """Each once, whatever number of providers it concerns."""
    found: dict[str, StreamEvent] = {}
    for name, trend in trends.items():
        for event in trend.events:
            if event.kind in _CHART_KINDS:
                event = replace(event, event_id=f"{event.event_id}/{name}", text=f"{name}: {event.text}", providers=(name,))
            found.setdefault(event.event_id, event)
    return tuple(sorted(found.values(), key=lambda event: (event.at, event.kind, event.event_id))[-_MOST_EVENTS:])


def _campaigns(trends: Sequence[Trend], scale: Scale) -> tuple[TrendCampaign, ...]:
    at: dict[str, datetime] = {point.campaign_id: point.at for trend in trends for point in trend.points}
    medians: list[dict[str, CampaignPoint]] = [{point.campaign_id: point for point in trend.points} for trend in trends]
    return tuple(
        TrendCampaign(name, f"{day:%Y-%m-%d}", tuple(scale.number(own[name].middle) if name in own else "–" for own in medians))
        for name, day in sorted(at.items(), key=lambda item: item[1], reverse=True)
    )


def _chart(quantity: PlottedMetric, trends: dict[str, Trend], styled: Sequence[str], scale: Scale, events: Sequence[StreamEvent]) -> Chart:
    suffix = scale.suffix or quantity.definition.unit
    repeats = sum(len(point.values) for trend in trends.values() for point in trend.points)
    data: list[Part] = []
    for name, trend in trends.items():
        colour, dash, symbol = provider_style(styled, name)
        measured = [(plotly_time(p.at), v / scale.factor, t) for p in trend.points for v, t in zip(p.values, p.trials, strict=True)]
        if repeats <= _MANY_REPEATS:
            data.append(
                marks(
                    [at for at, _, _ in measured], [value for _, value, _ in measured], colour, f"{name}: %{{y:.4g}} {suffix}<br>%{{text}}",
                    size=5, symbol=symbol, marker={"opacity": 0.35}, name=name, showlegend=False, text=[t for *_, t in measured],
                    customdata=[f"/trials/{t}" for *_, t in measured],
                )
            )  # fmt: skip
        data.append(
            line(
                [plotly_time(p.at) for p in trend.points], [p.middle / scale.factor for p in trend.points], colour,
                f"{name}: %{{y:.4g}} {suffix}<br>%{{text}}<extra>median</extra>", dash=dash, mode="lines+markers", name=name,
                text=[p.campaign_id for p in trend.points], customdata=[f"/campaigns/{p.campaign_id}" for p in trend.points],
                marker={"color": colour, "size": 8, "symbol": symbol},
            )
        )  # fmt: skip
    lanes, layout = event_lanes(events)
    layout["yaxis"] |= {"title": {"text": suffix}}
    happened = "Dotted lines: what happened to these providers; the list below names each number."
    light = "Light marks: usable repeats, linked to their trials. " if repeats <= _MANY_REPEATS else ""
    return Chart(
        name="workload-trend",
        section="workload",
        title=f"{capitalize_first(quantity.name)} over time{BETTER.get(quantity.definition.direction, '')}",
        caption=f"Lines: medians of campaigns. {light}{happened if events else 'Nothing happened to these providers in this time.'}",
        data=[*data, *lanes],
        layout=layout,
        height=380 + 20 * len(lanes),
        wide=True,
    )
