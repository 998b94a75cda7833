"""Baselines, with which series are compared. A written rule sets the first baseline, a decision every later one; every move is in the audit log.

The rule: a series' first complete campaign, by the time it was planned, becomes its baseline, so that the second one can alarm already.
The next complete ones join it, each after a review of all its slots that found nothing, until `bootstrap_campaigns` have been looked at: one
campaign may have had a lucky node, several are the provider. None joins later in place of one that drifted, and none after anybody's decision.
Complete are at least `bootstrap_trials` usable trials, none that failed and none missing; a campaign of replays never counts. A series
that ever had a baseline is not bootstrapped again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice

from sqlalchemy import select
from sqlalchemy.orm import Session

from plumbline.archive import audit
from plumbline.archive.records import BaselineView, Outcomes
from plumbline.archive.repository import view_of
from plumbline.archive.schema import Baseline, Campaign, Series, SeriesCampaign, Trial
from plumbline.archive.trials import outcomes_by
from plumbline.declarations import DriftRules

BOOTSTRAP = "bootstrap rule"


def current(session: Session, series_key: str) -> list[str]:
    """Campaigns of the accepted baseline, oldest decision first; empty if there is none."""
    return [b.campaign_id for b in _current(session, series_key)]


def history(session: Session, series_key: str) -> list[BaselineView]:
    """All baselines of the series, oldest first."""
    query = select(Baseline).where(Baseline.series_key == series_key).order_by(Baseline.accepted_at, Baseline.id)
    return [view_of(BaselineView, row) for row in session.scalars(query)]


def of_campaigns(session: Session, series_key: str, campaigns: Sequence[str]) -> dict[str, list[BaselineView]]:
    """The series' baseline in each of these campaigns, oldest decision first: the accepted earlier campaigns, no
    later than the campaign's last review. A decision after it changes nothing."""
    views = history(session, series_key)
    names = {*campaigns, *(v.campaign_id for v in views)}
    columns = select(SeriesCampaign.campaign_id, SeriesCampaign.planned_at)
    planned = dict(
        session.execute(columns.where(SeriesCampaign.series_key == series_key, SeriesCampaign.campaign_id.in_(names))).tuples().all()
    )
    reviewed = audit.review_times(session, series_key, campaigns)
    found = {}
    for name in (c for c in campaigns if c in planned):
        earlier = [v for v in views if v.campaign_id != name and planned[v.campaign_id] <= planned[name]]
        known = [v for v in earlier if name not in reviewed or v.accepted_at <= reviewed[name]]
        moved_at = {v.accepted_at for v in known if v.rule == "decision"}
        found[name] = [v for v in known if v.superseded_at not in moved_at]
    return found


def accept_baseline(session: Session, now: datetime, series_key: str, campaign_id: str, by: str, why: str) -> BaselineView:
    """Make the campaign the series' baseline by a person's decision; goes to the audit log. Accepting the current one again changes nothing.

    LookupError if the series took no part in the campaign; ValueError without a name, a reason or a usable trial.
    """
    audit.require_author(by, why, "accepts the baseline")
    _lock(session, series_key)
    if session.get(SeriesCampaign, (series_key, campaign_id)) is None:
        raise LookupError(f'the series "{series_key}" has no trial in the campaign "{campaign_id}"')
    if _counts(session, series_key, campaign_id).usable == 0:
        raise ValueError(
            f'the campaign "{campaign_id}" has no usable trial of "{series_key}"; expected at least one to compare others with'
        )
    before = _current(session, series_key)
    if [b.campaign_id for b in before] == [campaign_id]:
        return view_of(BaselineView, before[0])
    for baseline in before:
        baseline.superseded_at = now
    session.flush()
    return _add(session, series_key, campaign_id, "decision", by, why, now, [b.campaign_id for b in before])


def restore(session: Session, now: datetime, series_key: str, campaign_id: str, by: str, why: str) -> tuple[str, ...]:
    """Take back the decision that made the campaign the baseline; the campaigns that are the baseline again. None, and nothing changes, if
    the campaign is not the baseline any more or replaced none. Goes to the audit log."""
    audit.require_author(by, why, "takes the baseline back")
    _lock(session, series_key)
    current = _current(session, series_key)
    if [(b.campaign_id, b.rule) for b in current] != [(campaign_id, "decision")]:
        return ()
    query = select(Baseline).where(Baseline.series_key == series_key, Baseline.superseded_at == current[0].accepted_at)
    before = [b.campaign_id for b in session.scalars(query.order_by(Baseline.accepted_at, Baseline.id))]
    if before:
        current[0].superseded_at = now
        session.flush()
        for name in before:
            _add(session, series_key, name, "decision", by, why, now, [campaign_id])
    return tuple(before)


