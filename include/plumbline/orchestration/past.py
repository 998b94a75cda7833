"""A series' own past, read from the archive for the comparison of its newest campaign. No Airflow in here."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plumbline.archive import Archive
    from plumbline.drift import Comparison

HISTORY = 48
"""Campaigns of a series that a review looks back on: four years of monthly ones."""


def with_past(archive: Archive, comparison: Comparison) -> Comparison:
    """What a long series says of the rows in doubt, and of creep past baselines that were accepted one after the other."""
    from plumbline.drift.longterm import FEWEST, Past, asks_for
    from plumbline.drift.longterm import with_past as judged

    key, candidate = comparison.series_key, comparison.candidate_campaign
    campaigns = [c for c, _ in archive.series_campaigns(key, HISTORY)]
    if len(campaigns) < FEWEST or candidate not in campaigns:
        return comparison
    campaigns = campaigns[: campaigns.index(candidate) + 1]
    oldest = _oldest_baseline(archive, key)
    several = oldest is not None and comparison.baseline_campaigns != (oldest,)
    wanted = asks_for(comparison, several)
    if not wanted:
        return comparison
    found = archive.levels(key, [*campaigns, *([oldest] if oldest and oldest not in campaigns else [])], sorted({m for m, _, _ in wanted}))

    def level(campaign: str, row: tuple[str, str, str]) -> float | None:
        values = [o.value for o in found[campaign] if (o.metric, o.statistic, o.phase) == row]
        return median(values) if values else None

    began = {row: at for row in wanted if several and oldest and (at := level(oldest, row)) is not None}
    return judged(comparison, Past(campaigns, {row: [level(c, row) for c in campaigns] for row in wanted}, began))


def _oldest_baseline(archive: Archive, series_key: str) -> str | None:
    """The oldest baseline since somebody last accepted a change of performance that no single baseline had shown, a creep."""
    accepted = archive.baseline_history(series_key)
    crept = [
        f.updated_at
        for f in archive.findings_of(series_key.split("/")[4], "performance")
        if f.state == "accepted" and series_key in f.detail.get("series", ()) and any(m.get("crept") for m in f.detail["members"])
    ]
    since = [b for b in accepted if not crept or b.accepted_at >= max(crept)]
    return (since or accepted[-1:])[0].campaign_id if accepted else None
