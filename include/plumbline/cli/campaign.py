"""`plumbline run`, `up` and `airflow`: the local Airflow and campaigns in it, with live progress."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from types import FrameType, TracebackType
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from plumbline.analysis.conclusions import Conclusions, conclude
from plumbline.archive import open_archive
from plumbline.cli.environment import adopt_connections
from plumbline.cli.exit_status import BUSY, FAILED, INTERRUPTED, OK
from plumbline.cli.output import (
    Json,
    announce_new_archive,
    emit,
    err,
    fail,
    marked,
    out,
    planning_archive,
    recorded_later,
    require_stores,
    table,
)
from plumbline.cli.scorecard import show_unusable
from plumbline.cli.verdict import show_verdict
from plumbline.declarations import DeclarationError, Declarations, Trial, installation_paths, load
from plumbline.embedded.campaign import CampaignError, CampaignOutcome, CampaignState, TrialState, run_campaign
from plumbline.embedded.client import AirflowError
from plumbline.embedded.connections import airflow_environment, prepare
from plumbline.embedded.server import AirflowServer, PoolKeeper, ServerError
from plumbline.launch import stores
from plumbline.launch.failures import ApiRefused, TrialFailure
from plumbline.launch.local.gpu_provider import refresh_declaration
from plumbline.launch.plan import Placement, PlanError, RunRequest, on_each_node, planned_trials
from plumbline.metrics.formatting import format_quantity
from plumbline.presentation.verdicts import campaign_verdict
from plumbline.words.criteria import card_data
from plumbline.words.decision_record import decision_in_words
from plumbline.workflows import budget
from plumbline.workflows.plan import node_names
from plumbline.workflows.report import campaign_data


def airflow(words: typer.Context) -> None:
    try:
        prepare()
    except RuntimeError as error:
        fail(str(error), FAILED)
    # In place of this process: its signals, its terminal and its exit status are Airflow's.
    os.execve(sys.executable, [sys.executable, "-m", "airflow", *words.args], airflow_environment(os.environ))


_STAGES = {
    "starting": "Airflow is reading the DAGs",
    "measuring": "measuring",
    "reviewing": "comparing with the baseline",
    "reporting": "writing scorecards and report",
    "done": "done",
}
_STYLE = {"valid": "green", "degraded": "yellow", "invalid": "red", "failed": "red"}


class CampaignProgress:
    """Shows what it is told; use `with`, then call `status` and `state` as things happen."""

    def __init__(self) -> None:
        self._live = Live(console=err, refresh_per_second=4, transient=False) if err.is_terminal else None
        self._status = ""
        self._last: CampaignState | None = None
        self._said: dict[str, str] = {}

    def __enter__(self) -> CampaignProgress:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._live:
            self._live.stop()

    def status(self, text: str) -> None:
        """What is going on around the campaign, such as Airflow's start."""
        if text != self._status:
            self._status = text
            self._update() if self._live else err.print(text)

    def state(self, state: CampaignState) -> None:
        """A moment of the campaign."""
        before, self._last = self._last, state
        if state.broken and state.broken != (before.broken if before else ""):
            err.print(
                f"{state.broken}\nuntil this is repaired, Airflow goes on by the last valid declarations", style="yellow", markup=False
            )
        if self._live:
            self._status = _STAGES[state.stage]
            self._update()
            return
        if before is None or before.stage != state.stage:
            err.print(_STAGES[state.stage])
        for trial in state.trials:
            text = f"{trial.phase} {trial.status or ''}".strip()
            # A trial is over when its verdict is known: that is one line, not two.
            if self._said.get(trial.trial_id, "waiting") != text and not (trial.phase in ("measured", "failed") and trial.status is None):
                self._said[trial.trial_id] = text
                took = f" in {format_quantity(trial.seconds, 's')}" if trial.ended and trial.seconds is not None else ""
                left = f"; {state.ended} of {len(state.trials)} done{_format_remaining(state)}" if trial.ended else ""
                why = f" ({trial.why})" if trial.status == "invalid" else ""
                err.print(f"  {_name(trial)}: {trial.status or trial.phase}{why}{took}{left}")

    def _update(self) -> None:
        assert self._live is not None
        self._live.update(self._picture())

    def _picture(self) -> RenderableType:
        head = Text(self._status, style="bold")
        if self._last is None:
            return head
        head.append(f"   {self._last.ended} of {len(self._last.trials)} trials done{_format_remaining(self._last)}", style="dim")
        return Group(head, _table(self._last))


