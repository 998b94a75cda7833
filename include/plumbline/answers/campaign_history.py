"""What the cover of a campaign's report compares with: open findings with their costs and claims, earlier choices, a year of speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone

from plumbline.analysis.campaign_data import CampaignHistory, ChoiceKey, FindingRow
from plumbline.analysis.decisions.decision_record import read_decisions
from plumbline.answers.claims import Claimable, claimable
from plumbline.answers.costed_findings import CostedFinding, costed_findings
from plumbline.answers.fleet_year import MONTHS, speed_index
from plumbline.answers.ledger import Ledger, read_ledger
from plumbline.archive import Archive, FindingView
from plumbline.declarations import Declarations
from plumbline.findings.headline import headline, one_per_headline
from plumbline.findings.types import stored_type
from plumbline.results.finding import OPEN_STATES
from plumbline.results.stored import read_finding

_INSTANT = timedelta(microseconds=1)
_LATER = 1000
"""Campaigns after a campaign, of which the next one is taken."""


def campaign_history(archive: Archive, declared: Declarations, campaign_id: str) -> tuple[CampaignHistory, tuple[FindingRow, ...]]:
    """The history of a campaign; and the findings that no campaign shows, such as prices, which began between the one before and the next."""
    head = archive.campaign_head(campaign_id)
    if head is None:
        raise LookupError(f'the archive has no campaign "{campaign_id}"')
    compared = archive.compared_campaigns(MONTHS, between=(None, head.planned_at + _INSTANT))
    earlier = [c for c in compared if c.campaign_id != campaign_id]
    later = archive.campaigns_page(between=(head.planned_at, None), limit=_LATER, purpose=head.purpose).rows[::-1]
    later = tuple(c for c in later if c.planned_at > head.planned_at)
    waiting, ledger = _rows(archive, declared, archive.findings(OPEN_STATES))
    begin, end = (earlier[-1].planned_at if earlier else None), (later[0].planned_at if later else datetime.now(timezone.utc))
    between = [
        row
        for row, entry in waiting
        # The day on which it began; none if a campaign shows it.
        if (since := entry.finding.since)
        and (begin is None or since > f"{begin:%Y-%m-%d}")
        and since <= f"{max(end, head.planned_at):%Y-%m-%d}"
    ]
    history = CampaignHistory(
        open_findings=tuple(row for row, _ in waiting),
        monthly=ledger.total(),
        choices=_choices(archive, campaign_id),
        index=speed_index(archive, [c.campaign_id for c in compared]),
        volumes=declared.alerts.volumes,
    )
    return history, tuple(between)


def finding_row(view: FindingView, entry: CostedFinding | None = None, ledger: Ledger | None = None) -> FindingRow:
    """The finding as a report shows it; with the amount of its row in the ledger, and the entry's teams."""
    row = FindingRow(
        view.finding_id, view.series_key, view.kind, view.severity, view.headline, view.state,
        str(view.detail.get("explanation", "")), view.campaign_id, view.provider, effect=view.effect,
        type=stored_type(view.kind, str(view.detail.get("subject", ""))).id,
    )  # fmt: skip
    if (finding := read_finding(view)) is not None:
        usd, credit, claim = (entry.cost.usd, entry.cost.credit, entry.cost.claim) if entry is not None else (None, None, "")
        usd = usd if ledger is None else ledger.headline_usd(view.finding_id, usd)
        direction = finding.direction_of(finding.series_key) or ""
        row = replace(row, headline=headline(finding, usd, credit, claim), evidence=finding.evidence, direction=direction)
    if entry is not None:
        row = replace(row, usd_per_month=ledger.change_of(view.finding_id) if ledger is not None else None, teams=entry.teams)
    return row


def _rows(archive: Archive, declared: Declarations, views: Sequence[FindingView]) -> tuple[list[tuple[FindingRow, CostedFinding]], Ledger]:
    """The findings with their digest entries, and the ledger of both; first choices that one cause moved are one, with its amount."""
    entries, claims = costed_findings(archive, declared, views), claimable(archive, declared, views)
    ledger = read_ledger(archive, declared, entries.values())
    rows = [
        (_with_promises(finding_row(view, entries[view.finding_id], ledger), claims.get(view.finding_id)), entries[view.finding_id])
        for view in views
        if view.finding_id in entries
    ]
    stories = one_per_headline((row.headline, (row, entry)) for row, entry in rows).values()
    return [next((one for one in same if one[0].usd_per_month is not None), same[0]) for same in stories], ledger


def _with_promises(row: FindingRow, claim: Claimable | None) -> FindingRow:
    """The finding with the promises that it bears on and that are broken, and the credit of each."""
    broken = (
        [f"broken promise: {each.row.sentence}{f'; credit: {each.row.credit}' if each.row.credit else ''}" for each in claim.broken]
        if claim
        else []
    )
    return replace(row, explanation="; ".join(filter(None, (row.explanation, *broken))))


def _choices(archive: Archive, campaign_id: str) -> Mapping[ChoiceKey, str]:
    """Choice → the first provider of the newest stored decision that rests on neither this campaign nor a later one; where all do, the one
    before the newest: the same trials at an earlier day's prices."""
    decisions = read_decisions(archive.newest_decisions(without=campaign_id))
    earlier = {d.choice: d.before.first for d in read_decisions(archive.newest_decisions()) if d.before is not None}
    choices = {**earlier, **{d.choice: d.first_name for d in decisions}}
    return {choice: first for choice, first in choices.items() if first is not None}
