"""`plumbline evidence`: the documents and evidence behind a conclusion, for a reader without Plumbline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from plumbline.cli.opening import open_archive
from plumbline.cli.output import BROKEN, OK, Json, clear_errors, emit, out
from plumbline.results import BadResult

evidence = typer.Typer(help="Hand over what a finding or a campaign rests on.", no_args_is_help=True)


@evidence.callback()
def group() -> None:
    """Keeps `export` a command of its own."""


@evidence.command()
def export(
    subject: Annotated[str, typer.Argument(metavar="FINDING|CAMPAIGN", help="the id of a finding or of a campaign")],
    file: Annotated[Path | None, typer.Argument(help="a new file; default: evidence-<id>.zip")] = None,
    as_json: Json = False,
) -> None:
    """Write documents, evidence, signatures, public keys and a stand-alone verify.py as one ZIP file. Exit code 4 if some of it does not hold."""
    from plumbline.orchestration.evidence_pack import export as exported

    target = file or Path(f"evidence-{subject.replace('/', '-')}.zip")
    with clear_errors(LookupError, BadResult, OSError), open_archive() as archive:
        done = exported(archive, subject, target)

    def show() -> None:
        for problem in done.problems:
            out.print(problem, style="red", highlight=False, markup=False, soft_wrap=True)
        out.print(
            f"{done.file}: {done.trials} attempts, {done.signed} of them signed, {done.files} files",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
        out.print("Verify it anywhere: unzip it and run python verify.py (needs the package cryptography).", highlight=False)

    emit(as_json, done, show)
    raise typer.Exit(BROKEN if done.problems else OK)
