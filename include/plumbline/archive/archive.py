"""The archive: one object whose methods are each one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from sqlalchemy import Engine

from plumbline.archive import audit, baselines, corrections, files, findings, ledger, outside, quarantine, queries, samples, verify
from plumbline.archive.bundle.export import export
from plumbline.archive.bundle.manifest import Exported, Imported
from plumbline.archive.bundle.take_in import take_in
from plumbline.archive.engine import make_engine, reading, writing
from plumbline.archive.migrate import upgrade
from plumbline.archive.outside import OutsideImport
from plumbline.archive.record import Recorded, record, utc_now
from plumbline.archive.views import (
    Action,
    AuditView,
    BaselineView,
    CampaignView,
    DecisionRecord,
    DecisionView,
    FindingKind,
    FindingRecord,
    FindingState,
    FindingView,
    IncidentRecord,
    IncidentView,
    MetricPoint,
    ObservationView,
    PriceRecord,
    PriceView,
    QuarantineRecord,
    QuarantineView,
    SampleView,
    SeriesView,
    TrialView,
)
from plumbline.declarations import DriftRules, places
from plumbline.results import MetricRow, Reason, ResultDocument
from plumbline.results.outside import OutsideResult


def open_archive(url: str | None = None) -> Archive:
    """The archive at `url` (default: the installation's), created or migrated to this version's schema if need be.

    ValueError for an address that cannot be an archive; UnknownSchema if a newer version wrote it.
    """
    engine = make_engine(url or places().archive_url)
    try:
        upgrade(engine)
    except BaseException:
        engine.dispose()
        raise
    return Archive(engine)


class Archive:
    """Everything that was ever measured and concluded. Safe to use from several processes at once; close it, or use `with`."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back."""
        self.engine.dispose()

    # what was measured

    def record(
        self,
        document: ResultDocument,
        *,
        action: Action = "accept",
        quality_reasons: Sequence[Reason] = (),
        uri: str,
        extra_metrics: Sequence[MetricRow] = (),
    ) -> Recorded:
        """Write one attempt: whole or, if the process dies, not at all.

        `action` and `quality_reasons` are the verdict of the quality checks, `uri` the attempt's folder in the result store,
        `extra_metrics` what only the outside measured.
        "inserted": it is new. "unchanged": the same document was there (a retry). "kept": another document of the same attempt
        (series, campaign, slot, repeat, attempt) was there and stays; the newcomer's URI and checksum went to the audit log.
        Raises Refused for a document that repeats a metric or would mix measured and simulated numbers in one series.
        """
        with writing(self.engine) as session:
            return record(
                session,
                document,
                action=action,
                quality_reasons=quality_reasons,
                uri=uri,
                extra_metrics=extra_metrics,
                now=utc_now(),
            )

    def correct(
        self,
        document: ResultDocument,
        corrects: int,
        *,
        by: str,
        why: str,
        action: Action = "accept",
        quality_reasons: Sequence[Reason] = (),
        uri: str,
        extra_metrics: Sequence[MetricRow] = (),
    ) -> Recorded:
        """Record `document`, a new attempt, in the place of the same trial's attempt `corrects`: both stay, only the new one counts.

        LookupError without such an attempt; ValueError without who and why; Refused as by `record`, or if it was corrected already.
        """
        with writing(self.engine) as session:
            return corrections.correct(
                session,
                document,
                corrects,
                action=action,
                quality_reasons=quality_reasons,
                uri=uri,
                extra_metrics=extra_metrics,
                by=by,
                why=why,
                now=utc_now(),
            )

    # what others measured

    def import_outside(self, results: Sequence[OutsideResult]) -> OutsideImport:
        """Write outside results as campaigns of imported series, all or none; those that are there stay as they are.

        Refused if one would join a series that we measured or simulated.
        """
        with writing(self.engine) as session:
            return outside.save(session, results, utc_now())

    def imported(self, trial_id: str) -> OutsideResult | None:
        """What was imported under this trial id; None if nothing was. BadResult if it no longer holds."""
        with reading(self.engine) as session:
            return outside.one(session, trial_id)

    # what could not be believed

    def quarantine(self, record: QuarantineRecord) -> bool:
        """List a document that cannot be believed; False if it is listed already."""
        with writing(self.engine) as session:
            return quarantine.keep(session, record, utc_now())

    def quarantined(self, *, everything: bool = False, campaign_id: str | None = None) -> list[QuarantineView]:
        """What is in quarantine, oldest first; with `everything`, also what was released since."""
        with reading(self.engine) as session:
            return quarantine.listed(session, everything, campaign_id)

    def quarantined_one(self, quarantine_id: str) -> QuarantineView:
        """One document of the quarantine; LookupError if there is none of that id."""
        with reading(self.engine) as session:
            return quarantine.one(session, quarantine_id)

    def release(self, quarantine_id: str, by: str, why: str) -> QuarantineView:
        """Say that a document of the quarantine is believed now; goes to the audit log. LookupError for an unknown id."""
        with writing(self.engine) as session:
            return quarantine.release(session, quarantine_id, by, why, utc_now())

    def series(self, provider: str | None = None, kind: str | None = None, campaign_id: str | None = None) -> list[SeriesView]:
        """Every series, by key; of one campaign, those that took part in it."""
        with reading(self.engine) as session:
            return queries.series(session, provider, kind, campaign_id)

    def campaigns(self, series_key: str | None = None, latest: int | None = None) -> list[CampaignView]:
        """Campaigns with how their trials ended, oldest first; of one series if asked. `latest`: only that many, the newest ones."""
        with reading(self.engine) as session:
            return queries.campaigns(session, series_key, latest)

    def newest_campaign(self) -> str | None:
        """The campaign that was planned last, imported ones aside; None if there is none."""
        with reading(self.engine) as session:
            return queries.newest_campaign(session)

    def latest_campaign(self, series_key: str) -> str | None:
        """The series' newest campaign; None if it has none."""
        with reading(self.engine) as session:
            return queries.latest_campaign(session, series_key)

    def trials(
        self, campaign_id: str | None = None, series_key: str | None = None, provider: str | None = None, kind: str | None = None
    ) -> list[TrialView]:
        """Attempts of trials, in the order in which they were planned."""
        with reading(self.engine) as session:
            return queries.trials(session, campaign_id, series_key, provider, kind)

    def document(self, trial_id: str, attempt: int | None = None) -> ResultDocument | None:
        """The whole result document; without `attempt`, of the last usable attempt, else of the last. None if there is none, such as of
        an imported result (see `imported`).

        BadResult if what is archived no longer holds (see verify).
        """
        with reading(self.engine) as session:
            return queries.document(session, trial_id, attempt)

    def sample(self, series_key: str, campaign_id: str) -> SampleView:
        """One series in one campaign, ready to be compared; LookupError if there is nothing of it."""
        with reading(self.engine) as session:
            return samples.sample(session, series_key, campaign_id)

    def levels(self, series_key: str, campaigns: Sequence[str], metrics: Sequence[str]) -> dict[str, tuple[ObservationView, ...]]:
        """Campaign → what usable trials of the series measured of these metrics, of several campaigns at once."""
        with reading(self.engine) as session:
            return samples.levels(session, series_key, campaigns, metrics)

    def series_campaigns(self, series_key: str, latest: int) -> list[tuple[str, datetime]]:
        """The newest campaigns of a series with the time that they were planned for, oldest first."""
        with reading(self.engine) as session:
            return queries.series_campaigns(session, series_key, latest)

    def metric_history(self, series_key: str, metric: str, statistic: str, phase: str = "steady") -> list[MetricPoint]:
        """One number over all campaigns of a series, oldest first, usable trials only."""
        with reading(self.engine) as session:
            return queries.metric_history(session, series_key, metric, statistic, phase)

    # what it is held against

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

    def continue_finding(self, record: FindingRecord, campaign_id: str, why: str) -> None:
        """A standing finding as a later campaign shows it: its numbers move, its state does not. LookupError for an unknown id."""
        with writing(self.engine) as session:
            findings.go_on(session, record, campaign_id, why, utc_now())

    def set_finding_state(self, finding_id: str, state: FindingState, by: str, why: str) -> FindingView:
        """Take a finding to its next state; goes to the audit log.

        LookupError for an unknown id; WrongState for a step that its state does not allow; ValueError without who and why.
        """
        with writing(self.engine) as session:
            return findings.move(session, finding_id, state, by, why, utc_now())

    def save_incident(self, incident: IncidentRecord) -> None:
        """Store where a finding is talked about and what was last said; LookupError if the finding is unknown."""
        with writing(self.engine) as session:
            findings.save_incident(session, incident, utc_now())

    def incidents(self, finding_id: str | None = None) -> list[IncidentView]:
        """Threads about findings, oldest first."""
        with reading(self.engine) as session:
            return findings.incidents(session, finding_id)

    def save_prices(self, records: Sequence[PriceRecord]) -> tuple[PriceRecord, ...]:
        """Store prices; those that were not known before."""
        with writing(self.engine) as session:
            return ledger.save_prices(session, records, utc_now())

    def prices(self, provider: str | None = None) -> list[PriceView]:
        """Prices by provider, purchase and the day from which they hold."""
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

    # elsewhere

    def export(self, folder: Path, campaigns: Sequence[str] | None = None) -> list[Exported]:
        """Write campaigns (all if None) as a bundle: see `plumbline.archive.bundle`. The folder must be new or empty.

        LookupError for an unknown campaign, BadBundle for a folder that is in use.
        """
        with reading(self.engine) as session:
            return export(session, folder, campaigns, utc_now())

    def import_(self, folder: Path, campaigns: Sequence[str] | None = None) -> list[Imported]:
        """Take in a bundle's campaigns (all if None), each whole or not at all. What is there stays: again, nothing changes.

        A campaign that says something else of what the archive holds is refused with its reason. BadBundle if the bundle's files are not
        those of its manifest, or if a newer version wrote it.
        """
        return take_in(lambda: writing(self.engine), folder, None if campaigns is None else list(campaigns))

    # who did what

    def audit(self, subject: str | None = None) -> list[AuditView]:
        """The audit log, oldest entry first; of one subject (a series key, a finding id, a trial id) if asked."""
        with reading(self.engine) as session:
            return audit.entries(session, subject)

    def add_audit(self, *, who: str, what: str, subject: str, why: str, detail: Mapping[str, Any] | None = None) -> None:
        """Log a decision that changes nothing in the archive, such as keeping a baseline."""
        with writing(self.engine) as session:
            audit.write(session, utc_now(), who=who, what=what, subject=subject, why=why, detail=detail)

    def verify(self, *, evidence: bool = False) -> list[str]:
        """What is broken in the archive, one sentence each; empty if it is sound. With `evidence`, every raw file is read too."""
        with reading(self.engine) as session:
            return [*verify.problems(session), *(files.damaged(session) if evidence else ())]
