"""The history of a finding, from the archive: what its leading metric, or its price, did over time."""

from __future__ import annotations

import re
from datetime import date, timedelta
from itertools import accumulate
from statistics import median
from typing import TYPE_CHECKING

from plumbline.declarations import METRICS
from plumbline.drift import wording
from plumbline.drift.history import History, Point
from plumbline.drift.price import CHANGED, CORE_HOUR, GPU_HOUR, HELD
from plumbline.drift.probe import SUBJECT as PROBED
from plumbline.drift.probe import USUAL_OF
from plumbline.prices.check import AUTHORITY
from plumbline.reports.figures import Scale, scale, words

if TYPE_CHECKING:
    from plumbline.archive import Archive
    from plumbline.drift import Finding

CAMPAIGNS = 24
"""How many campaigns a history looks back on: two years of monthly ones, the newest last."""
DAYS = 90
"""How many days of a price a history looks back on."""
_READINGS = 2000
_LABEL = 10
"""Characters that an axis has for a campaign; one with a longer name is told by its day."""


def history_of(archive: Archive, finding: Finding) -> History | None:
    """What the chart shows, as data: campaigns of the series that leads for a performance finding, probes for one that
    no campaign showed, days for a price."""
    if finding.kind == "performance" and finding.subject == PROBED:
        return _probed(archive, finding)
    if finding.kind == "performance" and finding.campaigns and finding.members:
        return _performance(archive, finding)
    if finding.kind == "price" and finding.effect is not None:
        return _price(archive, finding)
    return None


def _performance(archive: Archive, finding: Finding) -> History | None:
    name = finding.members[0].name
    metric, statistic, phase = wording.parsed(name)
    known = METRICS[metric]
    planned = dict(archive.series_campaigns(finding.series_key, CAMPAIGNS))
    older = [c for c in finding.baseline_campaigns if c not in planned]  # what a creep is held against may lie further back than is shown
    levels = archive.levels(finding.series_key, [*older, *planned], [metric])
    wanted = (statistic or known.statistic, phase)
    measured = {c: [o.value for o in levels.get(c, ()) if (o.statistic, o.phase) == wanted] for c in (*older, *planned)}
    campaigns = {c: (c if len(c) <= _LABEL else f"{at:%Y-%m-%d}", measured[c]) for c, at in planned.items() if measured[c]}
    shown = list(campaigns)
    if finding.campaign_id not in shown[1:]:
        return None
    unit = scale(known.unit, [v for c in shown for v in campaigns[c][1]], metric)
    points = [Point(campaigns[c][0], tuple(v / unit.factor for v in campaigns[c][1]), c in finding.baseline_campaigns) for c in shown]
    level = _level([v for c in finding.baseline_campaigns for v in measured[c]], unit)
    return History(
        title=f"{finding.provider} · {finding.workload} · {words(name)}",
        unit=unit.suffix.strip() or known.unit,
        points=tuple(points),
        since=shown.index(finding.campaign_id),
        change=_change(finding, name),
        level=level,
        band=_band(finding, level, unit, differences=known.group == "reliability"),
        simulated=finding.simulated,
    )


def _probed(archive: Archive, finding: Finding) -> History | None:
    """The probes in which the metric that leads could be measured."""
    assert finding.since is not None and finding.effect is not None  # what no campaign showed has a day, and what is slower, by how much
    metric = finding.members[0].name
    taken = archive.snapshots(finding.provider, "probe", latest=CAMPAIGNS)
    shown = [(f"{s.taken_at:%Y-%m-%d}", s.figures[metric]) for s in taken if metric in s.figures]
    since = next((i for i, (day, _) in enumerate(shown) if day >= finding.since), 0)
    if since == 0:
        return None
    unit = scale(METRICS[metric].unit, [value for _, value in shown], metric)
    return History(
        title=f"{finding.provider} · probes · {wording.short(metric)}",
        unit=unit.suffix.strip() or METRICS[metric].unit,
        points=tuple(Point(day, (value / unit.factor,)) for day, value in shown),
        since=since,
        change=wording.percent(finding.effect),
        level=_level([value for _, value in shown[:since]][-USUAL_OF:], unit),
        level_name="usual",
        simulated=finding.simulated,
    )


def _price(archive: Archive, finding: Finding) -> History | None:
    """Days of one price, by the source whose word counts; what was accepted stands first where nothing was read before."""
    assert finding.effect is not None and finding.since is not None  # a price that changed was held against another one, on a day
    _, purchase, *rest = finding.members[0].name.split(".")
    term = rest[0] if rest else None
    readings = [r for r in archive.price_readings(finding.provider, purchase, term, latest=_READINGS) if r.term == term]
    speaking = {r.source for r in readings if f"{r.observed_at:%Y-%m-%d}" >= finding.since}
    source = next((s for s in AUTHORITY if s in speaking), None)
    shown = _daily({r.observed_at.date(): r.usd_per_gpu_hour for r in readings if r.source == source})
    since = next((i for i, (day, _) in enumerate(shown) if day >= finding.since), None)
    if since is None:
        return None
    if since == 0:
        if finding.effect <= -1:
            return None
        shown, since = [("accepted", shown[0][1] / (1 + finding.effect)), *shown], 1
    held = ", held" if finding.subject.startswith(HELD) else ""
    return History(
        title=f"{finding.provider} · {finding.subject.removeprefix(f'{HELD} ').removeprefix(f'{CHANGED} ')}",
        unit=f"USD per {CORE_HOUR if CORE_HOUR in finding.title else GPU_HOUR}",
        points=tuple(Point(day, (price,)) for day, price in shown),
        since=since,
        change=f"{wording.percent(finding.effect)}{held}",
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
    return [(f"{day:%Y-%m-%d}", price) for day, price in zip(days, list(held)[1:], strict=True)][-DAYS:]


def _level(values: list[float], unit: Scale) -> float | None:
    return median(values) / unit.factor if values else None


def _band(finding: Finding, level: float | None, unit: Scale, *, differences: bool) -> tuple[float, float] | None:
    """Where the interval of the change puts the new level. Reliability's effects are differences, all others fractions of the baseline."""
    if level is None or finding.ci_low is None or finding.ci_high is None:
        return None
    ends = [level + (end / unit.factor if differences else end * abs(level)) for end in (finding.ci_low, finding.ci_high)]
    return min(ends), max(ends)


def _change(finding: Finding, name: str) -> str:
    """`+7.9 % (95 %: +6.8 … +9.1)` as the headline has it."""
    change = finding.title.removeprefix(f"{name} ").partition(" and ")[0]
    interval = re.search(r"\(\d[^()]*: [^()]*\)", finding.headline)
    return f"{change} {interval.group()}" if interval else change
