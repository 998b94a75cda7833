"""`plumbline findings`: what drifted, and what people decided about it."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from plumbline.archive import Archive, open_archive
from plumbline.cli.output import Json, clear_errors, emit, out
from plumbline.drift import Finding

findings = typer.Typer(help="What drifted, and what was decided about it.", no_args_is_help=False)
Why = Annotated[str, typer.Option(help="the reason, for the audit log")]


@findings.callback(invoke_without_command=True)
def listed(
    context: typer.Context, settled: Annotated[bool, typer.Option("--all", help="also the settled ones")] = False, as_json: Json = False
) -> None:
    """List the findings that wait for somebody."""
    if context.invoked_subcommand is None:
        list_findings(settled, as_json)


@findings.command("list")
def list_findings(settled: Annotated[bool, typer.Option("--all", help="also the settled ones")] = False, as_json: Json = False) -> None:
    """List the findings that wait for somebody, newest campaign last."""
    with open_archive() as archive:
        found = [f for f in archive.findings() if settled or f.state in ("open", "acknowledged")]

    def show() -> None:
        for f in found:
            out.print(f"[bold]{f.finding_id}[/] [dim]{f.state} · {f.campaign_id}[/]", highlight=False)
            out.print(f"  {Finding.of(f.detail).text}", highlight=False, markup=False, soft_wrap=True)
        if not found:
            out.print("no findings" if settled else "no open findings")

    emit(as_json, found, show)


@findings.command()
def show(finding_id: Annotated[str, typer.Argument()], as_json: Json = False) -> None:
    """Show one finding as it was told, with its members and its history."""
    from plumbline.alerts import render

    with clear_errors(LookupError), open_archive() as archive:
        found = archive.finding(finding_id)
        history = archive.audit(finding_id)

    def tell() -> None:
        out.print(render(Finding.of(found.detail).with_state(found.state)).text, highlight=False, markup=False, soft_wrap=True)
        for entry in history:
            out.print(
                f"  {entry.at:%Y-%m-%d %H:%M} UTC  {entry.who}: {entry.what}  {entry.why}", style="dim", highlight=False, markup=False
            )

    emit(as_json, {"finding": found, "audit": history}, tell)


@findings.command()
def acknowledge(finding_id: Annotated[str, typer.Argument()], why: Why, as_json: Json = False) -> None:
    """Say that somebody is on it."""
    with clear_errors(LookupError, ValueError), open_archive() as archive:
        found = archive.set_finding_state(finding_id, "acknowledged", by=getpass.getuser(), why=why)
    emit(as_json, found, lambda: out.print(f"{finding_id} is acknowledged", highlight=False))


@findings.command()
def resolve(finding_id: Annotated[str, typer.Argument()], why: Why, as_json: Json = False) -> None:
    """Say that it is over: mended, or not what it seemed. The baseline stays."""
    with clear_errors(LookupError, ValueError), open_archive() as archive:
        found = archive.set_finding_state(finding_id, "resolved", by=getpass.getuser(), why=why)
    emit(as_json, found, lambda: out.print(f"{finding_id} is resolved; the baseline stays", highlight=False))


@findings.command()
def accept(finding_id: Annotated[str, typer.Argument()], why: Why, as_json: Json = False) -> None:
    """Accept the change: from now on the series is held against the finding's campaign."""
    with clear_errors(LookupError, ValueError), open_archive() as archive:
        found = archive.finding(finding_id)
        baseline = _accept(archive, found.series_key, found.campaign_id, finding_id, why)
    emit(
        as_json,
        {"finding_id": finding_id, "baseline": baseline},
        lambda: out.print(f"{finding_id} is accepted; baseline {baseline}", highlight=False),
    )


def _accept(archive: Archive, series_key: str, campaign_id: str | None, finding_id: str, why: str) -> str:
    if campaign_id is None:
        raise ValueError(f"{finding_id} names no campaign; there is nothing to accept as a baseline")
    by = getpass.getuser()
    archive.accept_baseline(series_key, campaign_id, by=by, why=why)
    archive.set_finding_state(finding_id, "accepted", by=by, why=why)
    return campaign_id
