"""`plumbline archive backup` and `restore`: a whole copy of the archive, or of Airflow's own database, and the way back."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from plumbline.archive.backup import Backup, BackupError
from plumbline.archive.backup import backup as make_backup
from plumbline.archive.backup import restore as make_restored
from plumbline.cli.opening import open_archive
from plumbline.cli.output import BROKEN, FAILED, OK, Json, clear_errors, emit, fail, out
from plumbline.declarations import places

Airflow = Annotated[bool, typer.Option("--airflow", help="Airflow's database instead: runs, and connections encrypted with the Fernet key")]


def backup(
    file: Annotated[Path, typer.Argument(help="a new file; it holds prices and, of Airflow, encrypted connections")],
    airflow: Airflow = False,
    as_json: Json = False,
) -> None:
    """Copy the archive into one file, of one moment, while others write to it. PostgreSQL needs pg_dump on PATH."""
    try:
        with clear_errors(ValueError):
            made: Backup = make_backup(_url(airflow), file)
    except BackupError as error:
        fail(str(error), FAILED)
    emit(
        as_json,
        made,
        lambda: out.print(
            f"{made.file}: {made.bytes:,} B, schema {made.schema or 'none'}, SHA-256 {made.sha256}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        ),
    )


def restore(
    file: Annotated[Path, typer.Argument(help="what `archive backup` wrote")],
    replace: Annotated[bool, typer.Option("--replace", help="also into a database that holds rows; they are deleted")] = False,
    airflow: Airflow = False,
    as_json: Json = False,
) -> None:
    """Make the archive what a backup holds, whole or not at all, and verify it. Stop Airflow first. Exit code 4 if it does not hold."""
    try:
        with clear_errors(ValueError), _airflow_stopped():
            schema = make_restored(_url(airflow), file, replace=replace)
    except BackupError as error:
        fail(str(error), FAILED)
    problems = [] if airflow else _problems()

    def show() -> None:
        for problem in problems:
            out.print(problem, style="red", highlight=False, markup=False, soft_wrap=True)
        checked = "" if airflow else f"; {len(problems)} broken" if problems else "; the archive holds: rows and documents"
        out.print(f"restored {file}, schema {schema or 'none'}{checked}", highlight=False, markup=False, soft_wrap=True)

    emit(as_json, {"file": file, "schema": schema, "verified": not airflow, "problems": problems}, show)
    raise typer.Exit(BROKEN if problems else OK)


def _problems() -> list[str]:
    with open_archive() as archive:
        return archive.verify()


def _url(airflow: bool) -> str:
    if not airflow:
        return places().archive_url
    from plumbline.orchestration.connections import database_url

    return database_url()


@contextmanager
def _airflow_stopped() -> Iterator[None]:
    """Hold the lock of the embedded Airflow: what runs would write into what is being restored."""
    home = places().airflow_home
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (home / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BackupError(f"an Airflow is running in {home}; stop it, then restore again") from None
        yield
