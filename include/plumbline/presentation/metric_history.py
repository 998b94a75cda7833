"""A finding's metric or price over time, read from the archive, and its chart."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone
from itertools import accumulate
from statistics import median

from plumbline.analysis.prices.check import reports_prices, source_rank
from plumbline.archive import Archive
from plumbline.declarations import Declarations
from plumbline.findings.cause import falls_when_worse, mirrored
from plumbline.findings.price import CORE_HOUR, GPU_HOUR
from plumbline.findings.probe import USUAL_PROBES
from plumbline.findings.types import about_speed, type_of
from plumbline.findings.types.held_price import HeldPrice
from plumbline.metrics import METRICS, metric_of
from plumbline.metrics.formatting import Scale, common_scale, format_change, format_name, format_probe_name
from plumbline.presentation.charts.chart import PAPER, Chart, Part, axis, band, line, marks, vertical
from plumbline.presentation.charts.trend import hover_text, mark_text
from plumbline.presentation.events.event import EventWindow, StreamEvent
from plumbline.presentation.events.stream import charted_events
from plumbline.results.finding import FLEET, Finding
from plumbline.words.drift import parse_metric_name


@dataclass(frozen=True)
class HistoryPoint:
    """One campaign's repeats, or one day's price, in the history's unit. `label`: its name on the axis; `at`: its time, None of a price before the
    first reading."""

    label: str
    values: tuple[float, ...]
    baseline: bool = False
    at: datetime | None = None

    @property
    def middle(self) -> float:
        return median(self.values)


@dataclass(frozen=True)
class History:
    """A quantity over time, oldest first. `since`: index of the first changed point; `change`: its size as text. `level`: the reference value;
    `band`: the interval of the new level (None: exact). `steps`: a value is valid until the next point, as prices are."""

    title: str
    unit: str
    points: tuple[HistoryPoint, ...]
    since: int
    change: str
    level: float | None = None
    level_name: str = "baseline"
    band: tuple[float, float] | None = None
    steps: bool = False
    simulated: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.since < len(self.points):
            raise ValueError(f"since is {self.since} of {len(self.points)} points; expected one with a point before it")

    @property
    def begin(self) -> str:
        """Since when, as the axis says it."""
        return self.points[self.since].label


_MOST_EVENTS = 30
HISTORY_CAMPAIGNS = 24
HISTORY_DAYS = 90
_READINGS = 2000
_LABEL_LENGTH = 10
"""Characters of a campaign's name on the axis; a longer one is replaced by its day."""


def finding_history(archive: Archive, finding: Finding) -> History | None:
    """Campaigns of the leading series for a performance finding, probes for a probe finding, days for a price; None without a history."""
    drawn = type_of(finding).history
    if drawn == "probes":
        return _probe_history(archive, finding)
    if drawn == "series" and about_speed(finding) and finding.campaigns and finding.members:
        return _performance_history(archive, finding)
    if drawn == "price" and finding.effect is not None:
        return _price_history(archive, finding)
    return None


def _performance_history(archive: Archive, finding: Finding) -> History | None:
    name = finding.members[0].name
    metric, statistic, phase = parse_metric_name(name)
    planned_times = dict(archive.series_campaigns(finding.series_key, HISTORY_CAMPAIGNS))
    older = [c for c in finding.baseline_campaigns if c not in planned_times]  # the baseline of a slow drift may be older
    levels = archive.levels(finding.series_key, [*older, *planned_times], [metric])
    definition = next((metric_of(o) for own in levels.values() for o in own), None)
    if definition is None:
        return None
    row_key = (statistic or definition.statistic, phase)
    measured = {c: [o.value for o in levels.get(c, ()) if (o.statistic, o.phase) == row_key] for c in (*older, *planned_times)}
    campaigns = {c: (c if len(c) <= _LABEL_LENGTH else f"{at:%Y-%m-%d}", measured[c]) for c, at in planned_times.items() if measured[c]}
    campaign_ids = list(campaigns)
    if finding.campaign_id not in campaign_ids[1:]:
        return None
    unit = common_scale(definition.unit, [v for c in campaign_ids for v in campaigns[c][1]], metric)
    points = [
        HistoryPoint(campaigns[c][0], tuple(v / unit.factor for v in campaigns[c][1]), c in finding.baseline_campaigns, planned_times[c])
        for c in campaign_ids
    ]
    level = _level([v for c in finding.baseline_campaigns for v in measured[c]], unit)
    return History(
        title=f"{finding.provider} · {finding.workload} · {format_name(name)}",
        unit=unit.suffix.strip() or definition.unit,
        points=tuple(points),
        since=campaign_ids.index(finding.campaign_id),
        change=_change_text(finding, name),
        level=level,
        band=_band(finding, level, unit, differences=definition.group == "reliability"),
        simulated=finding.simulated,
    )


