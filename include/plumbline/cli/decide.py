"""`plumbline decide`: where a team's workloads should run, how sure that is, and what would change it."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Annotated

import typer

from plumbline.cli.decide_show import show_decided
from plumbline.cli.opening import open_archive
from plumbline.cli.output import Json, clear_errors, emit, fail, out
from plumbline.declarations import DeclarationError, load
from plumbline.declarations.purchases import Purchase
from plumbline.orchestration.ranking import Busy, rank_all
from plumbline.reports.decision_detail import detail
from plumbline.reports.standing import decide_from
from plumbline.scorecards.inputs import Kind


def decide(
    team: Annotated[str | None, typer.Option(help="one team; every team if left out")] = None,
    workload: Annotated[str | None, typer.Option(help="this workload alone; else what each team names, together")] = None,
    kind: Annotated[Kind | None, typer.Option(help="training or inference; both if left out")] = None,
    purchase: Annotated[Purchase, typer.Option(help="how instances are paid for")] = "on_demand",
    weights: Annotated[
        str | None, typer.Option(help="try other weights of one choice: METRIC=0.5,METRIC=0.2; the others are rescaled to fill up to 1")
    ] = None,
    simulated: Annotated[bool, typer.Option("--simulated", help="rank what was simulated, although something was measured")] = False,
    trials: Annotated[bool, typer.Option("--trials", help="list the trials behind each provider's numbers")] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="store every team's decision as of today too, and open a finding where a first choice changed")
    ] = False,
    why: Annotated[str, typer.Option(help="with --keep: the reason that is stored with it")] = "asked for on the command line",
    as_json: Json = False,
) -> None:
    """Rank providers for a team from the archive: each series' newest campaign, at the accepted prices of today. Nothing is measured."""
    on = datetime.now(timezone.utc).date()
    with clear_errors(DeclarationError, LookupError, ValueError, Busy), open_archive() as archive:
        declared = load()
        if keep and (weights or simulated or purchase != "on_demand"):
            raise ValueError("--keep stores the declared decisions; expected no --weights, --simulated or --purchase with it")
        found = decide_from(
            archive,
            declared,
            on,
            team=team,
            kind=kind,
            workload=workload,
            weights=_weights(weights),
            purchase=purchase,
            simulated=simulated,
        )
        kept = rank_all(archive, declared, on, why) if keep else []
        ran = [decided for decided in found if decided.decision.ranking]
        if not ran:
            there = sorted({part.series.workload for part in archive.newest_usable()})
            wanted = ", ".join(sorted({w for decided in found for w in decided.preference.workloads}))
            fail(f"nobody has usable results of {wanted}; measured: {', '.join(there) or '(nothing)'}. `plumbline trigger` measures one")
    idle = [decided for decided in found if not decided.decision.ranking]

    def show() -> None:
        for decided in ran:
            show_decided(decided, trials)
        for decided in idle:
            team_of = f"team {decided.decision.team}, {decided.decision.kind}"
            out.print(f"{team_of}: nobody ran {', '.join(decided.preference.workloads)}", style="dim", highlight=False, soft_wrap=True)
        for one in kept:
            out.print(f"{'stored' if one.new else 'unchanged'}: {one.text}", highlight=False, soft_wrap=True)

    data = [{"team": decided.decision.team, "kind": decided.decision.kind, **detail(decided)} for decided in found]
    emit(as_json, {"day": on, "decisions": data, "kept": kept}, show)


def _weights(text: str | None) -> dict[str, float] | None:
    """The weights that a person typed, by metric; ValueError if they are none."""
    if text is None:
        return None
    found = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        try:
            found[name.strip()] = float(value)
        except ValueError:
            raise ValueError(f'"{part.strip()}" is no weight; expected METRIC=NUMBER, such as time_to_first_token=0.5') from None
    return found
