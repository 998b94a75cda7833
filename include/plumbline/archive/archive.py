"""The archive: connects to SQLite or PostgreSQL and gives access to its repositories."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from sqlalchemy import Engine

from plumbline.archive import audit as audit_log
from plumbline.archive import availability_checks as check_rows
from plumbline.archive import (
    baselines,
    happened,
    kept_declarations,
    pages,
    published,
    recording,
    retention,
    stored_secrets,
    trends,
    verification,
    written_files,
)
from plumbline.archive import findings as finding_rows
from plumbline.archive import identifiers as identifier_rows
from plumbline.archive import invoices as invoice_rows
from plumbline.archive import operations as operation_rows
from plumbline.archive import prices as price_rows
from plumbline.archive import quarantine as quarantine_rows
from plumbline.archive import samples as sample_rows
from plumbline.archive import trials as trial_rows
from plumbline.archive.engine import advisory_lock, check_url, make_engine, reading, reads, utc_now, writes, writing
from plumbline.archive.migrate import prepare, revision_of
from plumbline.declarations import Provider, installation_paths

if TYPE_CHECKING:
    from plumbline.archive.bundle.importer import CheckQuality
    from plumbline.archive.bundle.manifest import ExportedCampaign, ImportedCampaign


class NoArchive(LookupError):
    """Nothing was ever recorded at the archive's address; nothing was created there."""


def open_archive(url: str | None = None, *, migrate: bool | None = None, create: bool = True) -> Archive:
    """The archive at `url` (default: the installation's), created if the database is empty and `create` is true.

    `migrate`: whether one of an older schema is migrated; if left out, only the installation's own file is, which no other program shares.
    ValueError for an address that cannot be an archive; OldSchema or UnknownSchema for one of another schema; NoArchive without `create`.
    """
    here = installation_paths()
    address = url or here.archive_url
    own = check_url(address) == check_url(here.own_archive_url)
    engine = make_engine(address) if create else existing_engine(address)
    try:
        prepare(engine, own if migrate is None else migrate)
    except BaseException:
        engine.dispose()
        raise
    return Archive(engine)


def existing_engine(url: str) -> Engine:
    """An engine for the archive at `url`, whatever its schema; NoArchive if there is none, and nothing is created."""
    require_file(url)  # before the engine, which creates the folder
    engine = make_engine(url)
    try:
        if revision_of(engine) is None:
            raise NoArchive(engine.url.render_as_string())
    except BaseException:
        engine.dispose()
        raise
    return engine


def require_file(url: str) -> None:
    """NoArchive if `url` is that of a SQLite file which is missing or empty; a server is not asked."""
    parsed = check_url(url)
    if parsed.get_backend_name() == "sqlite":
        file = Path(str(parsed.database))
        if not file.exists() or (file.is_file() and not file.stat().st_size):
            raise NoArchive(str(file))