def _probe_history(archive: Archive, finding: Finding) -> History | None:
    assert finding.since is not None and finding.effect is not None  # a probe finding has both
    metric = finding.members[0].name
    snapshots = archive.snapshots(finding.provider, "probe", latest=HISTORY_CAMPAIGNS)
    daily_values = [(f"{s.taken_at:%Y-%m-%d}", s.figures[metric]) for s in snapshots if metric in s.figures]
    since = next((i for i, (day, _) in enumerate(daily_values) if day >= finding.since), 0)
    if since == 0:
        return None
    unit = common_scale(METRICS[metric].unit, [value for _, value in daily_values], metric)
    return History(
        title=f"{finding.provider} · probes · {format_probe_name(metric)}",
        unit=unit.suffix.strip() or METRICS[metric].unit,
        points=tuple(HistoryPoint(day, (value / unit.factor,), at=_moment(day)) for day, value in daily_values),
        since=since,
        change=format_change(finding.effect),
        level=_level([value for _, value in daily_values[:since]][-USUAL_PROBES:], unit),
        level_name="usual",
        simulated=finding.simulated,
    )


def _price_history(archive: Archive, finding: Finding) -> History | None:
    """Days of one price by its leading source, after the accepted price if nothing was read before."""
    assert finding.effect is not None and finding.since is not None  # a price change has both
    _, purchase, *rest = finding.members[0].name.split(".")
    term = rest[0] if rest else None
    readings = [r for r in archive.price_readings(finding.provider, purchase, term, latest=_READINGS) if r.term == term]
    later_sources = {r.source for r in readings if f"{r.observed_at:%Y-%m-%d}" >= finding.since}
    source = min(filter(reports_prices, later_sources), key=source_rank, default=None)
    daily_prices = _daily({r.observed_at.date(): r.usd_per_gpu_hour for r in readings if r.source == source})
    since = next((i for i, (day, _) in enumerate(daily_prices) if day >= finding.since), None)
    if since is None:
        return None
    if since == 0:
        if finding.effect <= -1:
            return None
        daily_prices, since = [(_BEFORE, daily_prices[0][1] / (1 + finding.effect)), *daily_prices], 1
    held_suffix = ", held" if HeldPrice.has(finding) else ""
    return History(
        title=f"{finding.provider} · {type_of(finding).rest(finding)}",
        unit=f"USD per {CORE_HOUR if CORE_HOUR in finding.title else GPU_HOUR}",
        points=tuple(HistoryPoint(day, (price,), at=_moment(day)) for day, price in daily_prices),
        since=since,
        change=f"{format_change(finding.effect)}{held_suffix}",
        level=None if purchase == "spot" else daily_prices[since - 1][1],  # a spot price moves all the time
        level_name="before",
        steps=True,
        simulated=finding.simulated,
    )


def _daily(readings: dict[date, float]) -> list[tuple[str, float]]:
    """Every day from the first reading to the last, at most HISTORY_DAYS; a price is valid until the next reading."""
    if not readings:
        return []
    first, last = min(readings), max(readings)
    days = [first + timedelta(days=i) for i in range((last - first).days + 1)]
    prices = accumulate(days, lambda price, day: readings.get(day, price), initial=readings[first])
    return [(f"{day:%Y-%m-%d}", price) for day, price in zip(days, list(prices)[1:], strict=True)][-HISTORY_DAYS:]


def _moment(day: str) -> datetime | None:
    return None if day == _BEFORE else datetime.fromisoformat(f"{day}T00:00:00+00:00")


_BEFORE = "accepted"
"""The label of a price that was in force before the first reading."""


def _level(values: list[float], unit: Scale) -> float | None:
    return median(values) / unit.factor if values else None


def _band(finding: Finding, level: float | None, unit: Scale, *, differences: bool) -> tuple[float, float] | None:
    """The interval of the new level. Effects of reliability are differences, all others fractions of the baseline."""
    if level is None or finding.ci_low is None or finding.ci_high is None:
        return None
    low, high = finding.ci_low, finding.ci_high
    if finding.cause is not None and falls_when_worse(finding.members[0]):
        low, high = mirrored(low), mirrored(high)  # pooled changes are those of a time, and this metric is a rate
    ends = [level + (end / unit.factor if differences else end * abs(level)) for end in (low, high)]
    return min(ends), max(ends)


def _change_text(finding: Finding, name: str) -> str:
    """`+7.9 % (95 %: +6.8 … +9.1)` as the evidence has it."""
    change = finding.title.removeprefix(f"{name} ").partition(" and ")[0]
    interval = re.search(r"\(\d[^()]*: [^()]*\)", finding.evidence)
    return f"{change} {interval.group()}" if interval else change


def history_events(archive: Archive, declared: Declarations, finding: Finding, history: History) -> tuple[StreamEvent, ...]:
    """What else happened to the finding's series and provider in the time of its history, oldest first."""
    first = next((point.at for point in history.points if point.at is not None), None)
    now = datetime.now(timezone.utc)
    if first is None or first >= now or finding.provider == FLEET:
        return ()
    window = EventWindow(archive, declared, first, now, finding.provider, _MOST_EVENTS)
    link, workload = f"/findings/{finding.finding_id}", {finding.workload} - {""}
    found = (
        event
        for event in charted_events(window)
        if event.link != link
        and (not event.series or not finding.series_key or finding.series_key in event.series)
        and (not event.workloads or not workload or workload & {*event.workloads})
    )
    campaigns = {point.label: point.at for point in history.points}
    placed = (replace(event, at=max(first, campaigns.get(event.campaign_id) or event.effective or event.at)) for event in found)
    return tuple(sorted(placed, key=lambda event: event.at))


