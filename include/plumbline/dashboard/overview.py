"""What the overview shows: every workload on every provider, how it did last, whether it drifted, how old that news is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median

from plumbline.archive import Archive, CampaignView, FindingView, SeriesView
from plumbline.declarations import METRICS
from plumbline.reports.figures import scale, words

HEADLINE: dict[str, tuple[tuple[str, ...], ...]] = {
    "training": (
        ("step_time",),
        ("tokens_per_second", "samples_per_second"),
        ("effective_tokens_per_second", "effective_samples_per_second"),
    ),
    "inference": (("time_to_first_token",), ("output_token_throughput",)),
}
"""Of each group the first one that was measured: images have no tokens."""
ANSWERED_WHOLE = (("request_scheduled_latency",), ("request_throughput",))
"""Of a model that answers at once, such as an encoder: nothing comes between its tokens."""
MOST_FINDINGS, MOST_CAMPAIGNS = 200, 20
STALE_DAYS = 40
"""Campaigns are monthly: what is older than this missed one."""

_WORST = ("page", "warn", "info")


@dataclass(frozen=True)
class Cell:
    """One series. `drift` is a severity, "steady", or "no baseline"."""

    series_key: str
    provider: str
    numbers: tuple[tuple[str, str], ...]
    usable: int
    planned: int
    campaign_id: str
    age: str
    stale: bool
    drift: str
    simulated: bool


@dataclass(frozen=True)
class Line:
    kind: str
    workload: str
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True)
class Overview:
    providers: tuple[str, ...]
    lines: tuple[Line, ...]
    findings: tuple[FindingView, ...]
    campaigns: tuple[tuple[CampaignView, str, bool], ...]


def overview(archive: Archive, reports: Path, now: datetime) -> Overview:
    """Everything on the page. Reads each series' newest campaign only, so its cost follows the number of series, not of trials.

    Imported series are no provider of ours: their campaigns are listed, and nothing else of them.
    """
    series = [s for s in archive.series() if s.source != "imported"]
    findings = archive.findings(state="open", latest=MOST_FINDINGS)
    # Somebody is on an acknowledged one; the series has drifted all the same.
    standing = (*findings, *archive.findings(state="acknowledged", latest=MOST_FINDINGS))
    providers = tuple(sorted({s.provider for s in series}))
    lines = []
    for kind, workload, version in sorted({(s.kind, s.workload, s.version) for s in series}, key=lambda k: (k[0] != "training", k)):
        own = {s.provider: s for s in series if (s.kind, s.workload, s.version) == (kind, workload, version)}
        cells = tuple(_cell(archive, own[p], standing, now) if p in own else None for p in providers)
        lines.append(Line(kind, f"{workload} v{version}", cells))
    campaigns = reversed(archive.campaigns(latest=MOST_CAMPAIGNS))
    return Overview(
        providers,
        tuple(lines),
        tuple(findings[:10]),
        tuple((c, age(c.planned_at, now), report_file(reports, c.campaign_id).is_file()) for c in campaigns),
    )


def _cell(archive: Archive, series: SeriesView, findings: Sequence[FindingView], now: datetime) -> Cell | None:
    campaigns = archive.campaigns(series.series_key, latest=1)
    if not campaigns:
        return None
    last = campaigns[0]
    own = {f.severity for f in findings if series.series_key in (f.detail.get("standing") or [f.series_key])}
    worst = next((s for s in _WORST if s in own), None)
    return Cell(
        series_key=series.series_key,
        provider=series.provider,
        numbers=_numbers(archive, series, last.campaign_id),
        usable=last.outcomes.usable,
        planned=last.outcomes.planned,
        campaign_id=last.campaign_id,
        age=age(last.planned_at, now),
        stale=(now - last.planned_at).days > STALE_DAYS,
        drift=worst or ("steady" if archive.baseline(series.series_key) else "no baseline"),
        simulated=series.source == "simulated",
    )


def _numbers(archive: Archive, series: SeriesView, campaign_id: str) -> tuple[tuple[str, str], ...]:
    observations = archive.sample(series.series_key, campaign_id).observations
    found = []
    whole = series.kind == "inference" and all(o.metric != "inter_token_latency" for o in observations)
    for group in ANSWERED_WHOLE if whole else HEADLINE[series.kind]:
        for name in group:
            known = METRICS[name]
            values = [o.value for o in observations if (o.metric, o.statistic, o.phase) == (name, known.statistic, "steady")]
            if values:
                found.append((words(name), scale(known.unit, values, name).text(median(values))))
                break
    return tuple(found)


def report_file(reports: Path, campaign_id: str) -> Path:
    """Where a campaign's report lies, whether or not it was written."""
    return reports / campaign_id / "report.html"


def age(then: datetime, now: datetime) -> str:
    """How long ago, in the largest unit that fits."""
    seconds = (now - then).total_seconds()
    for size, name in ((86400, "day"), (3600, "hour"), (60, "minute")):
        count = int(seconds // size)
        if count >= 1:
            return f"{count} {name}{'s' if count > 1 else ''} ago"
    return "just now"


def explanation(detail: Mapping[str, object]) -> str:
    """What a finding is attributed to, in words; empty if nothing explains it."""
    return str(detail.get("explanation") or "")