class Archive:
    """All measurements and conclusions. Several processes may use it at once; close it, or use `with`."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def alone(self, what: str, patience_s: float) -> AbstractContextManager[bool]:
        """Hold an advisory lock by name among all processes that share the archive; yields whether it was acquired in time."""
        return advisory_lock(self.engine, what, patience_s)

    def visible(self, provider: Provider) -> Provider:
        """The provider of a stored trial, whose own prices count where it is no longer declared, as far as this archive's reader may see it."""
        return provider

    def close(self) -> None:
        """Close the connections."""
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
        """Take in a bundle's campaigns (all if None), each whole or not at all. Existing rows stay, so a repeat changes nothing.

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
        """Damage in the archive, one sentence each; empty if it is sound. With `evidence`, raw files are read too: all of them,
        or those of a `share` (k, n) of the trials, such as (3, 30). Evidence that expired is not missed; see also `files_elsewhere`.
        """
        with reading(self.engine) as session:
            return [*verification.row_problems(session), *(verification.file_problems(session, share) if evidence else ())]

    def check_writable(self) -> None:
        """SQLAlchemyError if nothing can be written here, such as into a file without permission."""
        with writing(self.engine) as session:
            session.connection()

    files_elsewhere = reads(verification.files_elsewhere)
    secrets = reads(stored_secrets.stored_secrets)
    record = writes(recording.record)
    correct = writes(recording.correct)
    kept_copy = reads(kept_declarations.kept_copy)
    keep_copy = writes(kept_declarations.keep_copy)
    note_broken = writes(kept_declarations.note_broken)
    declarations_kept_at = reads(kept_declarations.declarations_kept_at)
    # The caller writes and deletes the files: first write, then record, then delete what `record_written` and `forget_written` return.
    written_file = reads(written_files.written_file)
    written_list = reads(written_files.written_list)
    record_written = writes(written_files.record_written)
    forget_written = writes(written_files.forget_written)
    issue_signing_key = writes(recording.issue_signing_key)
    signing_keys = reads(recording.signing_keys)
    import_outside = writes(published.import_published)
    forget_import = writes(published.forget_import)
    imports = reads(published.list_imports)
    imported = reads(published.published_result)
    imported_files = reads(published.published_results)
    quarantine = writes(quarantine_rows.add)
    quarantined = reads(quarantine_rows.find)
    quarantined_one = reads(quarantine_rows.get)
    release = writes(quarantine_rows.release)
    series = reads(trial_rows.series)
    campaigns = reads(trial_rows.campaigns)
    moved = reads(trial_rows.campaign_changes)
    newest_records = reads(trial_rows.newest_records)
    is_empty = reads(trial_rows.is_empty)
    newest_campaign = reads(trial_rows.newest_campaign)
    result_campaigns = reads(trial_rows.result_campaigns)
    latest_campaign = reads(trial_rows.latest_campaign)
    series_campaigns = reads(trial_rows.series_campaigns)
    trials = reads(trial_rows.trials)
    held_since = reads(trial_rows.held_since)
    held_in = reads(trial_rows.held_in)
    held_part = reads(trial_rows.held_part)
    document = reads(trial_rows.document)
    documents = reads(trial_rows.documents)
    metric_history = reads(trial_rows.metric_history)
    metric_conflicts = reads(sample_rows.metric_conflicts)
    sample = reads(sample_rows.sample)
    samples = reads(sample_rows.samples)
    levels = reads(sample_rows.levels)
    campaign_levels = reads(sample_rows.campaign_levels)
    newest_usable = reads(sample_rows.newest_usable)
    measured_anything = reads(sample_rows.measured_anything)
    simulated_only = reads(sample_rows.simulated_only)
    attempts_of = reads(sample_rows.attempts_of)
    contents = reads(sample_rows.contents)
    numbers_of = reads(sample_rows.numbers_of)
    repeats_of = reads(sample_rows.repeats_of)
    fact_readings = reads(sample_rows.fact_readings)
    series_points = reads(sample_rows.series_points)
    baseline = reads(baselines.current)
    baseline_history = reads(baselines.history)
    baselines_of_campaigns = reads(baselines.of_campaigns)
    accept_baseline = writes(baselines.accept_baseline)
    restore_baseline = writes(baselines.restore)
    bootstrap_baseline = writes(baselines.bootstrap)
    join_baseline = writes(baselines.join)
    save_findings = writes(finding_rows.save_findings)
    findings = reads(finding_rows.find_findings)
    finding = reads(finding_rows.get_finding)
    findings_of = reads(finding_rows.provider_findings)
    continue_finding = writes(finding_rows.continue_finding)
    restate_findings = writes(finding_rows.restate_findings)
    set_finding_state = writes(finding_rows.set_state)
    snooze_finding = writes(finding_rows.snooze_finding)
    save_incident = writes(finding_rows.save_incident)
    incidents = reads(finding_rows.find_incidents)
    prices = reads(price_rows.prices)
    record_readings = writes(price_rows.record_readings)
    price_readings = reads(price_rows.price_readings)
    accepted_price = reads(price_rows.accepted_price)
    accept_price = writes(price_rows.accept_price)
    save_decision = writes(price_rows.save_decision)
    decisions = reads(price_rows.decisions)
    save_snapshot = writes(price_rows.save_snapshot)
    latest_snapshot = reads(price_rows.latest_snapshot)
    snapshots = reads(price_rows.snapshots)
    save_availability_checks = writes(check_rows.save_availability_checks)
    availability_checks = reads(check_rows.availability_checks)
    answered_checks = reads(check_rows.answered_checks)
    missed_checks = reads(check_rows.missed_checks)
    compared_campaigns = reads(pages.compared_campaigns)
    acceptances = reads(pages.acceptances)
    newest_checks = reads(check_rows.newest_checks)
    count_availability_checks = reads(check_rows.count_availability_checks)
    checks_ahead = reads(check_rows.checks_ahead)
    latest_availability_check = reads(check_rows.latest_availability_check)
    forget_availability_checks = writes(check_rows.forget_availability_checks)
    log_entry = writes(operation_rows.log_entry)
    operations = reads(operation_rows.operations)
    operations_logged = reads(operation_rows.operations_logged)
    operations_history = reads(operation_rows.operations_history)
    save_compared_invoice = writes(invoice_rows.save_compared_invoice)
    compared_invoices = reads(invoice_rows.compared_invoices)
    # `add_audit` logs a decision that changes nothing in the archive, such as keeping a baseline.
    audit = reads(audit_log.entries)
    newest_reviews = reads(audit_log.newest_reviews)
    # What happened in a span of time; see `archive.happened`.
    audit_between = reads(happened.audit_between)
    reviews_between = reads(happened.reviews_between)
    newest_entry = reads(happened.newest_entry)
    findings_by_id = reads(happened.findings_by_id)
    providers_of_campaigns = reads(happened.providers_of_campaigns)
    price_steps = reads(happened.price_steps)
    newest_price_reading = reads(happened.newest_price_reading)
    moved_choices = reads(happened.moved_choices)
    newest_decision = reads(happened.newest_decision)
    add_audit = writes(audit_log.write_entry)
    # Lists that may be long, a page at a time, and short answers about many series.
    campaign_head = reads(pages.campaign_head)
    campaign_series = reads(pages.campaign_series)
    trials_page = reads(pages.trials_page)
    provider_names = reads(pages.provider_names)
    findings_page = reads(pages.findings_page)
    findings_shown_by = reads(pages.findings_shown_by)
    newest_readings = reads(pages.newest_readings)
    as_of = reads(pages.as_of)
    decisions_page = reads(pages.decisions_page)
    newest_decisions = reads(pages.newest_decisions)
    series_of = reads(pages.series_of)
    workload_names = reads(pages.workload_names)
    providers_of = reads(pages.providers_of)
    newest_parts = reads(pages.newest_parts)
    newest_by_place = reads(pages.newest_by_place)
    campaigns_page = reads(pages.campaigns_page)
    campaign_outcomes = reads(pages.campaign_outcomes)
    marked = reads(pages.marked)
    measured_names = reads(trends.measured_names)
    facts_by_campaign = reads(trends.facts_by_campaign)
    newest_facts = reads(trends.newest_facts)
    launches = reads(trends.launches)
    last_run = reads(trends.last_run)
    # The caller deletes files: first expire, then delete, then note it.
    aged_evidence = reads(retention.due_evidence)
    expire_evidence = writes(retention.expire_evidence)
    expired_evidence = reads(retention.evidence_to_delete)
    expired_files = reads(retention.expired_files)
    evidence_removed = writes(retention.mark_deleted)
    thin_snapshots = writes(retention.thin_snapshots)
    forget_quarantined = writes(retention.delete_quarantined)
    table_sizes = reads(retention.table_sizes)
    identifiers = reads(identifier_rows.identifiers)
    complete_identifier = reads(identifier_rows.complete_identifier)
    find_identifiers = reads(identifier_rows.find_identifiers)