def _event_lane(history: History, events: Sequence[StreamEvent]) -> list[Part]:
    """One lane of marks above the curve, each at the first point since its event; the number is the event's in the list below."""
    groups: dict[str, list[tuple[int, StreamEvent]]] = {}
    for number, event in enumerate(events, 1):
        since = (p.label for p in history.points if p.at is not None and p.at.date() >= event.at.date())
        groups.setdefault(next(since, history.points[-1].label), []).append((number, event))
    style: Part = {
        "yaxis": "y2",
        "name": "what happened",
        "showlegend": False,
        "cliponaxis": False,
        "textfont": {"size": 11, "color": "$ink"},
    }
    text = [mark_text(own) for own in groups.values()]
    hover = [hover_text(own) for own in groups.values()]
    return [
        marks(
            list(groups), ["events"] * len(groups), "$soft", "%{hovertext}", size=9, symbol="diamond", mode="markers+text", text=text,
            textposition="middle right", hovertext=hover, customdata=[own[0][1].link for own in groups.values()], **style,
        )
    ]  # fmt: skip


def finding_chart(history: History, events: Sequence[StreamEvent] = ()) -> Chart:
    """Repeats as small marks, campaigns as a line through their medians, with baseline, change and its interval; above them numbered `events`."""
    points, since, unit = history.points, history.since, history.unit
    labels = [p.label for p in points]

    def group(name: str, coordinates: list[tuple[str, float]], colour: str, symbol: str, size: int, opacity: float) -> Part:
        style = {"opacity": opacity, "line": PAPER}
        hover = f"{name}, %{{x}}: %{{y:.4g}} {unit}"
        return marks(
            [x for x, _ in coordinates], [y for _, y in coordinates], colour, hover, size=size, symbol=symbol, marker=style, name=name
        )

    repeats = [(p.label, v) for p in points if len(p.values) > 1 for v in p.values]
    data = [group("repeats", repeats, "$p0", "circle", 6, 0.4)] if repeats else []
    medians = line(labels, [p.middle for p in points], "$p0", f"%{{x}}: %{{y:.4g}} {unit}", name="price" if history.steps else "median")
    if history.steps:
        medians["line"]["shape"] = "hv"
    data.append(medians)
    groups: tuple[tuple[str, list[int], str, str], ...] = (
        ("before", [i for i in range(since) if not points[i].baseline], "$p0", "circle"),
        ("baseline", [i for i, p in enumerate(points) if p.baseline], "$p2", "square"),
        ("since the change", [i for i in range(since, len(points)) if not points[i].baseline], "$p1", "diamond"),
    )
    if history.steps:
        groups = (("the change", [since], "$p1", "diamond"),)
    data += [
        group(name, [(labels[i], points[i].middle) for i in indices], colour, symbol, 10, 1.0)
        for name, indices, colour, symbol in groups
        if indices
    ]
    lane: Part = {}
    if events:
        data += _event_lane(history, events)
        lane = {"yaxis2": axis("", type="category", domain=[0.93, 1], fixedrange=True, showgrid=False)}
    return Chart(
        name="history",
        section="finding",
        title=history.title,
        caption=f"{history.change} since {history.begin}. "
        + ("A price is valid until the next reading." if history.steps else "Small marks: repeats; large marks: medians of campaigns.")
        + (" The list below names each number." if events else ""),
        data=data,
        layout={
            "xaxis": axis("", type="category", categoryorder="array", categoryarray=labels, tickangle=0, nticks=8),
            "yaxis": axis(unit, domain=[0, 0.9 if events else 1]),
            **lane,
            "shapes": _shapes(history),
            "annotations": _notes(history),
            "hovermode": "closest",
        },
        height=360,
        wide=True,
    )


def _shapes(history: History) -> list[Part]:
    since, last = history.since - 0.5, len(history.points) - 0.5
    shapes = [band(since, last), vertical(since, "$p1", 1.5)]
    if history.band is not None:
        low, high = history.band
        edge = {"color": "$p1", "width": 1, "dash": "dot"}
        area = {"type": "rect", "xref": "x", "yref": "y", "x0": since, "x1": last, "y0": low, "y1": high}
        shapes.append({**area, "line": edge, "layer": "below"})
    if history.level is not None:
        level = {"type": "line", "xref": "paper", "yref": "y", "x0": 0, "x1": 1, "y0": history.level, "y1": history.level}
        shapes.append({**level, "line": {"color": "$p2", "width": 1.5, "dash": "dash"}})
    return shapes


def _notes(history: History) -> list[Part]:
    if history.level is None:
        return []
    text = f"{history.level_name} {history.level:,.4g} {history.unit}"
    position = {"xref": "paper", "yref": "y", "x": 0, "y": history.level, "xanchor": "left", "yanchor": "bottom"}
    return [{**position, "text": text, "showarrow": False, "font": {"color": "$p2", "size": 11}}]
