"""One metric of one series over time, with the findings, environment changes, prices and change points beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timezone
from itertools import pairwise
from statistics import median
from textwrap import wrap
from typing import Any, Literal

from plumbline.analysis.drift.change_detection import MINIMUM_CHANGE, detect_changes
from plumbline.analysis.drift.environment import diff_environments
from plumbline.analysis.scorecards.pooling import Pooled, pool
from plumbline.archive import Archive, FindingView, MetricPoint, SeriesView
from plumbline.declarations import Declarations, Provider
from plumbline.metrics import METRICS
from plumbline.metrics.formatting import Scale, capitalize_first, common_scale, format_name, format_percent
from plumbline.presentation.charts.chart import Chart, axis

EventKind = Literal["change point", "environment", "price", "finding"]
EVENT_KINDS: tuple[EventKind, ...] = ("finding", "environment", "price", "change point")
_MOST_FACTS = 4
_MOST_FINDINGS = 60


@dataclass(frozen=True)
class Quantity:
    """A number that is followed: a metric by one statistic in one phase."""

    metric: str
    statistic: str
    phase: str

    @property
    def name(self) -> str:
        """In words, such as `step time median, steady`."""
        shown = "" if self.statistic == "value" else f" {self.statistic}"
        return f"{format_name(self.metric)}{shown}, {format_name(self.phase)}"


@dataclass(frozen=True)
class TrendEvent:
    """Something that happened to the provider `at` a time. `link`: a page's path that says more, empty if there is none."""

    at: datetime
    kind: EventKind
    text: str
    link: str


@dataclass(frozen=True)
class CampaignPoint:
    """What one campaign measured: each usable repeat's value in the catalogue's unit with its trial, and whether it is part of the baseline."""

    campaign_id: str
    at: datetime
    values: tuple[float, ...]
    trials: tuple[str, ...]
    baseline: bool

    @property
    def middle(self) -> float:
        return median(self.values)


@dataclass(frozen=True)
class Trend:
    """`baseline`: the accepted baseline's repeats together, with the interval of their median; None where there is none, or where it did
    not measure this number."""

    series: SeriesView
    quantity: Quantity
    points: tuple[CampaignPoint, ...]
    baseline: Pooled | None
    events: tuple[TrendEvent, ...]
    shown: Scale


def read_trend(
    archive: Archive, declared: Declarations, provider: Provider | None, series: SeriesView, quantity: Quantity, latest: int
) -> Trend:
    """The newest `latest` campaigns of a series. `provider`: as declared, with accepted prices; None of one that is declared no more."""
    planned = dict(archive.series_campaigns(series.series_key, latest))
    held = archive.baseline(series.series_key)
    asked = list(dict.fromkeys((*planned, *held)))
    found: dict[str, list[MetricPoint]] = {}
    for point in archive.metric_history(series.series_key, quantity.metric, quantity.statistic, quantity.phase, asked):
        found.setdefault(point.campaign_id, []).append(point)
    points = tuple(
        CampaignPoint(c, at, tuple(p.value for p in found[c]), tuple(p.trial_id for p in found[c]), c in held)
        for c, at in planned.items()
        if c in found
    )
    accepted = [p.value for c in held for p in found.get(c, ())]
    happenings = [
        *_findings(archive.findings_page(provider=series.provider, limit=_MOST_FINDINGS).rows, series, planned),
        *_environments(archive, declared, series, planned),
        *(_prices(provider) if provider is not None else ()),
        *_change_points(points, declared, series, quantity),
    ]
    first = min(planned.values(), default=None)
    seen = tuple(sorted((h for h in happenings if first is not None and h.at >= first), key=lambda h: (h.at, EVENT_KINDS.index(h.kind))))
    values = [v for p in points for v in p.values]
    unit = common_scale(METRICS[quantity.metric].unit, values or accepted, quantity.metric)
    return Trend(series, quantity, points, pool(accepted) if accepted else None, seen, unit)


def _findings(findings: Sequence[FindingView], series: SeriesView, planned: Mapping[str, datetime]) -> list[TrendEvent]:
    """Those of this series, and those about the provider as a whole."""
    found = []
    for f in findings:
        about = {f.series_key, *(f.detail.get("standing") or ())}
        if f.kind in ("performance", "reliability", "missing_data") and f.series_key and series.series_key not in about:
            continue
        at = planned.get(f.campaign_id or "") or _day(str(f.detail.get("since") or "")) or f.opened_at
        found.append(TrendEvent(at, "finding", f.headline.removeprefix(f.severity.upper()).strip(), f"/findings/{f.finding_id}"))
    return found


def _day(text: str) -> datetime | None:
    try:
        return datetime.combine(datetime.strptime(text[:10], "%Y-%m-%d").date(), time(), timezone.utc)  # noqa: DTZ007 (a day, made UTC at once)
    except ValueError:
        return None


def _environments(archive: Archive, declared: Declarations, series: SeriesView, planned: Mapping[str, datetime]) -> list[TrendEvent]:
    """What differs between a campaign's environments and those of the campaign before it, by the same rules as findings."""
    facts = archive.facts_by_campaign(series.series_key, list(planned))
    found, before = [], None
    for campaign, at in planned.items():
        now = facts.get(campaign)
        if now is None:
            continue
        if before is not None:
            changed = [c for c in diff_environments(before, now, declared.thresholds.drift.environment) if c.matters]
            if changed:
                told = ", ".join(c.text.rpartition(" (")[0] for c in changed[:_MOST_FACTS])
                more = f" and {len(changed) - _MOST_FACTS} more" if len(changed) > _MOST_FACTS else ""
                found.append(TrendEvent(at, "environment", told + more, f"/campaigns/{campaign}"))
        before = now
    return found