def bootstrap(session: Session, now: datetime, series_key: str, rules: DriftRules) -> str | None:
    """Apply the rule's first half; the campaign that became the baseline by this call, or None. LookupError for an unknown series."""
    _lock(session, series_key)
    if session.scalars(select(Baseline.id).where(Baseline.series_key == series_key).limit(1)).first() is not None:
        return None
    for campaign_id, usable in _complete(session, series_key, rules):
        why = f"first campaign with {usable} usable trials (at least {rules.bootstrap_trials}) and no failed or missing one"
        _add(session, series_key, campaign_id, "bootstrap", BOOTSTRAP, why, now, [])
        return campaign_id
    return None


def join(session: Session, now: datetime, series_key: str, campaign_id: str, rules: DriftRules) -> bool:
    """Apply the rule's second half to a campaign that was reviewed and showed no drift; whether it joined the baseline by this call.

    LookupError for an unknown series.
    """
    _lock(session, series_key)
    baselines = history(session, series_key)
    campaigns = [b.campaign_id for b in baselines]
    if (
        not baselines
        or len(baselines) >= rules.bootstrap_campaigns
        or campaign_id in campaigns
        or any(b.rule != "bootstrap" for b in baselines)
    ):
        return False
    if not _slots(session, series_key, campaign_id) >= _slots(session, series_key, campaigns[0]):
        return False  # reviewed after each slot: the next one may show what this one did not
    for number, (candidate, usable) in enumerate(islice(_complete(session, series_key, rules), rules.bootstrap_campaigns), start=1):
        if candidate == campaign_id:
            why = (
                f"complete campaign {number} of the first {rules.bootstrap_campaigns}, {usable} usable trials, whose review found no drift"
            )
            _add(session, series_key, campaign_id, "bootstrap", BOOTSTRAP, why, now, campaigns)
            return True
    return False


def _complete(session: Session, series_key: str, rules: DriftRules) -> Iterator[tuple[str, int]]:
    """The series' complete campaigns with their usable trials, oldest first; no acceptance."""
    query = select(SeriesCampaign.campaign_id).where(SeriesCampaign.series_key == series_key)
    # An acceptance measures single nodes, those that go back too.
    query = query.join(Campaign, Campaign.campaign_id == SeriesCampaign.campaign_id).where(Campaign.purpose != "acceptance")
    for campaign_id in session.scalars(query.order_by(SeriesCampaign.planned_at, SeriesCampaign.campaign_id)).all():
        counts = _counts(session, series_key, campaign_id)
        complete = counts.usable >= rules.bootstrap_trials and counts.failed == counts.missing == 0
        if complete and not _replayed(session, series_key, campaign_id):
            yield campaign_id, counts.usable


def _slots(session: Session, series_key: str, campaign_id: str) -> set[str]:
    query = select(Trial.slot).where(Trial.series_key == series_key, Trial.campaign_id == campaign_id).distinct()
    return set(session.scalars(query))


def _lock(session: Session, series_key: str) -> None:
    """Let one process at a time move a series' baseline (SQLite has one writer anyway); LookupError for an unknown series."""
    if session.scalars(select(Series.series_key).where(Series.series_key == series_key).with_for_update()).first() is None:
        raise LookupError(f'the archive has no series "{series_key}"')


def _current(session: Session, series_key: str) -> list[Baseline]:
    query = select(Baseline).where(Baseline.series_key == series_key, Baseline.superseded_at.is_(None))
    return list(session.scalars(query.order_by(Baseline.accepted_at, Baseline.id)))


def _counts(session: Session, series_key: str, campaign_id: str) -> Outcomes:
    counts = outcomes_by(session, Trial.campaign_id, Trial.series_key == series_key, Trial.campaign_id == campaign_id)
    return counts.get(campaign_id, Outcomes())


def _replayed(session: Session, series_key: str, campaign_id: str) -> bool:
    query = select(Trial.id).where(Trial.series_key == series_key, Trial.campaign_id == campaign_id, Trial.replay_of.is_not(None))
    return session.scalars(query.limit(1)).first() is not None


def _add(
    session: Session, series_key: str, campaign_id: str, rule: str, by: str, why: str, now: datetime, before: list[str]
) -> BaselineView:
    row = Baseline(series_key=series_key, campaign_id=campaign_id, rule=rule, accepted_at=now, accepted_by=by, why=why, superseded_at=None)
    session.add(row)
    detail = {"campaign_id": campaign_id, "rule": rule, "before": before}
    audit.write_entry(session, now, who=by, what="baseline_accepted", subject=series_key, why=why, detail=detail)
    session.flush()
    return view_of(BaselineView, row)
