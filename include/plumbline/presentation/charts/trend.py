"""One metric of one series over time, with the findings, environment changes, prices and change points beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, replace
from datetime import datetime, timezone
from itertools import groupby
from statistics import median
from textwrap import wrap

from plumbline.analysis.drift.change_detection import MINIMUM_CHANGE, detect_changes
from plumbline.analysis.drift.environment import diff_environments
from plumbline.archive import Archive, MetricPoint, SeriesView
from plumbline.archive.records import BaselineView
from plumbline.archive.repository import Span
from plumbline.declarations import Declarations
from plumbline.metrics import Metric, leading_names, metric_of
from plumbline.metrics.formatting import (
    Scale,
    capitalize_first,
    common_scale,
    format_change,
    format_name,
    format_percent,
    shorten,
)
from plumbline.metrics.pooling import Pooled, pool
from plumbline.presentation.charts.chart import BETTER, Chart, Part, axis, line, marks, plotly_time, vertical
from plumbline.presentation.events.event import EventWindow, StreamEvent
from plumbline.presentation.events.stream import charted_events

_MARKS = {
    "finding": ("diamond", "$bad"),
    "outage": ("cross", "$bad"),
    "acceptance": ("hexagon", "$p4"),
    "decision": ("triangle-down", "$p2"),
    "action": ("star", "$base"),
    "environment": ("square", "$p3"),
    "price": ("triangle-up", "$p5"),
    "change point": ("x", "$p1"),
}
"""Kinds of events in the order of their lanes, with symbol and colour; another one is a circle below them. The stream knows no environments and no
change points: they are read from the campaigns that a chart shows."""
_OTHER_MARK = ("circle", "$soft")
_MOST_FACTS = 4
_MOST_EVENTS = 60
_APART = 1 / 30
"""The part of the axis that two marks of a lane are apart at least; nearer ones share one."""


@dataclass(frozen=True)
class PlottedMetric:
    """A metric by one statistic in one phase. `known`: the metric, which may be a workload's own; the page's JSON has its name alone."""

    metric: str
    statistic: str
    phase: str
    known: InitVar[Metric]

    def __post_init__(self, known: Metric) -> None:
        object.__setattr__(self, "_definition", known)

    @property
    def definition(self) -> Metric:
        known: Metric = self.__dict__["_definition"]
        return known

    @property
    def name(self) -> str:
        """The chart's name, such as `step time median, steady`."""
        statistic_suffix = "" if self.statistic == "value" else f" {self.statistic}"
        return f"{format_name(self.metric)}{statistic_suffix}, {format_name(self.phase)}"


def measured_quantities(archive: Archive, series: SeriesView) -> tuple[PlottedMetric, ...]:
    """What can be followed of a series: each number of its newest campaign."""
    campaign = archive.latest_campaign(series.series_key)
    names = archive.measured_names(series.series_key, campaign) if campaign is not None else []
    return tuple(PlottedMetric(n.metric, n.statistic, n.phase, metric_of(n)) for n in names)


def first_quantity(kind: str, quantities: Sequence[PlottedMetric]) -> PlottedMetric:
    """What leads for the kind of workload, else the first of these."""
    for name in leading_names(kind):
        for q in quantities:
            if (q.metric, q.statistic, q.phase) == (name, q.definition.statistic, "steady"):
                return q
    return quantities[0]


OF_THE_PROVIDER = ("environment", "price", "outage", "acceptance")
"""Kinds of events that concern all series of a provider."""


@dataclass(frozen=True)
class CampaignPoint:
    """Each usable repeat's value in the catalogue's unit, with its trial. `baseline`: it is, or was, part of the accepted baseline."""

    campaign_id: str
    at: datetime
    values: tuple[float, ...]
    trials: tuple[str, ...]
    baseline: bool

    @property
    def middle(self) -> float:
        return median(self.values)


@dataclass(frozen=True)
class BaselineStep:
    """The baseline of the campaigns from `since` to `until`: its repeats, pooled, and in words who accepted it, when and why."""

    since: datetime
    until: datetime
    level: Pooled
    text: str


