"""`plumbline evidence`: packs that others can verify, and the keys that sign them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from plumbline import workflows
from plumbline.cli.exit_status import BROKEN, OK
from plumbline.cli.output import Json, clear_errors, completed, emit, fail, out, read_archive
from plumbline.results import InvalidResult, installation_keys

evidence = typer.Typer(help="Export the evidence of a finding or a campaign, signed.", no_args_is_help=True)


@evidence.command()
def export(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="FINDING|CAMPAIGN",
            help="the id of a finding or of a campaign, or how that begins",
            callback=completed("finding", "campaign"),
        ),
    ],
    file: Annotated[Path | None, typer.Argument(help="a new file; default: evidence-<id>.zip")] = None,
    provider: Annotated[str | None, typer.Option(help="whose trials; needed for a campaign of several providers")] = None,
    as_json: Json = False,
) -> None:
    """Write documents, evidence, signatures, public keys and a stand-alone verify.py as one ZIP file. Exit code 4 if some of it does not hold."""
    target = file or Path(f"evidence-{subject.replace('/', '-')}.zip")
    with clear_errors(LookupError, ValueError, InvalidResult, OSError), read_archive() as archive:
        done = workflows.evidence_pack.write_evidence_pack(archive, subject, target, provider)

    def show() -> None:
        for problem in done.problems:
            out.print(problem, style="red")
        out.print(f"{done.file}: {done.trials} attempts, {done.signed} of them signed, {done.files} files")
        out.print(f"Verify it anywhere: unzip it and run python -I verify.py --key {done.key} (needs the package cryptography).")
        out.print("Give the recipient this key by another way than the pack.")
        if done.next_key is not None:
            out.print(f"Give the next key with it, which signed too: {done.next_key}")

    emit(as_json, done, show)
    raise typer.Exit(BROKEN if done.problems else OK)


@evidence.command()
def key(
    announce: Annotated[bool, typer.Option("--announce", help="add the next key: packs are signed by both from now on")] = False,
    retire: Annotated[bool, typer.Option("--retire", help="remove the older of two keys, once all recipients have the newer one")] = False,
    as_json: Json = False,
) -> None:
    """Show the public keys that packs are signed with; rotate them by overlap."""
    if announce and retire:
        fail("--announce and --retire together; expected one of them, and time for recipients between the two")
    change = installation_keys.announce_key if announce else installation_keys.retire_key if retire else installation_keys.installation_keys
    with clear_errors(ValueError, OSError):
        keys = [pair.public_hex for pair in change()]

    def show() -> None:
        for i, each in enumerate(keys):
            out.print(f"{'signs' if not i else 'signs too, and follows it'}  {each}", soft_wrap=True)

    emit(as_json, {"keys": keys}, show)