def _table(state: CampaignState) -> Table:
    shown = table("", "provider", "kind", "workload", "slot", "repeat", "", "time", "", right=("repeat", "time"))
    for trial in state.trials:
        bar: RenderableType = ProgressBar(total=1.0, completed=trial.fraction, width=24) if trial.phase == "running" else ""
        word = trial.status or {"not_run": "not run"}.get(trial.phase, trial.phase)
        why = f": {trial.why}" if word == "invalid" else ""
        what = f"{trial.doing} {trial.note}".strip() if trial.phase == "running" else f"{word}{why}"
        shown.add_row(
            trial.provider,
            trial.kind,
            trial.workload,
            trial.slot,
            str(trial.repeat),
            bar,
            "" if trial.seconds is None else format_quantity(trial.seconds, "s"),
            Text(what, style=_STYLE.get(word, "" if trial.phase == "running" else "dim"), overflow="ellipsis", no_wrap=True),
        )
    return shown


def _name(trial: TrialState) -> str:
    return f"{trial.provider} {trial.kind} {trial.workload} {trial.slot} r{trial.repeat}"


def _format_remaining(state: CampaignState) -> str:
    if state.seconds_left is None or state.stage != "measuring" or state.ended == len(state.trials):
        return ""
    return f", about {format_quantity(max(state.seconds_left, 1), 's')} left"


_TIDY_EVERY_S = 86400.0
Workloads = Annotated[list[str] | None, typer.Option("--workload", help="only this workload; may be repeated")]
Kinds = Annotated[list[str] | None, typer.Option("--kind", help="training or inference; may be repeated")]
Repeats = Annotated[int | None, typer.Option(min=1, max=50, help="repeats a slot, instead of the declared ones")]
Placed = Annotated[
    Placement,
    typer.Option(help="fresh_node: on nodes that the series was not measured on lately; each_node: one trial on every node; for clusters"),
]


def run_request(
    campaign_id: str, reason: str, workloads: list[str] | None, kinds: list[str] | None, repeats: int | None, placement: Placement
) -> RunRequest:
    """The request of a campaign by the options that `run` and `trigger` share."""
    return RunRequest(campaign_id, reason, None, tuple(workloads or ()) or None, tuple(kinds or ()) or None, repeats, placement)


def run(
    provider: Annotated[list[str] | None, typer.Option(help="only this provider; may be repeated")] = None,
    workload: Workloads = None,
    kind: Kinds = None,
    repeats: Repeats = None,
    placement: Placed = "any",
    campaign: Annotated[
        str | None, typer.Option(help="campaign id, named by its time if left out; trials of one that exists get a further attempt")
    ] = None,
    reason: Annotated[str, typer.Option(help="why, for the record")] = "on demand, from the command line",
    as_json: Json = False,
) -> None:
    declared = load_with_local_gpus()
    campaign_id = campaign or datetime.now(timezone.utc).strftime("run-%Y%m%d-%H%M%S")
    request = run_request(campaign_id, reason, workload, kind, repeats, placement)
    announce_new_archive()
    with recorded_later(request.campaign_id), stop_on_signal():
        if there := stores.home().trial_ids(request.campaign_id):
            err.print(
                f"campaign {request.campaign_id} has {len(there)} trials; each that is measured again gets a further attempt",
                style="yellow",
            )
        outcome = measure_campaign(declared, request, provider)
        with open_archive() as archive:
            data = campaign_data(archive, outcome.campaign_id)
    concluded = conclude(data)
    emit(as_json, {"outcome": outcome, **_facts(concluded)}, lambda: _show(concluded, outcome))
    for problem in outcome.problems:
        err.print(problem, style="red")
    raise typer.Exit(FAILED if not outcome.complete else OK if concluded.busy is None else BUSY)


