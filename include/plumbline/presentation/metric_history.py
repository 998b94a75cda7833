"""A finding's metric or price over time, read from the archive, and its chart."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import accumulate
from statistics import median
from typing import TYPE_CHECKING, Any

from plumbline.analysis.drift import comparison
from plumbline.analysis.prices.check import SOURCE_PRIORITY
from plumbline.findings.price import CHANGED_SUBJECT, CORE_HOUR, GPU_HOUR, HELD_SUBJECT
from plumbline.findings.probe import PROBE_SUBJECT as PROBED
from plumbline.findings.probe import USUAL_PROBES
from plumbline.metrics import METRICS
from plumbline.metrics.formatting import Scale, common_scale, format_name
from plumbline.presentation.charts.chart import Chart, axis

if TYPE_CHECKING:
    from plumbline.archive import Archive
    from plumbline.results.finding import Finding


@dataclass(frozen=True)
class HistoryPoint:
    """What one campaign measured (each repeat a value), or one day's price. `label`: as the axis names it; values in the history's unit."""

    label: str
    values: tuple[float, ...]
    baseline: bool = False

    @property
    def middle(self) -> float:
        return median(self.values)


@dataclass(frozen=True)
class History:
    """A quantity over time, oldest first. `since`: the place of the first point that differs; `change`: by how much, in words.

    `level`: what it is held against; `band`: where the new level lies, lowest and highest, by the finding's interval (None: exact).
    `level_name`: what that is called. `steps`: the value holds until the next point, as prices do; `simulated`: no real machine was measured.
    """

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


HISTORY_CAMPAIGNS = 24
"""How many campaigns a history looks back on: two years of monthly ones, the newest last."""
HISTORY_DAYS = 90
"""How many days of a price a history looks back on."""
_READINGS = 2000
_LABEL = 10
"""Characters that an axis has for a campaign; one with a longer name is told by its day."""


def finding_history(archive: Archive, finding: Finding) -> History | None:
    """What the chart shows, as data: campaigns of the series that leads for a performance finding, probes for one that
    no campaign showed, days for a price."""
    if finding.kind == "performance" and finding.subject == PROBED:
        return _probe_history(archive, finding)
    if finding.kind == "performance" and finding.campaigns and finding.members:
        return _performance_history(archive, finding)
    if finding.kind == "price" and finding.effect is not None:
        return _price_history(archive, finding)
    return None


def _performance_history(archive: Archive, finding: Finding) -> History | None:
    name = finding.members[0].name
    metric, statistic, phase = comparison.parse_metric_name(name)
    known = METRICS[metric]
    planned = dict(archive.series_campaigns(finding.series_key, HISTORY_CAMPAIGNS))
    older = [c for c in finding.baseline_campaigns if c not in planned]  # what a creep is held against may lie further back than is shown
    levels = archive.levels(finding.series_key, [*older, *planned], [metric])
    wanted = (statistic or known.statistic, phase)
    measured = {c: [o.value for o in levels.get(c, ()) if (o.statistic, o.phase) == wanted] for c in (*older, *planned)}
    campaigns = {c: (c if len(c) <= _LABEL else f"{at:%Y-%m-%d}", measured[c]) for c, at in planned.items() if measured[c]}
    shown = list(campaigns)
    if finding.campaign_id not in shown[1:]:
        return None
    unit = common_scale(known.unit, [v for c in shown for v in campaigns[c][1]], metric)
    points = [
        HistoryPoint(campaigns[c][0], tuple(v / unit.factor for v in campaigns[c][1]), c in finding.baseline_campaigns) for c in shown
    ]
    level = _level([v for c in finding.baseline_campaigns for v in measured[c]], unit)
    return History(
        title=f"{finding.provider} · {finding.workload} · {format_name(name)}",
        unit=unit.suffix.strip() or known.unit,
        points=tuple(points),
        since=shown.index(finding.campaign_id),
        change=_change_text(finding, name),
        level=level,
        band=_band(finding, level, unit, differences=known.group == "reliability"),
        simulated=finding.simulated,
    )


def _probe_history(archive: Archive, finding: Finding) -> History | None:
    """The probes in which the metric that leads could be measured."""
    assert finding.since is not None and finding.effect is not None  # what no campaign showed has a day, and what is slower, by how much
    metric = finding.members[0].name
    taken = archive.snapshots(finding.provider, "probe", latest=HISTORY_CAMPAIGNS)
    shown = [(f"{s.taken_at:%Y-%m-%d}", s.figures[metric]) for s in taken if metric in s.figures]
    since = next((i for i, (day, _) in enumerate(shown) if day >= finding.since), 0)
    if since == 0:
        return None
    unit = common_scale(METRICS[metric].unit, [value for _, value in shown], metric)
    return History(
        title=f"{finding.provider} · probes · {comparison.format_probe_name(metric)}",
        unit=unit.suffix.strip() or METRICS[metric].unit,
        points=tuple(HistoryPoint(day, (value / unit.factor,)) for day, value in shown),
        since=since,
        change=comparison.format_relative_change(finding.effect),
        level=_level([value for _, value in shown[:since]][-USUAL_PROBES:], unit),
        level_name="usual",
        simulated=finding.simulated,
    )


def _price_history(archive: Archive, finding: Finding) -> History | None:
    """Days of one price, by the source whose word counts; what was accepted stands first where nothing was read before."""
    assert finding.effect is not None and finding.since is not None  # a price that changed was held against another one, on a day
    _, purchase, *rest = finding.members[0].name.split(".")
    term = rest[0] if rest else None
    readings = [r for r in archive.price_readings(finding.provider, purchase, term, latest=_READINGS) if r.term == term]
    speaking = {r.source for r in readings if f"{r.observed_at:%Y-%m-%d}" >= finding.since}
    source = next((s for s in SOURCE_PRIORITY if s in speaking), None)
    shown = _daily({r.observed_at.date(): r.usd_per_gpu_hour for r in readings if r.source == source})
    since = next((i for i, (day, _) in enumerate(shown) if day >= finding.since), None)
    if since is None:
        return None
    if since == 0:
        if finding.effect <= -1:
            return None
        shown, since = [("accepted", shown[0][1] / (1 + finding.effect)), *shown], 1
    held = ", held" if finding.subject.startswith(HELD_SUBJECT) else ""
    return History(
        title=f"{finding.provider} · {finding.subject.removeprefix(f'{HELD_SUBJECT} ').removeprefix(f'{CHANGED_SUBJECT} ')}",
        unit=f"USD per {CORE_HOUR if CORE_HOUR in finding.title else GPU_HOUR}",
        points=tuple(HistoryPoint(day, (price,)) for day, price in shown),
        since=since,
        change=f"{comparison.format_relative_change(finding.effect)}{held}",
        level=None if purchase == "spot" else shown[since - 1][1],  # a spot price has no level: it moves all the time
        level_name="before",
        steps=True,
        simulated=finding.simulated,
    )


def _daily(read: dict[date, float]) -> list[tuple[str, float]]:
    """Every day from the first reading to the last, `DAYS` at most: a price holds until another one is read."""
    if not read:
        return []
    first, last = min(read), max(read)
    days = [first + timedelta(days=i) for i in range((last - first).days + 1)]
    held = accumulate(days, lambda price, day: read.get(day, price), initial=read[first])
    return [(f"{day:%Y-%m-%d}", price) for day, price in zip(days, list(held)[1:], strict=True)][-HISTORY_DAYS:]


def _level(values: list[float], unit: Scale) -> float | None:
    return median(values) / unit.factor if values else None


def _band(finding: Finding, level: float | None, unit: Scale, *, differences: bool) -> tuple[float, float] | None:
    """Where the interval of the change puts the new level. Reliability's effects are differences, all others fractions of the baseline."""
    if level is None or finding.ci_low is None or finding.ci_high is None:
        return None
    ends = [level + (end / unit.factor if differences else end * abs(level)) for end in (finding.ci_low, finding.ci_high)]
    return min(ends), max(ends)


def _change_text(finding: Finding, name: str) -> str:
    """`+7.9 % (95 %: +6.8 … +9.1)` as the headline has it."""
    change = finding.title.removeprefix(f"{name} ").partition(" and ")[0]
    interval = re.search(r"\(\d[^()]*: [^()]*\)", finding.headline)
    return f"{change} {interval.group()}" if interval else change


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
