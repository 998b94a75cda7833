"""The archive: connects to SQLite or PostgreSQL and gives access to its repositories."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine
from sqlalchemy.exc import DataError

from plumbline.archive import audit, baselines, campaigns, findings, prices, quarantine, recording, retention, samples, trials, verification
from plumbline.archive.campaigns import CampaignChange
from plumbline.archive.engine import advisory_lock, make_engine, reading, writing
from plumbline.archive.migrate import prepare
from plumbline.archive.pages import Overview, Paging, Trends
from plumbline.archive.prices import Watched
from plumbline.archive.recording import PublishedImport, Recorded, Refused, record, utc_now
from plumbline.archive.records import (
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
from plumbline.archive.retention import DueEvidence, OldEvidence, TableSize, table_sizes
from plumbline.archive.samples import CurrentSeries, EffectiveAttempt
from plumbline.declarations import DriftRules, installation_paths
from plumbline.results import MetricRow, Reason, ResultDocument
from plumbline.results.published import PublishedResult

if TYPE_CHECKING:
    from plumbline.archive.bundle.importer import CheckQuality
    from plumbline.archive.bundle.manifest import ExportedCampaign, ImportedCampaign


class Measurements:
    """Recording, correcting and reading what was measured, here or by others, and what could not be believed."""

    engine: Engine

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
        Raises Refused for a document that repeats a metric, would mix measured and simulated numbers in one series, or holds a value that the
        database cannot store.
        """
        with _storable(document), writing(self.engine) as session:
            return record(
                session,
                document,
                action=action,
                quality_reasons=quality_reasons,
                uri=uri,
                extra_metrics=extra_metrics,
                now=utc_now(),
            )

    def issue_signing_key(self, campaign_id: str, trial_id: str, attempt: int, public_key: str) -> None:
        """Keep the public key (64 hexadecimal digits) of an attempt that is not announced yet."""
        with writing(self.engine) as session:
            recording.issue_signing_key(session, campaign_id, trial_id, attempt, public_key, utc_now())

    def signing_keys(self, campaign_id: str, trial_id: str) -> dict[int, str]:
        """The public keys that the launcher issued for a trial, by attempt; empty if it issued none."""
        with reading(self.engine) as session:
            return recording.signing_keys(session, campaign_id, trial_id)

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
        with _storable(document), writing(self.engine) as session:
            return recording.correct(
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

    def import_outside(self, results: Sequence[PublishedResult]) -> PublishedImport:
        """Write outside results as campaigns of imported series, all or none; those that are there stay as they are.

        Refused if one would join a series that we measured or simulated.
        """
        with writing(self.engine) as session:
            return recording.import_published(session, results, utc_now())

    def imported(self, trial_id: str) -> PublishedResult | None:
        """What was imported under this trial id; None if nothing was. BadResult if it no longer holds."""
        with reading(self.engine) as session:
            return recording.published_result(session, trial_id)

    # what could not be believed

    def quarantine(self, record: QuarantineRecord) -> bool:
        """List a document that cannot be believed; False if it is listed already."""
        with writing(self.engine) as session:
            return quarantine.add(session, record, utc_now())

    def quarantined(self, *, everything: bool = False, campaign_id: str | None = None) -> list[QuarantineView]:
        """What is in quarantine, oldest first; with `everything`, also what was released since."""
        with reading(self.engine) as session:
            return quarantine.find(session, everything, campaign_id)

    def quarantined_one(self, quarantine_id: str) -> QuarantineView:
        """One document of the quarantine; LookupError if there is none of that id."""
        with reading(self.engine) as session:
            return quarantine.get(session, quarantine_id)

    def release(self, quarantine_id: str, by: str, why: str) -> QuarantineView:
        """Say that a document of the quarantine is believed now; goes to the audit log. LookupError for an unknown id."""
        with writing(self.engine) as session:
            return quarantine.release(session, quarantine_id, by, why, utc_now())

    # what there is

    def series(self, provider: str | None = None, kind: str | None = None, campaign_id: str | None = None) -> list[SeriesView]:
        """Every series, by key; of one campaign, those that took part in it."""
        with reading(self.engine) as session:
            return trials.series(session, provider, kind, campaign_id)

    def campaigns(self, series_key: str | None = None, latest: int | None = None) -> list[CampaignView]:
        """Campaigns with how their trials ended, oldest first; of one series if asked. `latest`: only that many, the newest ones."""
        with reading(self.engine) as session:
            return trials.campaigns(session, series_key, latest)

    def newest_campaign(self) -> str | None:
        """The campaign that was planned last, imported ones aside; None if there is none."""
        with reading(self.engine) as session:
            return trials.newest_campaign(session)

    def latest_campaign(self, series_key: str) -> str | None:
        """The series' newest campaign; None if it has none."""
        with reading(self.engine) as session:
            return trials.latest_campaign(session, series_key)

    def trials(
        self, campaign_id: str | None = None, series_key: str | None = None, provider: str | None = None, kind: str | None = None
    ) -> list[TrialView]:
        """Attempts of trials, in the order in which they were planned."""
        with reading(self.engine) as session:
            return trials.trials(session, campaign_id, series_key, provider, kind)

    def held_since(self, provider: str, since: datetime) -> list[TrialView]:
        """Attempts on a provider that began at `since` or later; corrections, for which nothing ran, are left out."""
        with reading(self.engine) as session:
            return trials.started_since(session, provider, since)

    def document(self, trial_id: str, attempt: int | None = None) -> ResultDocument | None:
        """The whole result document; without `attempt`, of the last usable attempt, else of the last. None if there is none, such as of
        an imported result (see `imported`).

        BadResult if what is archived no longer holds (see verify).
        """
        with reading(self.engine) as session:
            return trials.document(session, trial_id, attempt)

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
            return trials.series_campaigns(session, series_key, latest)

    def metric_history(
        self, series_key: str, metric: str, statistic: str, phase: str = "steady", campaigns: Sequence[str] | None = None
    ) -> list[MetricPoint]:
        """One number over all campaigns of a series, or these, oldest first; usable trials only."""
        with reading(self.engine) as session:
            return trials.metric_history(session, series_key, metric, statistic, phase, campaigns)

    # what stands now

    def newest_usable(self, workloads: Collection[str] | None = None, providers: Collection[str] | None = None) -> list[CurrentSeries]:
        """Every series that is not imported and has a usable trial, with its newest campaign that does; of these workloads and providers if
        named."""
        with reading(self.engine) as session:
            return samples.current_series(session, workloads, providers)

    def measured_anything(self) -> bool:
        """Whether any series is of our own measurements, neither simulated nor imported."""
        with reading(self.engine) as session:
            return samples.has_measured_series(session)

    def attempts_of(self, parts: Sequence[CurrentSeries]) -> list[EffectiveAttempt]:
        """All attempts of these series in these campaigns that no correction replaced, by trial and attempt."""
        with reading(self.engine) as session:
            return samples.effective_attempts(session, parts)

    def contents(self, trial_pks: Sequence[int]) -> Mapping[int, str]:
        """Result documents as JSON, by the row numbers that `attempts_of` gives: many at once, and unread."""
        with reading(self.engine) as session:
            return dict(samples.document_texts(session, trial_pks))


@contextmanager
def _storable(document: ResultDocument) -> Iterator[None]:
    """Refused for what the model lets pass and the database does not, so that the trial's other attempts are recorded all the same."""
    try:
        yield
    except (DataError, OverflowError) as error:
        cause = getattr(error, "orig", None) or error
        raise Refused(
            f"{document.trial.trial_id}: the archive's database cannot store a value of it: {' '.join(str(cause).split())}"
        ) from error


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
            return findings.save_findings(session, records, utc_now())

    def findings(self, state: FindingState | None = None, campaign_id: str | None = None, latest: int | None = None) -> list[FindingView]:
        """Findings, newest first; of one campaign, those that it opened and those that it showed again."""
        with reading(self.engine) as session:
            return findings.find_findings(session, state, campaign_id, latest)

    def finding(self, finding_id: str) -> FindingView:
        """One finding; LookupError if there is none of that id."""
        with reading(self.engine) as session:
            return findings.get_finding(session, finding_id)

    def findings_of(self, provider: str, kind: FindingKind | None = None, unsettled: bool = False) -> list[FindingView]:
        """Findings of a provider, oldest first; `unsettled`: only those that are open or acknowledged."""
        with reading(self.engine) as session:
            return findings.provider_findings(session, provider, kind, unsettled)

    def continue_finding(self, record: FindingRecord, seen_in: str, why: str) -> None:
        """A standing finding as a later campaign shows it, or a look at the provider on a later day (ISO 8601): its numbers move, its state
        does not. LookupError for an unknown id."""
        with writing(self.engine) as session:
            findings.continue_finding(session, record, seen_in, why, utc_now())

    def set_finding_state(self, finding_id: str, state: FindingState, by: str, why: str) -> FindingView:
        """Take a finding to its next state; goes to the audit log.

        LookupError for an unknown id; WrongState for a step that its state does not allow; ValueError without who and why.
        """
        with writing(self.engine) as session:
            return findings.set_state(session, finding_id, state, by, why, utc_now())

    def snooze_finding(self, finding_id: str, until: datetime, by: str, why: str) -> FindingView:
        """Leave a finding in peace until an instant (one that is past: no longer); goes to the audit log.

        LookupError for an unknown id; WrongState for one that is settled; ValueError without who and why.
        """
        with writing(self.engine) as session:
            return findings.snooze_finding(session, finding_id, until, by, why, utc_now())

    def save_incident(self, incident: IncidentRecord) -> None:
        """Store where a finding is talked about and what was last said; LookupError if the finding is unknown."""
        with writing(self.engine) as session:
            findings.save_incident(session, incident, utc_now())

    def incidents(self, finding_id: str | None = None) -> list[IncidentView]:
        """Threads about findings, oldest first."""
        with reading(self.engine) as session:
            return findings.find_incidents(session, finding_id)

    def save_prices(self, records: Sequence[PriceRecord]) -> tuple[PriceRecord, ...]:
        """Store prices; those that were not known before."""
        with writing(self.engine) as session:
            return prices.save_prices(session, records, utc_now())

    def prices(self, provider: str | Sequence[str] | None = None) -> list[PriceView]:
        """Prices by provider, purchase and the day from which they hold; of one provider, or of several."""
        with reading(self.engine) as session:
            return prices.prices(session, provider)

    def save_decision(self, decision: DecisionRecord) -> bool:
        """Store a ranking for a team; False if the same one is there."""
        with writing(self.engine) as session:
            return prices.save_decision(session, decision, utc_now())

    def decisions(self, team: str | None = None, kind: str | None = None) -> list[DecisionView]:
        """Rankings, newest first."""
        with reading(self.engine) as session:
            return prices.decisions(session, team, kind)

    # who did what

    def audit(self, subject: str | None = None) -> list[AuditView]:
        """The audit log, oldest entry first; of one subject (a series key, a finding id, a trial id) if asked."""
        with reading(self.engine) as session:
            return audit.entries(session, subject)

    def add_audit(self, *, who: str, what: str, subject: str, why: str, detail: Mapping[str, Any] | None = None) -> None:
        """Log a decision that changes nothing in the archive, such as keeping a baseline."""
        with writing(self.engine) as session:
            audit.write_entry(session, utc_now(), who=who, what=what, subject=subject, why=why, detail=detail)


class Keeping:
    """Retention of raw evidence, whose files the caller deletes: first expire, then delete, then say so; and which campaigns changed."""

    engine: Engine

    def aged_evidence(self, keep_s: float, store_url: str) -> DueEvidence:
        """What of the store at `store_url` was measured more than `keep_s` seconds ago: what is due, what stays and why."""
        with reading(self.engine) as session:
            return retention.due_evidence(session, keep_s, store_url, utc_now())

    def expire_evidence(self, keep_s: float, rule: str, store_url: str) -> DueEvidence:
        """Say of what is due that it is kept no longer, by `rule` in words; from then on `verify` does not miss it. Goes to the audit log."""
        with writing(self.engine) as session:
            return retention.expire_evidence(session, keep_s, rule, store_url, utc_now())

    def expired_evidence(self, store_url: str) -> list[tuple[OldEvidence, datetime, str]]:
        """What expired and is not deleted yet, of the store at `store_url`: since when, and by which rule."""
        with reading(self.engine) as session:
            return retention.evidence_to_delete(session, store_url)

    def expired_files(self, trial_id: str, attempt: int) -> dict[str, tuple[datetime, str]]:
        """What of one attempt's evidence is kept no longer: file → since when, and by which rule."""
        with reading(self.engine) as session:
            return retention.expired_files(session, trial_id, attempt)

    def evidence_removed(self, attempts: Sequence[OldEvidence]) -> None:
        """Say that the files of these attempts are deleted."""
        with writing(self.engine) as session:
            retention.mark_deleted(session, attempts, utc_now())

    def thin_snapshots(self, keep_s: float) -> int:
        """Delete snapshots older than `keep_s` seconds that say what their neighbours say; how many."""
        with writing(self.engine) as session:
            return retention.thin_snapshots(session, utc_now() - timedelta(seconds=keep_s))

    def forget_quarantined(self, keep_s: float, below: str, rule: str) -> list[str]:
        """Forget documents quarantined more than `keep_s` seconds ago whose copy lies below a URL; the URLs, whose objects the caller deletes."""
        with writing(self.engine) as session:
            now = utc_now()
            return retention.delete_quarantined(session, now - timedelta(seconds=keep_s), below, rule, now)

    def table_sizes(self) -> list[TableSize]:
        """Rows and bytes of every table, the largest first."""
        with reading(self.engine) as session:
            return table_sizes(session)

    def moved(self) -> list[CampaignChange]:
        """Every campaign that has a trial: when it was last recorded into, and when anything that a bundle of it says last changed."""
        with reading(self.engine) as session:
            return campaigns.campaign_changes(session)


def open_archive(url: str | None = None, *, migrate: bool | None = None) -> Archive:
    """The archive at `url` (default: the installation's), created if the database is empty.

    `migrate`: whether one of an older schema is migrated; if left out, only the installation's own file is, which no other program shares.
    ValueError for an address that cannot be an archive; OldSchema or UnknownSchema for one of another schema.
    """
    address = url or installation_paths().archive_url
    engine = make_engine(address)
    try:
        prepare(engine, installation_paths().own_archive_url == address if migrate is None else migrate)
    except BaseException:
        engine.dispose()
        raise
    return Archive(engine)


class Archive(Measurements, Conclusions, Watched, Paging, Overview, Trends, Keeping):
    """Everything that was ever measured and concluded. Safe to use from several processes at once; close it, or use `with`."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def alone(self, what: str, patience_s: float) -> AbstractContextManager[bool]:
        """Hold a lock by name against every process that shares the archive; yields whether it was had in time. See `plumbline.archive.engine`."""
        return advisory_lock(self.engine, what, patience_s)

    def close(self) -> None:
        """Give the connections back."""
        self.engine.dispose()

    def export(self, folder: Path, campaigns: Sequence[str] | None = None) -> list[ExportedCampaign]:
        """Write campaigns (all if None) as a bundle: see `plumbline.archive.bundle`. The folder must be new or empty.

        LookupError for an unknown campaign, BadBundle for a folder that is in use.
        """
        from plumbline.archive.bundle.exporter import export_bundle  # pyarrow takes as long to import as a small command runs

        with reading(self.engine) as session:
            return export_bundle(session, folder, campaigns, utc_now())

    def import_(
        self, folder: Path, campaigns: Sequence[str] | None = None, *, by: str = "import", judge: CheckQuality | None = None
    ) -> list[ImportedCampaign]:
        """Take in a bundle's campaigns (all if None), each whole or not at all. What is there stays: again, nothing changes.

        Every row of a measurement is made from its document, never taken from the bundle; what `judge` rejects is rejected whatever the bundle
        says. The audit log names `by` whom, the folder and the manifest's SHA-256. A campaign that says something else than its documents, or
        than the archive, is refused with its reason. BadBundle if the bundle's files are not those of its manifest or exceed a bound, or if a
        newer version wrote it.
        """
        from plumbline.archive.bundle.importer import import_bundle

        chosen = None if campaigns is None else list(campaigns)
        return import_bundle(
            lambda: writing(self.engine), folder, chosen, by=by, at=utc_now(), judge=judge, home=installation_paths().results_url
        )

    def verify(self, *, evidence: bool = False, share: tuple[int, int] = (0, 1)) -> list[str]:
        """What is broken in the archive, one sentence each; empty if it is sound. With `evidence`, raw files are read too: all of them,
        or those of a `share` (k, n) of the trials, such as (3, 30). Evidence that expired is not missed.
        """
        with reading(self.engine) as session:
            return [*verification.row_problems(session), *(verification.file_problems(session, share) if evidence else ())]
