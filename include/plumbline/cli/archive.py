"""`plumbline archive`: does it hold, take it elsewhere, set a measurement right."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Annotated

import typer

from plumbline.archive import Refused
from plumbline.archive.bundle import BadBundle, Exported, Imported
from plumbline.cli.archive_backup import backup, restore
from plumbline.cli.archive_expire import expire
from plumbline.cli.archive_migrate import migrate
from plumbline.cli.archive_size import size
from plumbline.cli.opening import open_archive
from plumbline.cli.output import BROKEN, FAILED, OK, Json, clear_errors, emit, fail, out, table

archive = typer.Typer(help="Check the archive, carry it elsewhere, set a measurement right.", no_args_is_help=True)
quarantine = typer.Typer(help="Result documents that could not be believed.", no_args_is_help=True)
archive.add_typer(quarantine, name="quarantine")
archive.command()(expire)
archive.command()(migrate)
archive.command()(size)
archive.command()(backup)
archive.command()(restore)


@archive.command()
def verify(
    quick: Annotated[bool, typer.Option("--quick", help="without reading the evidence files")] = False, as_json: Json = False
) -> None:
    """Check every reference, hash and number, and every evidence file's SHA-256. Exit code 4 if something is broken."""
    with open_archive() as opened:
        broken = opened.verify(evidence=not quick)

    def show() -> None:
        for problem in broken:
            out.print(problem, style="red", highlight=False, markup=False, soft_wrap=True)
        checked = "rows and documents" if quick else "rows, documents and evidence"
        out.print(f"{len(broken)} broken" if broken else f"the archive holds: {checked}", highlight=False)

    emit(as_json, {"sound": not broken, "evidence_checked": not quick, "problems": broken}, show)
    raise typer.Exit(BROKEN if broken else OK)


@archive.command()
def export(
    folder: Annotated[Path, typer.Argument(help="a new or empty folder")],
    campaign: Annotated[list[str] | None, typer.Option(help="only this campaign; may be repeated")] = None,
    as_json: Json = False,
) -> None:
    """Write campaigns as Parquet tables and result documents, with a manifest of SHA-256s."""
    with clear_errors(LookupError, BadBundle, OSError), open_archive() as opened:
        done = opened.export(folder, campaign)
    emit(as_json, done, lambda: _show_exported(folder, done))


@archive.command("import")
def import_(
    folder: Annotated[Path, typer.Argument(help="what `archive export` wrote")],
    campaign: Annotated[list[str] | None, typer.Option(help="only this campaign; may be repeated")] = None,
    as_json: Json = False,
) -> None:
    """Take in what another archive exported. What is there stays; a campaign that contradicts it, or its documents, is refused. Exit code 1 then."""
    from plumbline.orchestration.importing import import_bundle

    with clear_errors(LookupError, BadBundle, OSError), open_archive() as opened:
        done = import_bundle(opened, folder, campaign, getpass.getuser())
    emit(as_json, done, lambda: _show_imported(done))
    raise typer.Exit(FAILED if any(one.refused for one in done) else OK)


@archive.command()
def collect(campaign: Annotated[str, typer.Argument(help="the campaign's id, such as 2026-11")], as_json: Json = False) -> None:
    """Bring home results that reached their stores after the campaign ended, and record them. Exit code 1 if some still cannot be read."""
    from plumbline.orchestration.collecting import collect_campaign

    with clear_errors(LookupError, OSError), open_archive() as opened:
        done = collect_campaign(opened, campaign)
    new = [one for one in done if {"inserted", "corrected"} & set(one.recorded)]
    failed = [one for one in done if one.problem is not None]
    refused = [(one, reason) for one in done for reason in one.quarantined]

    def show() -> None:
        lines = [(one, one.problem or ", ".join(one.recorded)) for one in (*new, *failed)]
        lines += [(one, f"in quarantine: {reason}") for one, reason in refused]
        for one, text in lines:
            out.print(f"{one.trial_id}: {text}", highlight=False, markup=False, soft_wrap=True)
        out.print(
            f"{len(done)} trial{'' if len(done) == 1 else 's'}: {len(new)} with new results, {len(failed)} not collected, "
            f"{len(refused)} document{'' if len(refused) == 1 else 's'} in quarantine",
            highlight=False,
        )

    emit(as_json, done, show)
    raise typer.Exit(FAILED if failed else OK)


