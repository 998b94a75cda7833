"""`plumbline accept`: measure every node of a provider, and say which ones to send back."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.text import Text

from plumbline.cli.campaign import measure_campaign
from plumbline.cli.declared import load_declared
from plumbline.cli.environment import adopt_connections
from plumbline.cli.exit_status import DRIFTED, NOT_SHOWN, OK
from plumbline.cli.output import (
    TONES,
    Json,
    announce_new_archive,
    clear_errors,
    emit,
    err,
    fail,
    fields_of,
    out,
    read_archive,
    recorded_later,
    require_stores,
    table,
)
from plumbline.judgement import Verdict
from plumbline.launch.failures import ApiRefused, TrialFailure
from plumbline.launch.plan import PlanError
from plumbline.launch.registry import launcher_for
from plumbline.presentation.acceptance_sheet import ORDER, method, node_row, summary, why_of
from plumbline.results import InvalidResult
from plumbline.words.acceptance import judge_delivery, judge_node, lacking_of, reasons_of
from plumbline.workflows.accept_nodes import NodeAcceptance, accept_here, pair_time, plan_acceptance, write_sheet
from plumbline.workflows.acceptances import delivery
from plumbline.workflows.budget import BudgetReached
from plumbline.workflows.plan import node_names
from plumbline.workflows.run import stopped_by_sigterm

_ALL_ROUNDS = 10_000
_SHOWN = ("driver", "pcie", "rows", "step_time")


def accept(
    provider: Annotated[str, typer.Argument(help="an enabled provider")],
    nodes: Annotated[str, typer.Option(help="all, or how many of the nodes, the first by name")] = "all",
    workload: Annotated[
        str | None, typer.Option(help="a training of one node; the shortest that uses most of its accelerators if left out")
    ] = None,
    campaign: Annotated[
        str | None, typer.Option(help="campaign id, named by its time if left out; one that was interrupted goes on under its id")
    ] = None,
    rounds: Annotated[
        str | None,
        typer.Option(help="measure the network between pairs of nodes: all, each node with each, or a number of rounds, at least 3"),
    ] = None,
    file: Annotated[Path | None, typer.Option(help="the signed sheet, a new file; default: acceptance-<campaign>.zip")] = None,
    last: Annotated[bool, typer.Option("--last", help="measure nothing: show the newest acceptance and those before it")] = False,
    as_json: Json = False,
) -> None:
    """Measure every node of PROVIDER, and write a signed sheet that says which ones to send back.

    Exit code 4 if there is one, 6 if none goes back and some were not measured."""
    if last:
        if (nodes, workload, campaign, rounds, file) != ("all", None, None, None, None):
            fail("--last measures nothing; expected no other option but --json with it")
        _show_last(provider, as_json)
    if nodes != "all" and not (nodes.isdigit() and int(nodes) > 0):
        fail(f'--nodes "{nodes}"; expected all, or a number of nodes such as 8')
    if rounds not in (None, "all") and not str(rounds).isdigit():
        fail(f'--rounds "{rounds}"; expected all, or a number of rounds such as 5')
    declared = load_declared()
    with clear_errors(PlanError, BudgetReached, TrialFailure, ApiRefused, LookupError, ValueError, InvalidResult, OSError):
        request = plan_acceptance(
            declared,
            provider,
            nodes=None if nodes == "all" else int(nodes),
            workload=workload,
            campaign=campaign,
            now=(now := datetime.now(timezone.utc)),
            rounds=None if rounds is None else _ALL_ROUNDS if rounds == "all" else int(rounds),
        )
        target = file or Path(f"acceptance-{request.campaign_id}.zip")
        if target.exists():
            fail(f"{target} exists; expected the name of a new file")
        announce_new_archive()
        require_stores()
        place = declared.providers[provider]
        if rounds is not None:
            adopt_connections([place])
            err.print(pair_time(declared, place, request, node_names(place, request, now) or ()))
        with recorded_later(request.campaign_id):
            if launcher_for(place).operator is None:
                with stopped_by_sigterm():
                    accept_here(place, request, lambda title: err.print(f"{title} ended", style="dim"))
            else:
                measure_campaign(declared, request, [provider])
        done = write_sheet(request.campaign_id, place, target, references=declared.references)
    emit(as_json, _data(done), lambda: _show(done))
    raise typer.Exit(_EXITS[done.fleet.verdict])


def _show_last(provider: str, as_json: bool) -> NoReturn:
    """Print the recorded acceptances, and exit with the code of the newest."""
    declared = load_declared()
    with clear_errors(InvalidResult), read_archive() as archive:
        found = delivery(archive, declared, provider)
    if found is None:
        fail(f"no acceptance of {provider} is recorded; `plumbline accept {provider}` measures its nodes")

    def show() -> None:
        shown = table("", "node", "", "why", "before")
        for line in found.nodes:
            if line.verdict != ORDER[-1]:
                why = "\n".join(filter(None, (*line.reasons, line.remedy, *line.lacking)))
                shown.add_row(
                    line.node, line.verdict, why, "\n".join(f"{campaign}: {verdict}" for campaign, verdict in line.before) or "first time"
                )
        if shown.rows:
            out.print(shown)
        out.print(found.summary, style=f"bold {TONES[found.judgement.tone]}", soft_wrap=True)
        for text in (*found.method, found.network):
            out.print(f"  {text}", style="dim")
        for each in found.history[1:]:
            out.print(f"{each.campaign_id}, {each.planned_at:%Y-%m-%d}: {each.summary}", soft_wrap=True)

    emit(as_json, found, show)
    raise typer.Exit(_EXITS[found.judgement.verdict])


_EXITS: dict[Verdict, int] = {"broken": DRIFTED, "not_shown": NOT_SHOWN, "met": OK}


def _data(done: NodeAcceptance) -> dict[str, Any]:
    nodes = [
        {
            "node": v.node,
            "reasons": reasons_of(v),
            "slow": v.slow,
            "lacking": lacking_of(v),
            "judgement": judge_node(v),
            "verdict": v.text,
        }
        for v in done.fleet.nodes
    ]
    fleet = {**fields_of(done.fleet, "tests", "limited"), "judgement": judge_delivery(done.fleet), "nodes": nodes}
    return {**fields_of(done, "campaign_id", "provider", "pack", "findings"), "fleet": fleet}


def _show(done: NodeAcceptance) -> None:
    fleet = done.fleet
    shown = table("", "node", "", *(name.replace("_", " ") for name in _SHOWN), "why")
    for verdict in sorted(fleet.nodes, key=lambda v: ORDER.index(v.text))[
        : max(len(fleet.returned) + len(fleet.unmeasured) + len(fleet.upgrading), 10)
    ]:
        row = node_row(verdict)
        mark = Text(row["verdict"], style=TONES[judge_node(verdict).tone])
        shown.add_row(verdict.node.name, mark, *(row.get(name, "") for name in _SHOWN), "\n".join(why_of(verdict)))
    out.print(shown)
    out.print(summary(fleet), style=f"bold {TONES[judge_delivery(fleet).tone]}")
    for line in method(fleet):
        out.print(f"  {line}", style="dim")
    for finding in done.findings:
        out.print(f"plumbline findings show {finding}")
    for problem in done.pack.problems:
        out.print(problem, style="red")
    out.print(f"{done.pack.file}: the signed sheet with every node's document; verify it with the key {done.pack.key}")
    if done.pack.next_key is not None:
        out.print(f"give the next key with it, which signed too: {done.pack.next_key}")