@dataclass(frozen=True)
class Trend:
    """`baselines`: oldest first; those that measured this quantity."""

    series: SeriesView
    quantity: PlottedMetric
    points: tuple[CampaignPoint, ...]
    baselines: tuple[BaselineStep, ...]
    events: tuple[StreamEvent, ...]
    shown: Scale


def read_trend(
    archive: Archive,
    declared: Declarations,
    series: SeriesView,
    quantity: PlottedMetric,
    latest: int,
    between: Span = (None, None),
) -> Trend:
    """The newest `latest` campaigns of a series, of a span if asked."""
    planned_times = dict(archive.result_campaigns(series.series_key, latest, between))
    accepted = archive.baseline_history(series.series_key)
    baseline = {b.campaign_id for b in accepted}
    campaigns = list(dict.fromkeys((*planned_times, *(b.campaign_id for b in accepted))))
    measured: dict[str, list[MetricPoint]] = {}
    for point in archive.metric_history(series.series_key, quantity.metric, quantity.statistic, quantity.phase, campaigns):
        measured.setdefault(point.campaign_id, []).append(point)
    points = tuple(
        CampaignPoint(c, at, tuple(p.value for p in measured[c]), tuple(p.trial_id for p in measured[c]), c in baseline)
        for c, at in planned_times.items()
        if c in measured
    )
    compared = archive.baselines_of_campaigns(series.series_key, list(planned_times))
    steps = _baseline_steps(planned_times, compared, {c: [p.value for p in measured[c]] for c in measured})
    events = [
        *_stream_events(archive, declared, series, planned_times, between[1]),
        *_environment_events(archive, declared, series, planned_times),
        *_change_point_events(points, declared, series, quantity),
    ]
    first, end = min(planned_times.values(), default=None), between[1]
    events_in_span = (e for e in events if first is not None and e.at >= first and (end is None or e.at < end))
    sorted_events = tuple(sorted(events_in_span, key=lambda e: (e.at, _lane_order(e.kind))))
    values = [v for p in points for v in p.values]
    unit = common_scale(quantity.definition.unit, values, quantity.metric)
    return Trend(series, quantity, points, steps, sorted_events, unit)


def _baseline_steps(
    planned_times: Mapping[str, datetime], compared: Mapping[str, Sequence[BaselineView]], values: Mapping[str, Sequence[float]]
) -> tuple[BaselineStep, ...]:
    """One step for each run of campaigns that were compared with the same baseline; `planned_times`: oldest first."""
    campaigns = [c for c in planned_times if c in compared]
    steps: list[BaselineStep] = []
    for _, group in groupby(range(len(campaigns)), key=lambda i: [b.campaign_id for b in compared[campaigns[i]]]):
        run = list(group)
        accepted = compared[campaigns[run[0]]]
        pooled = [v for b in accepted for v in values.get(b.campaign_id, ())]
        if pooled:
            until = planned_times[campaigns[min(run[-1] + 1, len(campaigns) - 1)]]
            text = f"{', '.join(b.campaign_id for b in accepted)}: {_accepted(accepted[-1])}"
            steps.append(BaselineStep(planned_times[campaigns[run[0]]], until, pool(pooled), text))
    return tuple(steps)


def _accepted(baseline: BaselineView) -> str:
    return f"accepted by {baseline.accepted_by} on {baseline.accepted_at:%Y-%m-%d}: {baseline.why}"


def _stream_events(
    archive: Archive, declared: Declarations, series: SeriesView, planned_times: Mapping[str, datetime], end: datetime | None
) -> list[StreamEvent]:
    """What the stream has about this series and its provider, each where it began: a finding at the campaign that showed it first."""
    first = min(planned_times.values(), default=None)
    now = end or datetime.now(timezone.utc)
    if first is None or first >= now:
        return []
    window = EventWindow(archive, declared, first, now, series.provider, _MOST_EVENTS)
    return [
        replace(event, at=planned_times.get(event.campaign_id) or event.effective or event.at)
        for event in charted_events(window)
        if (not event.series or series.series_key in event.series) and (not event.workloads or series.workload in event.workloads)
    ]


