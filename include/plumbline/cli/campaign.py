"""`plumbline run` and `plumbline up`: campaigns through a local Airflow."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from plumbline.archive import open_archive
from plumbline.cli.live import Watching
from plumbline.cli.output import FAILED, INTERRUPTED, OK, Json, emit, err, fail, out
from plumbline.cli.scorecard import show_scorecards, show_unusable
from plumbline.declarations import DeclarationError, Declarations, Trial, load, places
from plumbline.launch.plan import PlanError
from plumbline.orchestration import budget
from plumbline.orchestration.airflow_client import AirflowError
from plumbline.orchestration.airflow_server import AirflowServer, ServerError
from plumbline.orchestration.asked import Asked, Placement
from plumbline.orchestration.campaign import CampaignError, Outcome, run_campaign
from plumbline.orchestration.campaign_plan import planned_trials
from plumbline.orchestration.pools import PoolKeeper
from plumbline.orchestration.reporting import campaign_data
from plumbline.reports import CampaignData, conclude
from plumbline.reports.summary import sentences

_TIDY_EVERY_S = 86400.0


def run(
    provider: Annotated[list[str] | None, typer.Option(help="only this provider; may be repeated")] = None,
    workload: Annotated[list[str] | None, typer.Option(help="only this workload; may be repeated")] = None,
    kind: Annotated[list[str] | None, typer.Option(help="training or inference; may be repeated")] = None,
    repeats: Annotated[int | None, typer.Option(min=1, max=50, help="repeats a slot, instead of the declared ones")] = None,
    placement: Annotated[
        Placement, typer.Option(help="fresh_node: on nodes that the series was not measured on lately; for providers on clusters")
    ] = "any",
    campaign: Annotated[str | None, typer.Option(help="campaign id; named by its time if left out")] = None,
    reason: Annotated[str, typer.Option(help="why, for the record")] = "on demand, from the command line",
    as_json: Json = False,
) -> None:
    """Measure a campaign on this machine through Airflow, compare it, and end at the scorecards and the report."""
    declared = with_own_gpu()
    asked = Asked(
        campaign_id=campaign or datetime.now(timezone.utc).strftime("run-%Y%m%d-%H%M%S"),
        reason=reason,
        workloads=tuple(workload) if workload else None,
        kinds=tuple(kind) if kind else None,
        repeats=repeats,
        placement=placement,
    )
    with stopping():
        outcome = measured(declared, asked, provider)
    with open_archive() as archive:
        data = campaign_data(archive, outcome.campaign_id)
    emit(as_json, {"outcome": outcome, **_facts(data)}, lambda: _show(data, outcome))
    for problem in outcome.problems:
        err.print(problem, style="red", highlight=False, markup=False, soft_wrap=True)
    raise typer.Exit(OK if outcome.complete else FAILED)


def up() -> None:
    """Keep Airflow running on this machine until Ctrl-C; prints its address and the login."""
    with_own_gpu()  # and a declaration that cannot be read would leave an Airflow without DAGs
    with stopping(), Watching() as watching:
        try:
            server = AirflowServer(places().airflow_home, mode="up").start(watching.status)
        except (ServerError, AirflowError, DeclarationError) as error:
            fail(str(error), FAILED)
        with server:
            out.print(f"Airflow   {server.address}\nuser      {server.username}\npassword  {server.password}", highlight=False)
            out.print(
                "Benchmark DAGs are paused: unpause one to let its monthly slots run, or trigger one by hand. Ctrl-C stops everything.",
                highlight=False,
            )
            stop, tidied, pools = threading.Event(), time.monotonic(), PoolKeeper()
            with server.client() as client:
                while not stop.wait(1.0):
                    try:
                        server.check()
                        if time.monotonic() - tidied > _TIDY_EVERY_S:
                            server.tidy_logs()
                            tidied = time.monotonic()
                    except ServerError as error:
                        fail(str(error), FAILED)
                    for line in server.news():
                        err.print(line, style="yellow", highlight=False, markup=False, soft_wrap=True)
                    with suppress(AirflowError):  # an API server that is being started again is asked by the next round
                        for name in pools.refresh(client):
                            out.print(f"made the pool {name}", highlight=False)


def declarations(config: Path | None = None) -> Declarations:
    """The installation's declarations, or those of a folder alone; exit code 2 with every problem."""
    try:
        return load(config)
    except DeclarationError as error:
        fail(f"{error}\nnothing was started")


