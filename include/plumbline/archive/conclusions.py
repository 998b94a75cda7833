"""What the archive says of what was concluded from measurements: each method is one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Engine

from plumbline.archive import audit, baselines, findings, ledger, threads
from plumbline.archive.engine import reading, writing
from plumbline.archive.record import utc_now
from plumbline.archive.records import (
    AuditView,
    BaselineView,
    DecisionRecord,
    DecisionView,
    FindingKind,
    FindingRecord,
    FindingState,
    FindingView,
    IncidentRecord,
    IncidentView,
    PriceRecord,
    PriceView,
)
from plumbline.declarations import DriftRules


class Conclusions:
    """Baselines, findings and their threads, prices, rankings, and the log of who did what."""

    engine: Engine

    # what a series is held against

    def baseline(self, series_key: str) -> list[str]:
        """Campaigns of the accepted baseline; empty if there is none."""
        with reading(self.engine) as session:
            return baselines.current(session, series_key)

    def baseline_history(self, series_key: str) -> list[BaselineView]:
        """Every baseline that the series ever had, oldest first."""
        with reading(self.engine) as session:
            return baselines.history(session, series_key)

    def accept_baseline(self, series_key: str, campaign_id: str, by: str, why: str) -> BaselineView:
        """A person's decision: from now on the series is held against this campaign. Idempotent; goes to the audit log.

        LookupError if the series took no part in the campaign; ValueError without a name, a reason or a usable trial.
        """
        with writing(self.engine) as session:
            return baselines.accept(session, series_key, campaign_id, by, why, utc_now())

    def bootstrap_baseline(self, series_key: str, rules: DriftRules) -> str | None:
        """Give a series without any baseline its first one by the rule written in `plumbline.archive.baselines`.

        The campaign that became the baseline by this call; None if nothing changed. LookupError for an unknown series.
        """
        with writing(self.engine) as session:
            return baselines.bootstrap(session, series_key, rules, utc_now())

    def join_baseline(self, series_key: str, campaign_id: str, rules: DriftRules) -> bool:
        """Let a campaign whose review found no drift join the bootstrapped baseline, if the same rule says so; whether it did by this call.

        LookupError for an unknown series.
        """
        with writing(self.engine) as session:
            return baselines.join(session, series_key, campaign_id, rules, utc_now())

    # what was found and decided

    def save_findings(self, records: Sequence[FindingRecord]) -> tuple[str, ...]:
        """Store findings; the ids of those that are new. One that is known keeps its state and is only seen once more."""
        with writing(self.engine) as session:
            return findings.save(session, records, utc_now())

    def findings(self, state: FindingState | None = None, campaign_id: str | None = None, latest: int | None = None) -> list[FindingView]:
        """Findings, newest first; of one campaign, those that it opened and those that it showed again."""
        with reading(self.engine) as session:
            return findings.listed(session, state, campaign_id, latest)

    def finding(self, finding_id: str) -> FindingView:
        """One finding; LookupError if there is none of that id."""
        with reading(self.engine) as session:
            return findings.one(session, finding_id)

    def findings_of(self, provider: str, kind: FindingKind | None = None, unsettled: bool = False) -> list[FindingView]:
        """Findings of a provider, oldest first; `unsettled`: only those that are open or acknowledged."""
        with reading(self.engine) as session:
            return findings.of_provider(session, provider, kind, unsettled)

    def continue_finding(self, record: FindingRecord, seen_in: str, why: str) -> None:
        """A standing finding as a later campaign shows it, or a look at the provider on a later day (ISO 8601): its numbers move, its state
        does not. LookupError for an unknown id."""
        with writing(self.engine) as session:
            findings.go_on(session, record, seen_in, why, utc_now())

    def set_finding_state(self, finding_id: str, state: FindingState, by: str, why: str) -> FindingView:
        """Take a finding to its next state; goes to the audit log.

        LookupError for an unknown id; WrongState for a step that its state does not allow; ValueError without who and why.
        """
        with writing(self.engine) as session:
            return findings.move(session, finding_id, state, by, why, utc_now())

    def snooze_finding(self, finding_id: str, until: datetime, by: str, why: str) -> FindingView:
        """Leave a finding in peace until an instant (one that is past: no longer); goes to the audit log.

        LookupError for an unknown id; WrongState for one that is settled; ValueError without who and why.
        """
        with writing(self.engine) as session:
            return threads.snooze(session, finding_id, until, by, why, utc_now())

    def save_incident(self, incident: IncidentRecord) -> None:
        """Store where a finding is talked about and what was last said; LookupError if the finding is unknown."""
        with writing(self.engine) as session:
            threads.save(session, incident, utc_now())

    def incidents(self, finding_id: str | None = None) -> list[IncidentView]:
        """Threads about findings, oldest first."""
        with reading(self.engine) as session:
            return threads.listed(session, finding_id)

    def save_prices(self, records: Sequence[PriceRecord]) -> tuple[PriceRecord, ...]:
        """Store prices; those that were not known before."""
        with writing(self.engine) as session:
            return ledger.save_prices(session, records, utc_now())

    def prices(self, provider: str | Sequence[str] | None = None) -> list[PriceView]:
        """Prices by provider, purchase and the day from which they hold; of one provider, or of several."""
        with reading(self.engine) as session:
            return ledger.prices(session, provider)

    def save_decision(self, decision: DecisionRecord) -> bool:
        """Store a ranking for a team; False if the same one is there."""
        with writing(self.engine) as session:
            return ledger.save_decision(session, decision, utc_now())

    def decisions(self, team: str | None = None, kind: str | None = None) -> list[DecisionView]:
        """Rankings, newest first."""
        with reading(self.engine) as session:
            return ledger.decisions(session, team, kind)

    # who did what

    def audit(self, subject: str | None = None) -> list[AuditView]:
        """The audit log, oldest entry first; of one subject (a series key, a finding id, a trial id) if asked."""
        with reading(self.engine) as session:
            return audit.entries(session, subject)

    def add_audit(self, *, who: str, what: str, subject: str, why: str, detail: Mapping[str, Any] | None = None) -> None:
        """Log a decision that changes nothing in the archive, such as keeping a baseline."""
        with writing(self.engine) as session:
            audit.write(session, utc_now(), who=who, what=what, subject=subject, why=why, detail=detail)