@archive.command()
def correct(
    trial_id: Annotated[str, typer.Argument()],
    why: Annotated[str, typer.Option(help="the reason, for the audit log")],
    attempt: Annotated[int, typer.Option(help="the attempt that was judged wrongly")] = 1,
    accept: Annotated[bool | None, typer.Option("--accept/--reject", help="what it should have been")] = None,
    as_json: Json = False,
) -> None:
    """Reject or accept a recorded measurement after all: a new row names the old one and stands in its place."""
    from plumbline.orchestration.correcting import judge

    if accept is None:
        fail("no verdict; expected --accept or --reject")
    with clear_errors(LookupError, ValueError, Refused), open_archive() as opened:
        new = judge(opened, trial_id, attempt, "accept" if accept else "reject", getpass.getuser(), why)
    emit(
        as_json,
        {"trial_id": trial_id, "corrects": attempt, "attempt": new},
        lambda: out.print(f"{trial_id}: attempt {new} stands in the place of attempt {attempt}", highlight=False),
    )


@quarantine.command("list")
def list_(
    everything: Annotated[bool, typer.Option("--all", help="also what was released")] = False,
    campaign: Annotated[str | None, typer.Option(help="only of this campaign")] = None,
    as_json: Json = False,
) -> None:
    """List the documents in quarantine, oldest first."""
    with open_archive() as opened:
        found = opened.quarantined(everything=everything, campaign_id=campaign)

    def show() -> None:
        shown = table("Quarantine", "id", "trial", "attempt", "since (UTC)", "state", "why", right=("attempt",))
        for q in found:
            shown.add_row(q.quarantine_id, q.trial_id, str(q.attempt), f"{q.quarantined_at:%Y-%m-%d %H:%M}", q.state, q.reason)
        out.print(shown if found else "nothing is in quarantine")

    emit(as_json, found, show)


@quarantine.command("show")
def show_(quarantine_id: Annotated[str, typer.Argument()], as_json: Json = False) -> None:
    """Show why a document is in quarantine, where it is kept, and what was done about it."""
    with clear_errors(LookupError), open_archive() as opened:
        found = opened.quarantined_one(quarantine_id)
        history = opened.audit(quarantine_id)

    def show() -> None:
        for name in ("trial_id", "attempt", "state", "reason", "uri", "sha256"):
            out.print(f"{name:9s} {getattr(found, name)}", highlight=False, markup=False, soft_wrap=True)
        for entry in history:
            line = f"  {entry.at:%Y-%m-%d %H:%M} UTC  {entry.who}: {entry.what}  {entry.why}"
            out.print(line, style="dim", highlight=False, markup=False, soft_wrap=True)

    emit(as_json, {"document": found, "audit": history}, show)


@quarantine.command()
def retry(
    quarantine_id: Annotated[str | None, typer.Argument(help="everything that is kept if left out")] = None, as_json: Json = False
) -> None:
    """Look again: a document that holds now is recorded in the place of its failed attempt. Exit code 1 if one still does not."""
    from plumbline.orchestration.correcting import retry as retry_one
    from plumbline.orchestration.correcting import retry_all

    by = getpass.getuser()
    with clear_errors(LookupError, FileNotFoundError, Refused), open_archive() as opened:
        done = [retry_one(opened, quarantine_id, by)] if quarantine_id else retry_all(opened, by)

    def show() -> None:
        for one in done:
            said = "still not believed" if one.attempt is None else f"released as attempt {one.attempt}"
            out.print(f"{one.quarantine_id}: {said}: {one.reason}", highlight=False, markup=False, soft_wrap=True)
        if not done:
            out.print("nothing is in quarantine")

    emit(as_json, done, show)
    raise typer.Exit(FAILED if any(one.attempt is None for one in done) else OK)


def _show_exported(folder: Path, done: list[Exported]) -> None:
    shown = table(f"Exported to {folder}", "campaign", "trials", "content", right=("trials",))
    for one in done:
        shown.add_row(one.campaign_id, str(one.trials), one.content_hash[:16])
    out.print(shown if done else "the archive has no campaign to export")


def _show_imported(done: list[Imported]) -> None:
    shown = table("Imported", "campaign", "new trials", "there already", "notes", right=("new trials", "there already"))
    for one in done:
        shown.add_row(one.campaign_id, str(one.new), str(one.known), one.refused or "; ".join(one.notes))
    out.print(shown if done else "nothing to import")