def with_own_gpu() -> Declarations:
    """The declarations after a look at this machine's GPUs, which are a provider where there are any; says why if they cannot be."""
    from plumbline.launch.local_gpu import refresh

    if (why := refresh(declarations(places().config))) is not None:
        err.print(why, style="yellow", highlight=False, markup=False, soft_wrap=True)
    return declarations()


def measured(declared: Declarations, asked: Asked, providers: list[str] | None = None, home: Path | None = None) -> Outcome:
    """Start Airflow, run the campaign with live progress, stop Airflow again. Leaves with a sentence and an exit code if it cannot."""
    try:
        planned = planned_trials(declared, asked, providers)
    except PlanError as error:
        fail(f"{error}\nnothing was started")
    planned = _carried(declared, planned)
    try:
        with Watching() as watching:
            watching.status("starting Airflow")
            with AirflowServer(home or places().airflow_home).start(watching.status) as server:
                outcome = run_campaign(server, declared, asked, planned, watching.state)
                watching.status("stopping Airflow")
        return outcome
    except (CampaignError, ServerError, AirflowError, DeclarationError) as error:
        fail(str(error), FAILED)


def _carried(declared: Declarations, planned: dict[str, list[Trial]]) -> dict[str, list[Trial]]:
    """What the providers' budgets carry of it, as their DAGs will plan it; what they do not is told, and an end if that is everything."""
    if all(declared.providers[name].budget is None for name in planned):
        return planned
    with open_archive() as archive:
        cuts = budget.cuts(archive, declared, planned, datetime.now(timezone.utc))
    for cut in cuts.values():
        if cut.left_out:
            err.print(
                f"{cut}. To go on: {budget.how_to_go_on(cut.provider)}", style="yellow", highlight=False, markup=False, soft_wrap=True
            )
    kept = {name: [t for t in trials if name not in cuts or t in cuts[name].kept] for name, trials in planned.items()}
    found = {name: trials for name, trials in kept.items() if trials}
    if not found:
        fail("nothing was started")
    return found


@contextmanager
def stopping() -> Iterator[None]:
    """Ctrl-C, SIGTERM and SIGHUP end the command in order: what it started is stopped before it leaves."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    except KeyboardInterrupt:
        err.print("stopped; what had been measured and recorded is kept", style="yellow", highlight=False)
        raise typer.Exit(INTERRUPTED) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _facts(data: CampaignData) -> dict[str, object]:
    concluded = conclude(data)
    return {"scorecards": concluded.cards, "decisions": concluded.decisions, "drift": data.drift, "findings": data.findings}


def _show(data: CampaignData, outcome: Outcome) -> None:
    concluded = conclude(data)
    show_scorecards(data, concluded)
    out.print("In short", style="bold")
    for said in sentences(concluded):
        for line in said.lines:
            out.print(f"  {line}", highlight=False, markup=False)
    show_unusable(data)
    show_drift(data)
    if outcome.report:
        out.print(f"\nreport: {outcome.report}", soft_wrap=True, highlight=False)


def show_drift(data: CampaignData) -> None:
    """What moved since the accepted baseline, series by series, and the findings."""
    out.print("\nSince the accepted baseline", style="bold")
    for series in data.drift:
        name = f"{series.provider} · {series.kind} {series.workload}"
        counted = _counted(series.verdicts)
        if counted:
            out.print(f"  {name}: {counted} (against {', '.join(series.baseline)})", highlight=False, markup=False)
        else:
            out.print(f"  {name}: {series.note or 'nothing to compare'}", highlight=False, markup=False)
    for finding in data.findings:
        out.print(f"  {finding.headline}\n      {finding.explanation}", highlight=False, markup=False, soft_wrap=True)
    if not data.findings:
        out.print("  no finding", highlight=False)


def _counted(verdicts: Mapping[str, int]) -> str:
    """How many metrics got which verdict; a suspicion is a lack of data until more repeats confirm it."""
    suspected = verdicts.get("suspected", 0)
    parts = [f"{n} {word}" for word in ("regressed", "improved", "unchanged") if (n := verdicts.get(word, 0))]
    if open_ := verdicts.get("insufficient_data", 0) + suspected:
        parts.append(
            f"{open_} insufficient data" + (f", of which {suspected} look different: more repeats would tell" if suspected else "")
        )
    return ", ".join(parts)