def up() -> None:
    load_with_local_gpus()  # and a declaration that cannot be read would leave an Airflow without DAGs
    with stop_on_signal(), CampaignProgress() as watching:
        try:
            server = AirflowServer(installation_paths().airflow_home, mode="up").start(watching.status)
        except (ServerError, AirflowError, DeclarationError) as error:
            fail(str(error), FAILED)
        with server:
            out.print(f"Airflow   {server.address}\nuser      {server.username}\npassword  {server.password}")
            out.print(
                "Benchmark DAGs are paused: unpause one to let its monthly slots run, or trigger one by hand. Ctrl-C stops everything."
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
                        err.print(line, style="yellow")
                    with suppress(AirflowError):  # an API server that is being started again is asked by the next round
                        for name in pools.refresh(client):
                            out.print(f"made the pool {name}")


def load_declarations(config: Path | None = None) -> Declarations:
    """The installation's declarations, or those of a folder alone; exit code 2 with every problem."""
    try:
        return load(config)
    except DeclarationError as error:
        fail(f"{error}\nnothing was started")


def load_with_local_gpus() -> Declarations:
    """The declarations after a look at this machine's GPUs, which are a provider where there are any; says why if they cannot be."""
    if (why := refresh_declaration(load_declarations(installation_paths().config))) is not None:
        err.print(why, style="yellow")
    return load_declarations()


def measure_campaign(declared: Declarations, request: RunRequest, providers: list[str] | None) -> CampaignOutcome:
    """Start Airflow, run the campaign with live progress, stop Airflow again. Leaves with a sentence and an exit code if it cannot."""
    try:
        planned = planned_trials(declared, request, providers)
        if request.placement == "each_node":
            places, now = [declared.providers[name] for name in planned], datetime.now(timezone.utc)
            adopt_connections(places)
            planned = {p.name: on_each_node(planned[p.name], node_names(p, request, now), request.rounds) for p in places}
    except (PlanError, TrialFailure, ApiRefused) as error:
        fail(f"{error}\nnothing was started")
    planned = _apply_budgets(declared, planned)
    require_stores()
    try:
        with CampaignProgress() as watching:
            watching.status("starting Airflow")
            with AirflowServer(installation_paths().airflow_home).start(watching.status) as server:
                outcome = run_campaign(server, declared, request, planned, watching.state)
                watching.status("stopping Airflow")
        return outcome
    except (CampaignError, ServerError, AirflowError, DeclarationError) as error:
        fail(str(error), FAILED)


def _apply_budgets(declared: Declarations, planned: dict[str, list[Trial]]) -> dict[str, list[Trial]]:
    """What the providers' budgets carry of it, as their DAGs will plan it; what they do not is told, and an end if that is everything."""
    if all(declared.providers[name].budget is None for name in planned):
        return planned
    with planning_archive() as archive:
        cuts = budget.budget_cuts(archive, declared, planned, datetime.now(timezone.utc))
    for cut in cuts.values():
        if cut.left_out:
            err.print(f"{cut}. To go on: {budget.budget_remedy(cut.provider)}", style="yellow")
    affordable = {name: [t for t in trials if name not in cuts or t in cuts[name].kept] for name, trials in planned.items()}
    planned_now = {name: trials for name, trials in affordable.items() if trials}
    if not planned_now:
        fail("nothing was started")
    return planned_now


@contextmanager
def stop_on_signal() -> Iterator[None]:
    """Ctrl-C, SIGTERM and SIGHUP end the command in order: what it started is stopped before it leaves."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    except KeyboardInterrupt:
        err.print("stopped; what had been measured and recorded is kept", style="yellow")
        raise typer.Exit(INTERRUPTED) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _facts(concluded: Conclusions) -> dict[str, object]:
    data = concluded.campaign
    return {
        "busy": concluded.busy,
        "scorecards": [card_data(card) for card in concluded.cards],
        "decisions": [decision_in_words(decision) for decision in concluded.decisions],
        "drift": data.drift,
        "findings": data.findings,
    }


def _show(concluded: Conclusions, outcome: CampaignOutcome) -> None:
    data = concluded.campaign
    show_verdict(campaign_verdict(concluded), most=5)
    show_unusable(data)
    out.print()
    if outcome.report:
        out.print(marked("[bold]Report[/]    {}", outcome.report))
    out.print(marked("[bold]More[/]      plumbline scorecard {} -v", data.campaign_id))
