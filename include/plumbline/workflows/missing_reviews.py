"""Campaigns that were recorded and never reviewed: the review failed, or the event that starts it was lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from plumbline.archive import Archive
from plumbline.archive.audit import CAMPAIGN_REVIEWED
from plumbline.declarations import Declarations
from plumbline.findings.types.installation import InstallationFailure
from plumbline.workflows.airflow_view import AirflowView
from plumbline.workflows.check_dags import watched_since
from plumbline.workflows.plan import REVIEW_DAG

REVIEW_GRACE = timedelta(hours=1)
"""Between the last record of a campaign and its review: a benchmark publishes its results when its last lane is recorded."""
_BEFORE = timedelta(days=31)
"""How long before the first check a campaign counts: an archive of years is not reviewed again."""
AT_ONCE = 4
"""Reviews that one hour starts: each may take minutes, and new results wait behind them."""
_TRIED_FOR = timedelta(days=7)
"""Once a day. After that a person must act, as the finding says."""


@dataclass(frozen=True)
class MissingReview:
    """`recorded_at`: of the newest result that no review has seen."""

    campaign_id: str
    provider: str
    recorded_at: datetime


def missing_reviews(archive: Archive, declared: Declarations, airflow: AirflowView, now: datetime) -> list[MissingReview]:
    """The results of this Airflow's benchmarks that no review has seen, oldest first; those whose review may still come are left out."""
    since = watched_since(archive, REVIEW_DAG, now) - _BEFORE
    recorded = {pair: at for pair, at in archive.newest_records().items() if pair[1] in declared.providers and since <= at}
    seen = _reviewed(archive, recorded)
    missing = [MissingReview(*pair, at) for pair, at in recorded.items() if seen.get(pair, since) < at and at + REVIEW_GRACE <= now]
    if not missing or airflow.active(REVIEW_DAG):
        return []
    busy = {name for name in {one.provider for one in missing} if airflow.active(declared.providers[name].dag_id)}
    return sorted((one for one in missing if one.provider not in busy), key=lambda one: (one.recorded_at, one.campaign_id, one.provider))


def _reviewed(archive: Archive, pairs: Mapping[tuple[str, str], datetime]) -> dict[tuple[str, str], datetime]:
    """(Campaign, provider) → the newest record that a review has seen."""
    found: dict[tuple[str, str], datetime] = {}
    for entry in archive.audit(tuple(" ".join(pair) for pair in pairs)) if pairs else ():
        if entry.what == CAMPAIGN_REVIEWED:
            pair = (str(entry.detail["campaign_id"]), str(entry.detail["provider"]))
            at = datetime.fromisoformat(str(entry.detail["recorded_at"]))
            found[pair] = max(at, found.get(pair, at))
    return found


def note_review(archive: Archive, who: str, records: Mapping[tuple[str, str], datetime]) -> None:
    """Note that a review has seen these records, each once."""
    for (campaign_id, provider), at in records.items():
        detail = {"campaign_id": campaign_id, "provider": provider, "recorded_at": at.isoformat()}
        subject = f"{campaign_id} {provider}"
        archive.add_audit(
            who=who, what=CAMPAIGN_REVIEWED, subject=subject, detail=detail, once=f"{CAMPAIGN_REVIEWED} {subject} {at.isoformat()}"
        )


def reviews_to_start(archive: Archive, declared: Declarations, airflow: AirflowView, now: datetime) -> list[dict[str, Any]]:
    """The runs of the review to start now, each at most once a day; none while the review's DAG is paused or missing, which has its own finding."""
    state = airflow.dag(REVIEW_DAG)
    if state is None or state.paused:
        return []
    missing = [one for one in missing_reviews(archive, declared, airflow, now) if now - one.recorded_at <= _TRIED_FOR]
    # A review that fails each day must not keep the others from theirs.
    turn = (
        missing[now.hour * AT_ONCE % len(missing) :] + missing[: now.hour * AT_ONCE % len(missing)] if len(missing) > AT_ONCE else missing
    )
    return [
        {
            "conf": {"campaign": one.campaign_id, "provider": one.provider},
            "trigger_run_id": f"upkeep_{one.campaign_id}_{one.provider}_{now:%Y-%m-%d}",
        }
        for one in turn[:AT_ONCE]
    ]


def review_failures(archive: Archive, declared: Declarations, airflow: AirflowView, now: datetime) -> Iterator[InstallationFailure]:
    for one in missing_reviews(archive, declared, airflow, now):
        yield InstallationFailure(
            code="review_missing",
            what=f"{one.campaign_id} {one.provider}",
            occurrence=one.recorded_at.isoformat(timespec="seconds"),
            since=one.recorded_at,
            severity="warn",
            title=f"{one.campaign_id} on {one.provider} was recorded and not reviewed: its drift is not known",
            cause=f"no review of {REVIEW_DAG} has seen the result recorded at {one.recorded_at:%Y-%m-%d %H:%M} UTC",
            remedy=f"upkeep starts the review once a day for {_TRIED_FOR.days} days; if this stays, read the log of `compare` in the newest run of "
            f"{REVIEW_DAG}, then start it for this campaign",
        )
