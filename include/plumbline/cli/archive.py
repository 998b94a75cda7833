"""`plumbline archive` and `plumbline archive quarantine`: verify, move, back up, expire and correct."""

from __future__ import annotations

import fcntl
import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer
from sqlalchemy.exc import SQLAlchemyError

from plumbline import workflows
from plumbline.archive import Archive, NoArchive, Refused, SchemaMismatch
from plumbline.archive.archive import existing_engine, require_file
from plumbline.archive.backup import Backup, BackupError
from plumbline.archive.backup import backup as make_backup
from plumbline.archive.backup import restore as make_restored
from plumbline.archive.bundle import BadBundle, ExportedCampaign
from plumbline.archive.migrate import head, revision_of, upgrade
from plumbline.archive.retention import DueEvidence
from plumbline.cli.exit_status import BROKEN, FAILED, OK
from plumbline.cli.imports import forget_import, import_, import_mlperf, imports
from plumbline.cli.output import (
    Json,
    clear_errors,
    completed,
    emit,
    fail,
    marked,
    no_archive,
    open_archive,
    out,
    read_archive,
    recorded_later,
    table,
)
from plumbline.declarations import DeclarationError, installation_paths
from plumbline.embedded.connections import database_url
from plumbline.launch import stores
from plumbline.metrics.formatting import format_count

Airflow = Annotated[bool, typer.Option("--airflow", help="Airflow's database instead: runs, and connections encrypted with the Fernet key")]


def backup(
    file: Annotated[Path, typer.Argument(help="a new file; it holds prices and, of Airflow, encrypted connections")],
    airflow: Airflow = False,
    as_json: Json = False,
) -> None:
    """Copy the archive into one file, of one moment, while others write to it. PostgreSQL needs pg_dump on PATH."""
    try:
        with clear_errors(ValueError):
            if not airflow:
                require_file(_url(airflow))
            written: Backup = make_backup(_url(airflow), file)
    except NoArchive as error:
        fail(no_archive(error))
    except BackupError as error:
        fail(str(error), FAILED)
    emit(
        as_json,
        written,
        lambda: out.print(f"{written.file}: {written.bytes:,} B, schema {written.schema or 'none'}, SHA-256 {written.sha256}"),
    )


def restore(
    file: Annotated[Path, typer.Argument(help="what `archive backup` wrote")],
    replace: Annotated[
        bool, typer.Option("--replace", help="also into a database that holds rows; they are copied into a file beside it first")
    ] = False,
    airflow: Airflow = False,
    as_json: Json = False,
) -> None:
    """Make the archive what a backup holds, whole or not at all, and verify it. Stop Airflow first. Exit code 4 if it does not hold."""
    try:
        with clear_errors(ValueError), _airflow_stopped():
            done = make_restored(_url(airflow), file, replace=replace, airflow=airflow)
    except BackupError as error:
        fail(str(error), FAILED)
    problems = [] if airflow else _problems()

    def show() -> None:
        for problem in problems:
            out.print(problem, style="red")
        checked = "" if airflow else f"; {len(problems)} broken" if problems else "; the archive holds: rows and documents"
        out.print(f"restored {file}, schema {done.schema or 'none'}{checked}")
        if done.kept is not None:
            out.print(f"what was there before: {done.kept}")

    emit(as_json, {"file": file, "schema": done.schema, "kept": done.kept, "verified": not airflow, "problems": problems}, show)
    raise typer.Exit(BROKEN if problems else OK)


def _problems() -> list[str]:
    with open_archive() as archive:
        return archive.verify()


def _url(airflow: bool) -> str:
    return database_url() if airflow else installation_paths().archive_url


_NEWEST = 12


