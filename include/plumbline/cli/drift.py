"""`plumbline compare` and `plumbline findings`: what drifted, how sure that is, and what people decided."""

from __future__ import annotations

import getpass
from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import typer

from plumbline.archive import Archive, open_archive
from plumbline.cli.output import DRIFTED, OK, Json, clear_errors, emit, out, table
from plumbline.declarations import DeclarationError, load
from plumbline.declarations.reading import reading
from plumbline.drift import Comparison, Finding
from plumbline.drift.wording import change, interval, percent, repeats_needed
from plumbline.orchestration.comparing import compare_named

findings = typer.Typer(help="What drifted, and what was decided about it.", no_args_is_help=False)
_STYLE = {"regressed": "bold red", "improved": "green", "suspected": "yellow", "unchanged": "green", "insufficient_data": "dim"}
Why = Annotated[str, typer.Option(help="the reason, for the audit log")]


def compare(
    old: Annotated[str, typer.Argument(help="campaign or trial id")],
    new: Annotated[str, typer.Argument(help="campaign or trial id")],
    everything: Annotated[bool, typer.Option("--all", help="also the metrics that have no threshold")] = False,
    as_json: Json = False,
) -> None:
    """Compare two campaigns, or two trials: effect, interval and verdict by metric. Exit code 4 if something drifted."""
    with clear_errors(LookupError, DeclarationError, ValueError), open_archive() as archive:
        found = compare_named(archive, load(), old, new)
    emit(as_json, {"verdict": overall(found), "comparisons": found}, lambda: _show(found, everything))
    raise typer.Exit(DRIFTED if any(c.moved for c in found) else OK)


def overall(found: Sequence[Comparison]) -> str:
    """The gravest verdict of all series; `not comparable` if none could be judged."""
    verdicts = [c.verdict for c in found if c.verdict is not None]
    order = ("regressed", "improved", "suspected", "insufficient_data", "unchanged")
    return next((v for v in order if v in verdicts), "not comparable")


def _show(found: Sequence[Comparison], everything: bool) -> None:
    for comparison in found:
        against = ", ".join(comparison.baseline_campaigns)
        out.print(f"[bold]{comparison.series_key}[/]\n{comparison.candidate_campaign} against {against}", highlight=False)
        for problem in comparison.problems:
            out.print(f"  not comparable: {problem}", style="yellow", highlight=False, markup=False)
        rows = [r for r in comparison.rows if everything or r.verdict is not None]
        if rows:
            columns = ("metric", "statistic", "phase", "before", "after", "change", "interval", "sees from", "verdict")
            shown = table("", *columns, right=("before", "after", "change", "sees from"))
            for r in rows:
                verdict = f"[{_STYLE[r.verdict]}]{r.verdict.replace('_', ' ')}[/]" if r.verdict else ""
                more = repeats_needed(r)
                shown.add_row(
                    r.metric,
                    r.statistic,
                    r.phase,
                    reading(r.baseline, r.unit),
                    reading(r.candidate, r.unit),
                    change(r),
                    interval(r, comparison.confidence) if r.ci_low is not None else "",
                    "" if r.mde is None else "over 100 %" if r.mde > 1 else percent(r.mde),
                    f"{verdict} {f'({more})' if more else ''}",
                )
            out.print(shown)
        for c in comparison.environment_changes:
            style = None if c.matters else "dim"
            out.print(f"  environment: {c.text}", style=style, highlight=False, markup=False)
        if not comparison.environment_changes and not comparison.problems:
            out.print("  environment: no change", style="dim", highlight=False)
    counted = Counter(r.verdict.replace("_", " ") for c in found for r in c.rows if r.verdict)
    summary = ", ".join(f"{n} {verdict}" for verdict, n in counted.most_common())
    out.print(f"[bold]{overall(found).replace('_', ' ')}[/]" + (f"  ({summary})" if summary else ""), highlight=False)


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