def _environment_events(
    archive: Archive, declared: Declarations, series: SeriesView, planned_times: Mapping[str, datetime]
) -> list[StreamEvent]:
    """Differences to the previous campaign's environments, by the rules of findings."""
    facts = archive.facts_by_campaign(series.series_key, list(planned_times))
    events: list[StreamEvent] = []
    previous = None
    for campaign, at in planned_times.items():
        current = facts.get(campaign)
        if current is None:
            continue
        if previous is not None:
            changes = [c for c in diff_environments(previous, current, declared.thresholds.drift.environment) if c.matters]
            if changes:
                text = shorten((c.text.rpartition(" (")[0] for c in changes), _MOST_FACTS)
                events.append(StreamEvent(f"environment/{campaign}", at, "environment", "changed", text, f"/campaigns/{campaign}"))
        previous = current
    return events


def _change_point_events(
    points: Sequence[CampaignPoint], declared: Declarations, series: SeriesView, quantity: PlottedMetric
) -> list[StreamEvent]:
    limits = declared.thresholds.drift_limits(declared.workloads.get(series.workload), quantity.definition)
    floor = limits.warn if limits is not None and limits.warn > 0 else MINIMUM_CHANGE
    return [
        StreamEvent(
            f"change point/{points[c.index].campaign_id}",
            points[c.index].at,
            "change point",
            c.kind,
            f"lasting {c.kind} of {format_change(c.effect)} since campaign {points[c.index].campaign_id}",
            f"/campaigns/{points[c.index].campaign_id}",
        )
        for c in detect_changes([p.middle for p in points], floor=floor)
    ]


_MANY_REPEATS = 24
"""Repeats of a campaign beyond which their marks are smaller."""


def trend_chart(trend: Trend) -> Chart:
    """All repeats, the campaigns' medians and the baseline's interval, with the events above them on the same time axis."""
    definition, unit = trend.quantity.definition, trend.shown
    suffix = unit.suffix or definition.unit
    repeats = [(plotly_time(p.at), v / unit.factor, t) for p in trend.points for v, t in zip(p.values, p.trials, strict=True)]
    lanes, layout = event_lanes(trend.events)
    data = [
        *_baseline_parts(trend),
        marks(
            [at for at, _, _ in repeats],
            [value for _, value, _ in repeats],
            "$p0",
            f"%{{y:.4g}} {suffix}<br>%{{text}}",
            name="repeats",
            text=[t for _, _, t in repeats],
            customdata=[f"/trials/{t}" for _, _, t in repeats],
            size=7 if len(repeats) < _MANY_REPEATS * len(trend.points) else 4,
            marker={"opacity": 0.4},
        ),
        line(
            [plotly_time(p.at) for p in trend.points],
            [p.middle / unit.factor for p in trend.points],
            "$p0",
            f"%{{y:.4g}} {suffix}<br>%{{text}}<extra>median</extra>",
            mode="lines+markers",
            name="campaign median",
            text=[f"{p.campaign_id}{' (baseline)' if p.baseline else ''}" for p in trend.points],
            customdata=[f"/campaigns/{p.campaign_id}" for p in trend.points],
            marker={"color": "$p0", "size": 9, "symbol": ["square" if p.baseline else "circle" for p in trend.points]},
        ),
        *lanes,
    ]
    layout["yaxis"] |= {"title": {"text": suffix}}
    return Chart(
        name=f"trend {trend.series.workload} {trend.quantity.metric}",
        section="provider",
        title=f"{capitalize_first(trend.quantity.name)}{BETTER.get(definition.direction, '')}",
        caption="Light marks: usable repeats, linked to their trials. Line: medians of campaigns; squares: accepted as baseline. Stepped line: what "
        "each campaign was compared with, band: its interval. "
        "Dotted lines: events; the list below names each number.",
        data=data,
        layout=layout,
        height=400 + 20 * len(lanes),
        wide=True,
    )