def campaigns(
    everything: Annotated[bool, typer.Option("--all", help=f"every campaign, not only the newest {_NEWEST}")] = False, as_json: Json = False
) -> None:
    with read_archive(listing=True, as_json=as_json) as archive:
        rows = archive.campaigns()

    def show() -> None:
        shown = table("Campaigns", "campaign", "planned (UTC)", "why", "usable", "not usable", right=("usable", "not usable"))
        listed = rows[::-1] if everything else rows[: -_NEWEST - 1 : -1]
        for c in listed:
            bad = c.outcomes.planned - c.outcomes.usable
            other = " and ".join(source for source in c.sources if source != "measured")
            why = marked("{}[yellow]{}[/]", c.reason, f" {other.upper()}" if other else "")
            shown.add_row(c.campaign_id, f"{c.planned_at:%Y-%m-%d %H:%M}", why, str(c.outcomes.usable), str(bad) if bad else "")
        out.print(shown)
        if older := len(rows) - len(listed):
            out.print(f"{older} older: --all", style="dim")

    emit(as_json, rows, show)


@contextmanager
def _airflow_stopped() -> Iterator[None]:
    """Hold the lock of the embedded Airflow: what runs would write into what is being restored."""
    home = installation_paths().airflow_home
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (home / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BackupError(f"an Airflow is running in {home}; stop it, then restore again") from None
        yield


def expire(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only say what would go, and what stays and why")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="delete it")] = False,
    as_json: Json = False,
) -> None:
    """Delete raw evidence that is older than `evidence.keep` in upkeep.yaml and that nothing cites. Rows and documents stay."""
    if dry_run == yes:
        fail("deletes raw evidence for good; expected --dry-run to see what would go, or --yes")
    with clear_errors(DeclarationError, OSError), read_archive(listing=True, as_json=as_json) as archive:
        due = workflows.retain.expired_evidence(archive)
        if due is None:
            fail("evidence never expires: include/config/upkeep.yaml declares no evidence.keep")
        done = workflows.retain.expire_evidence(archive) if yes else None
    emit(as_json, {"due": due.due, "cited": due.cited, "elsewhere": due.elsewhere, "removed": done}, lambda: _show(due, yes))
    if done is not None and not as_json:
        out.print(f"{done.files} files of {done.attempts} attempts deleted, {done.bytes:,} B")


def _show(due: DueEvidence, gone: bool) -> None:
    shown = table(
        f"Raw evidence that {'goes' if gone else 'would go'}",
        "campaign",
        "attempts",
        "files",
        "bytes",
        right=("attempts", "files", "bytes"),
    )
    for campaign, group in groupby(due.due, lambda one: one.campaign_id):
        attempts = list(group)
        size = sum(one.bytes for one in attempts)
        shown.add_row(campaign, str(len(attempts)), str(sum(len(one.files) for one in attempts)), f"{size:,}")
    out.print(shown if due.due else "nothing is due")
    for why, count in sorted(due.cited.items()):
        out.print(f"  {count} older attempts stay: {why}", style="dim")
    if due.elsewhere:
        out.print(f"  {due.elsewhere} older attempts lie in another store and are left to it", style="dim")


def migrate(as_json: Json = False) -> None:
    """Migrate the archive to this version's schema. Whole or not at all, also if it is killed."""
    with clear_errors(SchemaMismatch, ValueError):
        try:
            with Archive(existing_engine(installation_paths().archive_url)) as opened:
                before = revision_of(opened.engine)
                upgrade(opened.engine)
        except NoArchive as error:
            fail(no_archive(error))
        except SQLAlchemyError as error:
            fail(f"the archive was not migrated and has its schema as before: {getattr(error, 'orig', None) or error}", FAILED)
    after = head()
    emit(
        as_json,
        {"before": before, "after": after},
        lambda: out.print(f"schema {after}" + (" already" if before == after else f", before {before}")),
    )


def size(as_json: Json = False) -> None:
    """Show what the archive's tables, the result store, reports, logs and caches take, and how long each is kept."""
    with clear_errors(DeclarationError, OSError), read_archive(listing=True, as_json=as_json) as archive:
        sizes = workflows.retain.storage_sizes(archive)

    def show() -> None:
        parts = table("What grows", "part", "where", "files", "bytes", "keep", right=("files", "bytes"))
        for part in sizes.parts:
            parts.add_row(part.part, part.where, f"{part.files:,}", _bytes(part.bytes), part.keep)
        out.print(parts)
        tables = table("Tables of the archive", "table", "rows", "bytes", right=("rows", "bytes"))
        for one in sizes.tables:
            tables.add_row(one.table, f"{one.rows:,}", _bytes(one.bytes))
        out.print(tables)

    emit(as_json, sizes, show)


def _bytes(number: int | None) -> str:
    return "unknown" if number is None else f"{number:,}"


archive = typer.Typer(help="Verify, back up, move and correct the archive.", no_args_is_help=True)
quarantine = typer.Typer(help="Result documents that failed their checks.", no_args_is_help=True)
archive.add_typer(quarantine, name="quarantine")
archive.command()(expire)
archive.command()(migrate)
archive.command()(size)
archive.command()(backup)
archive.command()(restore)
archive.command("import")(import_)
archive.command("import-mlperf")(import_mlperf)
archive.command()(imports)
archive.command()(forget_import)


@archive.command()
def verify(
    quick: Annotated[bool, typer.Option("--quick", help="without reading the evidence files")] = False, as_json: Json = False
) -> None:
    """Check every reference, hash and number, every evidence file's SHA-256, and every text for secrets. Exit code 4 if something is broken,
    1 if a secret is found."""
    with read_archive(listing=True, as_json=as_json) as opened:
        broken, elsewhere, secrets = opened.verify(evidence=not quick), opened.files_elsewhere(), opened.secrets()

    def show() -> None:
        for problem in broken:
            out.print(problem, style="red")
        for secret in secrets:
            out.print(secret, style="yellow", markup=False, highlight=False)
        own = " of this store" if elsewhere else ""
        checked = "rows and documents" if quick else f"rows, documents and evidence{own}"
        out.print(f"{len(broken)} broken" if broken else f"the archive holds: {checked}")
        if secrets:
            out.print(f"{format_count(len(secrets), 'secret')} in it, which all who read it can read")
        if elsewhere:
            out.print(workflows.retain.elsewhere_line(elsewhere))

    emit(
        as_json,
        {"sound": not broken, "evidence_checked": not quick, "problems": broken, "secrets": secrets, "files_elsewhere": elsewhere},
        show,
    )
    raise typer.Exit(BROKEN if broken else FAILED if secrets else OK)


@archive.command()
def export(
    folder: Annotated[Path, typer.Argument(help="a new or empty folder")],
    campaign: Annotated[list[str] | None, typer.Option(help="only this campaign; may be repeated")] = None,
    as_json: Json = False,
) -> None:
    """Write campaigns as result documents and JSON Lines of what was concluded, with a manifest of SHA-256s."""
    with clear_errors(LookupError, BadBundle, OSError), read_archive(listing=True, as_json=as_json) as opened:
        done = opened.export(folder, campaign)
    emit(as_json, done, lambda: _show_exported(folder, done))


@archive.command()
def collect(campaign: Annotated[str, typer.Argument(help="the campaign's id, such as 2026-11")], as_json: Json = False) -> None:
    """Bring home results that reached their stores after the campaign ended, and record them. Exit code 1 if some still cannot be read."""
    # Only for results that are there an archive is made, where there is none.
    opening = open_archive if stores.home().trial_ids(campaign) else read_archive
    with clear_errors(LookupError), recorded_later(campaign), opening() as opened:
        done = workflows.collect.collect_campaign(opened, campaign)
    new = [one for one in done if {"inserted", "corrected"} & set(one.recorded)]
    failed = [one for one in done if one.problem is not None]
    refused = [(one, reason) for one in done for reason in one.quarantined]

    def show() -> None:
        lines = [(one, one.problem or ", ".join(one.recorded)) for one in (*new, *failed)]
        lines += [(one, f"in quarantine: {reason}") for one, reason in refused]
        for one, text in lines:
            out.print(f"{one.trial_id}: {text}")
        out.print(
            f"{format_count(len(done), 'trial')}: {len(new)} with new results, {len(failed)} not collected, "
            f"{format_count(len(refused), 'document')} in quarantine"
        )

    emit(as_json, done, show)
    raise typer.Exit(FAILED if failed else OK)


@archive.command()
def correct(
    trial_id: Annotated[str, typer.Argument(help="its id, or how that begins", callback=completed("trial"))],
    why: Annotated[str, typer.Option(help="the reason, for the audit log")],
    attempt: Annotated[int, typer.Option(help="the attempt that was judged wrongly")] = 1,
    accept: Annotated[bool | None, typer.Option("--accept/--reject", help="what it should have been")] = None,
    as_json: Json = False,
) -> None:
    """Reject or accept a recorded measurement after all: a new row replaces the old one and names it."""
    if accept is None:
        fail("no verdict; expected --accept or --reject")
    with clear_errors(LookupError, ValueError, Refused), read_archive() as opened:
        new = workflows.record.override_verdict(opened, trial_id, attempt, "accept" if accept else "reject", getpass.getuser(), why)
    emit(
        as_json,
        {"trial_id": trial_id, "corrects": attempt, "attempt": new},
        lambda: out.print(f"{trial_id}: attempt {new} replaces attempt {attempt}"),
    )


@quarantine.command("list")
def list_(
    everything: Annotated[bool, typer.Option("--all", help="also what was released")] = False,
    campaign: Annotated[str | None, typer.Option(help="only of this campaign")] = None,
    as_json: Json = False,
) -> None:
    """List the documents in quarantine, oldest first."""
    with read_archive(listing=True, as_json=as_json) as opened:
        rows = opened.quarantined(everything=everything, campaign_id=campaign)

    def show() -> None:
        shown = table("Quarantine", "id", "trial", "attempt", "since (UTC)", "state", "why", right=("attempt",))
        for q in rows:
            shown.add_row(q.quarantine_id, q.trial_id, str(q.attempt), f"{q.quarantined_at:%Y-%m-%d %H:%M}", q.state, q.reason)
        out.print(shown if rows else "nothing is in quarantine")

    emit(as_json, rows, show)


@quarantine.command("show")
def show_(quarantine_id: Annotated[str, typer.Argument()], as_json: Json = False) -> None:
    """Show why a document is in quarantine, where it is kept, and what was done about it."""
    with clear_errors(LookupError), read_archive() as opened:
        row = opened.quarantined_one(quarantine_id)
        history = opened.audit(quarantine_id)

    def show() -> None:
        for name in ("trial_id", "attempt", "state", "reason", "uri", "sha256"):
            out.print(f"{name:9s} {getattr(row, name)}")
        for entry in history:
            line = f"  {entry.at:%Y-%m-%d %H:%M} UTC  {entry.who}: {entry.what}  {entry.why}"
            out.print(line, style="dim")

    emit(as_json, {"document": row, "audit": history}, show)


@quarantine.command()
def retry(
    quarantine_id: Annotated[str | None, typer.Argument(help="everything that is kept if left out")] = None, as_json: Json = False
) -> None:
    """Look again: a document that holds now is recorded in the place of its failed attempt. Exit code 1 if one still does not."""
    by = getpass.getuser()
    with clear_errors(LookupError, FileNotFoundError, Refused), read_archive(listing=True, as_json=as_json) as opened:
        done = (
            [workflows.record.retry_quarantined(opened, quarantine_id, by)]
            if quarantine_id
            else workflows.record.retry_all_quarantined(opened, by)
        )

    def show() -> None:
        for one in done:
            outcome = "fails its checks again" if one.attempt is None else f"released as attempt {one.attempt}"
            out.print(f"{one.quarantine_id}: {outcome}: {one.reason}")
        if not done:
            out.print("nothing is in quarantine")

    emit(as_json, done, show)
    raise typer.Exit(FAILED if any(one.attempt is None for one in done) else OK)


def _show_exported(folder: Path, done: list[ExportedCampaign]) -> None:
    shown = table(f"Exported to {folder}", "campaign", "trials", "content", right=("trials",))
    for one in done:
        shown.add_row(one.campaign_id, str(one.trials), one.content_hash[:16])
    out.print(shown if done else "the archive has no campaign to export")
