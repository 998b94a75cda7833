"""What the archive says of measurements: each method is one transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime

from sqlalchemy import Engine
from sqlalchemy.exc import DataError

from plumbline.archive import corrections, outside, quarantine, queries, samples, signing_keys, standing
from plumbline.archive.engine import reading, writing
from plumbline.archive.outside import OutsideImport
from plumbline.archive.record import Recorded, Refused, record, utc_now
from plumbline.archive.records import QuarantineRecord, QuarantineView
from plumbline.archive.standing import AttemptView, NewestView
from plumbline.archive.views import Action, CampaignView, MetricPoint, ObservationView, SampleView, SeriesView, TrialView
from plumbline.results import MetricRow, Reason, ResultDocument
from plumbline.results.outside import OutsideResult


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
            signing_keys.issue(session, campaign_id, trial_id, attempt, public_key, utc_now())

    def signing_keys(self, campaign_id: str, trial_id: str) -> dict[int, str]:
        """The public keys that the launcher issued for a trial, by attempt; empty if it issued none."""
        with reading(self.engine) as session:
            return signing_keys.of_trial(session, campaign_id, trial_id)

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

    # what there is

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

    def held_since(self, provider: str, since: datetime) -> list[TrialView]:
        """Attempts on a provider that began at `since` or later; corrections, for which nothing ran, are left out."""
        with reading(self.engine) as session:
            return queries.held_since(session, provider, since)

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

    def metric_history(
        self, series_key: str, metric: str, statistic: str, phase: str = "steady", campaigns: Sequence[str] | None = None
    ) -> list[MetricPoint]:
        """One number over all campaigns of a series, or these, oldest first; usable trials only."""
        with reading(self.engine) as session:
            return queries.metric_history(session, series_key, metric, statistic, phase, campaigns)

    # what stands now

    def newest_usable(self, workloads: Collection[str] | None = None, providers: Collection[str] | None = None) -> list[NewestView]:
        """Every series that is not imported and has a usable trial, with its newest campaign that does; of these workloads and providers if
        named."""
        with reading(self.engine) as session:
            return standing.newest_usable(session, workloads, providers)

    def measured_anything(self) -> bool:
        """Whether any series is of our own measurements, neither simulated nor imported."""
        with reading(self.engine) as session:
            return standing.measured_anything(session)

    def attempts_of(self, parts: Sequence[NewestView]) -> list[AttemptView]:
        """All attempts of these series in these campaigns that no correction replaced, by trial and attempt."""
        with reading(self.engine) as session:
            return standing.attempts(session, parts)

    def contents(self, trial_pks: Sequence[int]) -> Mapping[int, str]:
        """Result documents as JSON, by the row numbers that `attempts_of` gives: many at once, and unread."""
        with reading(self.engine) as session:
            return dict(standing.contents(session, trial_pks))


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