def _baseline_parts(trend: Trend) -> list[Part]:
    """A band for each baseline's interval, and one stepped line through all of them."""
    unit = trend.shown
    bands: list[Part] = []
    for step in trend.baselines:
        if step.level.low is not None and step.level.high is not None:
            begin, end = plotly_time(step.since), plotly_time(step.until)
            low, high = step.level.low / unit.factor, step.level.high / unit.factor
            area: Part = {"fill": "toself", "fillcolor": "$basearea", "name": f"baseline, {format_percent(step.level.coverage)} interval"}
            area["showlegend"] = not bands
            bands.append(line([begin, end, end, begin, begin], [low, low, high, high, low], "$base", width=0, **area))
    if not trend.baselines:
        return []
    ends = [(at, step) for step in trend.baselines for at in (step.since, step.until)]
    levels = [step.level.value / unit.factor for _, step in ends]
    hover = f"%{{y:.4g}} {unit.suffix}<br>%{{text}}<extra>baseline</extra>"
    texts = [_wrap_label(step.text) for _, step in ends]
    return [*bands, line([plotly_time(at) for at, _ in ends], levels, "$base", hover, dash="dash", name="baseline", text=texts)]


def event_lanes(events: Sequence[StreamEvent]) -> tuple[list[Part], Part]:
    """Events above a curve over time: a lane of marks for each kind, and the layout of both axes with a dotted line for each event.

    A mark has the number of its event, by which a list below the chart names it: the first one in time is 1.
    """
    numbered = list(enumerate(events, 1))
    kinds = sorted({e.kind for e in events}, key=_lane_order)
    layout: Part = {
        "xaxis": axis("", type="date", anchor="y"),
        "yaxis": axis("", domain=[0, 0.98 - 0.075 * len(kinds)] if kinds else [0, 1]),
        "hovermode": "closest",
    }
    if kinds:
        names = {"type": "category", "categoryorder": "array", "categoryarray": kinds[::-1], "fixedrange": True, "showgrid": True}
        layout["yaxis2"] = axis("", domain=[1 - 0.075 * len(kinds), 1], range=[-0.6, len(kinds) - 0.4], **names)
        layout["shapes"] = [vertical(plotly_time(e.at), _mark(e.kind)[1], width=1, layer="above") for e in events]
    return [_event_marks(numbered, kind) for kind in kinds], layout


def _mark(kind: str) -> tuple[str, str]:
    return _MARKS.get(kind, _OTHER_MARK)


def _lane_order(kind: str) -> tuple[int, str]:
    return (list(_MARKS).index(kind) if kind in _MARKS else len(_MARKS), kind)


def _event_marks(numbered: Sequence[tuple[int, StreamEvent]], kind: str) -> Part:
    """One trace; events that are too near to tell apart share a mark, whose number is a span."""
    span = (numbered[-1][1].at - numbered[0][1].at) * _APART
    groups: list[list[tuple[int, StreamEvent]]] = []
    for number, event in numbered:
        if event.kind == kind:
            if groups and event.at - groups[-1][0][1].at <= span:
                groups[-1].append((number, event))
            else:
                groups.append([(number, event)])
    symbol, colour = _mark(kind)
    text: Part = {
        "mode": "markers+text",
        "text": [mark_text(own) for own in groups],
        "textposition": "middle right",
        "textfont": {"size": 11, "color": "$ink"},
        "cliponaxis": False,
        "hovertext": [hover_text(own) for own in groups],
        "customdata": [own[0][1].link for own in groups],
        "yaxis": "y2",
        "name": kind,
        "showlegend": False,
    }
    at = [plotly_time(own[0][1].at) for own in groups]
    return marks(at, [kind] * len(groups), colour, "%{hovertext}", size=10, symbol=symbol, **text)


def mark_text(own: Sequence[tuple[int, StreamEvent]]) -> str:
    """Beside a mark: the number of its event, or from which to which of several."""
    return f"{own[0][0]}" if len(own) == 1 else f"{own[0][0]}…{own[-1][0]}"


def hover_text(own: Sequence[tuple[int, StreamEvent]]) -> str:
    """A mark's label: its first events by their numbers."""
    return "<br>".join(f"{number}: {_wrap_label(event.text)}" for number, event in own[:_HOVERED])


_HOVERED = 3
"""Events of one mark that its label names; the list has all."""


def _wrap_label(text: str) -> str:
    """At most six lines, for a label on a phone; Plotly's markup is escaped."""
    safe = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "<br>".join(wrap(safe, 64)[:6])