def _prices(provider: Provider) -> list[TrendEvent]:
    """Each price that followed another one of its kind."""
    found = []
    for purchase in {p.purchase for p in provider.price_list}:
        own = sorted((p for p in provider.price_list if p.purchase == purchase), key=lambda p: p.since)
        for old, new in pairwise(own):
            if old.price != new.price:
                at = datetime.combine(new.since, time(), timezone.utc)
                text = f"{format_name(purchase)} price {old.price:,.10g} → {new.price:,.10g} USD/h ({new.price / old.price - 1:+.1%})"
                found.append(TrendEvent(at, "price", text, f"/prices/{provider.name}"))
    return found


def _change_points(points: Sequence[CampaignPoint], declared: Declarations, series: SeriesView, quantity: Quantity) -> list[TrendEvent]:
    limits = declared.thresholds.drift_limits(declared.workloads.get(series.workload), quantity.metric)
    floor = limits.warn if limits is not None and limits.warn > 0 else MINIMUM_CHANGE
    return [
        TrendEvent(
            points[c.index].at,
            "change point",
            f"the series shows a lasting {c.kind} of {c.effect:+.1%} since campaign {points[c.index].campaign_id}",
            f"/campaigns/{points[c.index].campaign_id}",
        )
        for c in detect_changes([p.middle for p in points], floor=floor)
    ]


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
    data: list[dict[str, Any]] = [*_baseline_band(trend)]
    repeats = [(p, v, t) for p in trend.points for v, t in zip(p.values, p.trials, strict=True)]
    data.append(
        {
            "type": "scatter",
            "mode": "markers",
            "name": "repeats",
            "x": [plotly_time(p.at) for p, _, _ in repeats],
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
            "x": [plotly_time(p.at) for p in trend.points],
            "y": [p.middle / unit.factor for p in trend.points],
            "text": [f"{p.campaign_id}{' (baseline)' if p.baseline else ''}" for p in trend.points],
            "customdata": [f"/campaigns/{p.campaign_id}" for p in trend.points],
            "line": {"color": "$p0", "width": 2},
            "marker": {"color": "$p0", "size": 9, "symbol": ["square" if p.baseline else "circle" for p in trend.points]},
            "hovertemplate": f"%{{y:.4g}} {suffix}<br>%{{text}}<extra>median</extra>",
        }
    )
    kinds = [kind for kind in EVENT_KINDS if any(h.kind == kind for h in trend.events)]
    layout: dict[str, Any] = {
        "xaxis": axis("", type="date", anchor="y"),
        "yaxis": axis(suffix, domain=[0, 0.98 - 0.075 * len(kinds)] if kinds else [0, 1]),
        "hovermode": "closest",
    }
    if kinds:
        data += [_event_marks(trend, kind) for kind in kinds]
        layout["yaxis2"] = axis(
            "", domain=[1 - 0.075 * len(kinds), 1], type="category", categoryorder="array", categoryarray=kinds[::-1],
            range=[-0.6, len(kinds) - 0.4], fixedrange=True, showgrid=True,
        )  # fmt: skip
        layout["shapes"] = [_line(h.at, _MARKS[h.kind][1]) for h in trend.events]
    return Chart(
        name=f"trend {trend.series.workload} {trend.quantity.metric}",
        section="provider",
        title=f"{capitalize_first(trend.quantity.name)}{_BETTER.get(known.direction, '')}",
        caption=(
            "Light marks: usable repeats, each leads to its trial. Line: medians of campaigns; square ones are the accepted baseline, whose "
            "interval is the band. Dotted lines: what happened when, named above the curve."
        ),
        data=data,
        layout=layout,
        height=400 + 20 * len(kinds),
        wide=True,
    )


def _baseline_band(trend: Trend) -> list[dict[str, Any]]:
    if trend.baseline is None or not trend.points:
        return []
    unit, held = trend.shown, trend.baseline
    begin, end = plotly_time(trend.points[0].at), plotly_time(trend.points[-1].at)
    found: list[dict[str, Any]] = []
    if held.low is not None and held.high is not None:
        low, high = held.low / unit.factor, held.high / unit.factor
        found.append(
            {
                "type": "scatter", "mode": "lines", "fill": "toself", "fillcolor": "$basearea", "line": {"width": 0, "color": "$base"},
                "name": f"baseline, {format_percent(held.coverage)} interval", "hoverinfo": "skip",
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


def _event_marks(trend: Trend, kind: str) -> dict[str, Any]:
    own = [h for h in trend.events if h.kind == kind]
    symbol, paint = _MARKS[kind]
    return {
        "type": "scatter",
        "mode": "markers",
        "yaxis": "y2",
        "name": kind,
        "showlegend": False,
        "x": [plotly_time(h.at) for h in own],
        "y": [kind] * len(own),
        "text": [_wrapped(h.text) for h in own],
        "customdata": [h.link for h in own],
        "marker": {"color": paint, "size": 11, "symbol": symbol},
        "hovertemplate": "%{text}<extra></extra>",
    }


def _line(at: datetime, paint: str) -> dict[str, Any]:
    return {
        "type": "line", "xref": "x", "yref": "paper", "x0": plotly_time(at), "x1": plotly_time(at), "y0": 0, "y1": 1,
        "line": {"color": paint, "width": 1, "dash": "dot"}, "layer": "above",
    }  # fmt: skip


def plotly_time(moment: datetime) -> str:
    """A time as Plotly reads it, UTC."""
    return moment.strftime("%Y-%m-%d %H:%M")


def _wrapped(text: str, width: int = 64) -> str:
    """A sentence in lines, for a label that would leave the screen; what Plotly would read as markup is escaped."""
    safe = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "<br>".join(wrap(safe, width)[:6])
