"""`plumbline archive expire`: what the daily upkeep does with raw evidence that was kept as long as declared."""

from __future__ import annotations

from itertools import groupby
from typing import Annotated

import typer

from plumbline.archive.retention import Aged
from plumbline.cli.opening import open_archive
from plumbline.cli.output import Json, clear_errors, emit, fail, out, table
from plumbline.declarations import DeclarationError


def expire(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only say what would go, and what stays and why")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="delete it")] = False,
    as_json: Json = False,
) -> None:
    """Delete raw evidence that is older than `evidence.keep` in upkeep.yaml and that nothing cites. Rows and documents stay."""
    from plumbline.orchestration import evidence

    if dry_run == yes:
        fail("deletes raw evidence for good; expected --dry-run to see what would go, or --yes")
    with clear_errors(DeclarationError, OSError), open_archive() as archive:
        found = evidence.aged(archive)
        if found is None:
            fail("evidence is kept for ever: include/config/upkeep.yaml declares no evidence.keep")
        done = evidence.expire(archive) if yes else None
    emit(as_json, {"due": found.due, "cited": found.cited, "elsewhere": found.elsewhere, "removed": done}, lambda: _show(found, yes))
    if done is not None and not as_json:
        out.print(f"{done.files} files of {done.attempts} attempts deleted, {done.bytes:,} B", highlight=False)


def _show(found: Aged, gone: bool) -> None:
    shown = table(
        f"Raw evidence that {'goes' if gone else 'would go'}",
        "campaign",
        "attempts",
        "files",
        "bytes",
        right=("attempts", "files", "bytes"),
    )
    for campaign, group in groupby(found.due, lambda one: one.campaign_id):
        attempts = list(group)
        size = sum(one.bytes for one in attempts)
        shown.add_row(campaign, str(len(attempts)), str(sum(len(one.files) for one in attempts)), f"{size:,}")
    out.print(shown if found.due else "nothing is due")
    for why, count in sorted(found.cited.items()):
        out.print(f"  {count} older attempts stay: {why}", style="dim", highlight=False)
    if found.elsewhere:
        out.print(f"  {found.elsewhere} older attempts lie in another store and are left to it", style="dim", highlight=False)
