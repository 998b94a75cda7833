"""One number of one provider over time, with everything that could explain a change of it on the same axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timezone
from itertools import pairwise
from statistics import median
from typing import Literal

from plumbline.archive import Archive, FindingView, MetricPoint, SeriesView
from plumbline.declarations import METRICS, Declarations, Provider
from plumbline.drift.environment import diff
from plumbline.drift.series import FLOOR, changes
from plumbline.reports.figures import Scale, scale, words
from plumbline.scorecards.pooling import Pooled, pool

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
        return f"{words(self.metric)}{shown}, {words(self.phase)}"


@dataclass(frozen=True)
class Happening:
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
    happenings: tuple[Happening, ...]
    shown: Scale


def trend(
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
    unit = scale(METRICS[quantity.metric].unit, values or accepted, quantity.metric)
    return Trend(series, quantity, points, pool(accepted) if accepted else None, seen, unit)


def _findings(findings: Sequence[FindingView], series: SeriesView, planned: Mapping[str, datetime]) -> list[Happening]:
    """Those of this series, and those about the provider as a whole."""
    found = []
    for f in findings:
        about = {f.series_key, *(f.detail.get("standing") or ())}
        if f.kind in ("performance", "reliability", "missing_data") and f.series_key and series.series_key not in about:
            continue
        at = planned.get(f.campaign_id or "") or _day(str(f.detail.get("since") or "")) or f.opened_at
        found.append(Happening(at, "finding", f.headline.removeprefix(f.severity.upper()).strip(), f"/findings/{f.finding_id}"))
    return found


def _day(text: str) -> datetime | None:
    try:
        return datetime.combine(datetime.strptime(text[:10], "%Y-%m-%d").date(), time(), timezone.utc)  # noqa: DTZ007 (a day, made UTC at once)
    except ValueError:
        return None


def _environments(archive: Archive, declared: Declarations, series: SeriesView, planned: Mapping[str, datetime]) -> list[Happening]:
    """What differs between a campaign's environments and those of the campaign before it, by the same rules as findings."""
    facts = archive.facts_by_campaign(series.series_key, list(planned))
    found, before = [], None
    for campaign, at in planned.items():
        now = facts.get(campaign)
        if now is None:
            continue
        if before is not None:
            changed = [c for c in diff(before, now, declared.thresholds.drift.environment) if c.matters]
            if changed:
                told = ", ".join(c.text.rpartition(" (")[0] for c in changed[:_MOST_FACTS])
                more = f" and {len(changed) - _MOST_FACTS} more" if len(changed) > _MOST_FACTS else ""
                found.append(Happening(at, "environment", told + more, f"/campaigns/{campaign}"))
        before = now
    return found


def _prices(provider: Provider) -> list[Happening]:
    """Each price that followed another one of its kind."""
    found = []
    for purchase in {p.purchase for p in provider.price_list}:
        own = sorted((p for p in provider.price_list if p.purchase == purchase), key=lambda p: p.since)
        for old, new in pairwise(own):
            if old.price != new.price:
                at = datetime.combine(new.since, time(), timezone.utc)
                text = f"{words(purchase)} price {old.price:,.10g} → {new.price:,.10g} USD/h ({new.price / old.price - 1:+.1%})"
                found.append(Happening(at, "price", text, f"/prices/{provider.name}"))
    return found


def _change_points(points: Sequence[CampaignPoint], declared: Declarations, series: SeriesView, quantity: Quantity) -> list[Happening]:
    limits = declared.thresholds.drift_limits(declared.workloads.get(series.workload), quantity.metric)
    floor = limits.warn if limits is not None and limits.warn > 0 else FLOOR
    return [
        Happening(
            points[c.index].at,
            "change point",
            f"the series shows a lasting {c.kind} of {c.effect:+.1%} since campaign {points[c.index].campaign_id}",
            f"/campaigns/{points[c.index].campaign_id}",
        )
        for c in changes([p.middle for p in points], floor=floor)
    ]
