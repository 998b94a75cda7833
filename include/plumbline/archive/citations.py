"""Which trials something in the archive points to: their raw evidence is what a person looks at when the conclusion is doubted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlalchemy import select
from sqlalchemy.orm import Session

from plumbline.archive.judgements import Baseline, Decision, Finding
from plumbline.archive.models import Correction, Quarantined, SeriesCampaign, Trial

Citation = Literal["baseline", "finding", "decision", "correction", "quarantine", "newest campaign"]


@dataclass(frozen=True)
class Citations:
    """What is pointed to, by the ways in which it is named, each with by what."""

    series_campaigns: dict[tuple[str, str], Citation] = field(default_factory=dict)
    provider_campaigns: dict[tuple[str, str], Citation] = field(default_factory=dict)
    campaigns: dict[str, Citation] = field(default_factory=dict)
    trials: dict[str, Citation] = field(default_factory=dict)
    attempts: dict[tuple[str, int], Citation] = field(default_factory=dict)

    def of(self, series_key: str, provider: str, campaign_id: str, trial_id: str, attempt: int) -> Citation | None:
        """By what an attempt is pointed to; None if by nothing."""
        return (
            self.series_campaigns.get((series_key, campaign_id))
            or self.provider_campaigns.get((provider, campaign_id))
            or self.campaigns.get(campaign_id)
            or self.trials.get(trial_id)
            or self.attempts.get((trial_id, attempt))
        )


def citations(session: Session) -> Citations:
    """Everything that is pointed to: by baselines, old ones too, by findings and decisions whatever their state, by corrections, by what
    waits in quarantine for a second look. Each series' newest campaign counts as well: the next report and comparison start from it.
    """
    found = Citations()
    _newest(session, found)
    for series_key, campaign_id in session.execute(select(Baseline.series_key, Baseline.campaign_id)):
        found.series_campaigns[series_key, campaign_id] = "baseline"
    known = set(session.scalars(select(SeriesCampaign.series_key).distinct()))
    for finding in session.scalars(select(Finding)):
        _finding(finding, known, found)
    _decisions(session, found)
    either = select(Correction.trial_pk).union(select(Correction.corrects))
    for trial_id, attempt in session.execute(select(Trial.trial_id, Trial.attempt).where(Trial.id.in_(either))):
        found.attempts[trial_id, attempt] = "correction"
    for trial_id, attempt in session.execute(select(Quarantined.trial_id, Quarantined.attempt).where(Quarantined.state == "kept")):
        found.attempts[trial_id, attempt] = "quarantine"
    return found


def _newest(session: Session, found: Citations) -> None:
    rows = session.execute(select(SeriesCampaign.series_key, SeriesCampaign.campaign_id).order_by(SeriesCampaign.planned_at))
    for key, campaign_id in dict(rows.tuples().all()).items():  # the last one of a series wins
        found.series_campaigns[key, campaign_id] = "newest campaign"


def _finding(finding: Finding, known: set[str], found: Citations) -> None:
    """A finding is about its series in the campaigns that showed it, and in those that it was held against."""
    detail = finding.detail
    series = {finding.series_key, *detail.get("series", ())} & known
    for campaign_id in {finding.campaign_id, *detail.get("seen_in", ()), *detail.get("baseline_campaigns", ())} - {None}:
        for key in series:
            found.series_campaigns[key, campaign_id] = "finding"
        if not series:
            found.provider_campaigns[finding.provider, campaign_id] = "finding"


def _decisions(session: Session, found: Citations) -> None:
    # Whatever a decision was made from, it names it by campaign or by trial, somewhere in its detail.
    named: dict[str, None] = dict.fromkeys(text for detail in session.scalars(select(Decision.detail)) for text in _texts(detail))
    if not named:
        return
    for campaign_id in session.scalars(select(SeriesCampaign.campaign_id).distinct()):
        if campaign_id in named:
            found.campaigns[campaign_id] = "decision"
    for trial_id in session.scalars(select(Trial.trial_id).distinct()):
        if trial_id in named:
            found.trials[trial_id] = "decision"


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield str(key)
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
