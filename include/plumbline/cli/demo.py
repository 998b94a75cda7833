"""`plumbline demo-drift`, `demo-watch`, `demo-own-model` and `rehearse`: staged drifts, an own model, simulated months."""

from __future__ import annotations

import os
import shutil
from dataclasses import astuple
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Annotated

import psutil
import typer

from plumbline.alerts import render
from plumbline.alerts.slack.connection import CONNECTION
from plumbline.analysis.conclusions import conclude
from plumbline.archive import open_archive
from plumbline.cli.campaign import CampaignProgress, load_declarations, stop_on_signal
from plumbline.cli.exit_status import FAILED, OK
from plumbline.cli.output import Json, clear_errors, emit, err, fail, marked, out, table
from plumbline.cli.verdict import show_verdict
from plumbline.declarations import DeclarationError, Declarations, installation_paths, load
from plumbline.declarations.installation import override_home
from plumbline.embedded.campaign import CampaignError, Outcome, run_campaign
from plumbline.embedded.client import AirflowError, end_runs_since
from plumbline.embedded.connections import provide_connections
from plumbline.embedded.demo import Demo, DemoError, attributed, measure_quiet_months, stage
from plumbline.embedded.server import AirflowServer, ServerError
from plumbline.harness.engine_python import VARIABLE as ENGINE_PYTHON
from plumbline.launch.plan import PlanError
from plumbline.presentation.verdicts import campaign_verdict
from plumbline.results.finding import Finding
from plumbline.workflows.plan import DECISION_DAG, RunParameters, planned_trials
from plumbline.workflows.rehearse import RehearsedCampaign, months_of, simulated
from plumbline.workflows.rehearse import rehearse_months as rehearsed
from plumbline.workflows.report import campaign_data

PROVIDER, WORKLOAD = "local-2core", "drift-demo-cpu"


def demo_drift(
    repeats: Annotated[
        int | None, typer.Option(min=4, max=20, help="repeats before and after; fewer than 4 can suspect but never show")
    ] = None,
    as_json: Json = False,
) -> None:
    """Take a core away from local-2core between two campaigns, and show how the review finds it."""
    declared = load_declarations()
    if len(psutil.Process().cpu_affinity()) < 2:
        fail("the demo takes a core away; expected at least two usable cores on this machine")
    home = installation_paths().home / "demo"
    _clear_results(home)
    with override_home(home), stop_on_signal():
        after = _staged(declared, repeats)
        with open_archive() as archive:
            data = campaign_data(archive, after.campaign_id)
            findings = [Finding.of(f.detail).with_state(f.state) for f in archive.findings(campaign_id=after.campaign_id)]
    kinds = {f.kind for f in findings}
    attributed = any(f.kind == "performance" and "cpu.usable" in f.attributed_to for f in findings)
    shown = after.complete and {"environment", "performance"} <= kinds and attributed

    def tell() -> None:
        show_verdict(campaign_verdict(conclude(data)))
        for finding in findings:
            out.print(marked("\n[bold]The alert[/] ({})", finding.kind))
            out.print(render(finding).text)
        out.print(f"\nThe demo has an archive of its own: PLUMBLINE_HOME={home} plumbline findings")
        if after.report:
            out.print(f"report: {after.report}")

    emit(as_json, {"shown": shown, "findings": findings, "outcome": after}, tell)
    for problem in after.problems:
        err.print(problem, style="red")
    if not shown:
        err.print("the drift was not shown as it should have been; a busy machine can hide it: try again", style="red")
    raise typer.Exit(OK if shown else FAILED)


def _staged(declared: Declarations, repeats: int | None) -> Outcome:
    stamp = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S")
    before = RunParameters(f"demo-{stamp}-before", "drift demo: as declared", workloads=(WORKLOAD,), repeats=repeats)
    after = RunParameters(f"demo-{stamp}-after", "drift demo: the monthly rerun", workloads=(WORKLOAD,), repeats=repeats)
    try:
        plans = [planned_trials(declared, request, [PROVIDER]) for request in (before, after)]
        # The same Airflow home as `make run` has: what is staged apart are the results, not the scheduler.
        with CampaignProgress() as watching, AirflowServer(installation_paths().airflow_home).start(watching.status) as server:
            run_campaign(server, declared, before, plans[0], watching.state)
            watching.status("taking core 1 away from everything that runs here")
            _confine(server, core=declared.providers[PROVIDER].launcher.cpus[0])  # type: ignore[union-attr]
            outcome = run_campaign(server, declared, after, plans[1], watching.state)
            with server.client() as client:
                # The next Airflow of this home has another archive, in which no answer could be carried out.
                end_runs_since(client, DECISION_DAG, server.started_at, "asked about what the demo had staged")
            watching.status("stopping Airflow")
        return outcome
    except PlanError as error:
        fail(f"{error}\nnothing was started")
    except (CampaignError, ServerError, AirflowError) as error:
        fail(str(error), FAILED)


def _confine(server: AirflowServer, core: int) -> None:
    """Keep Airflow, and so every trial that it starts, on one core: as if the instance had one less than it is sold with."""
    for process in server.processes():
        try:
            process.cpu_affinity([core])
        except psutil.NoSuchProcess:
            continue


def demo_watch(
    alert: Annotated[
        bool, typer.Option("--alert", help="send the findings where real ones go; each message says that it is simulated")
    ] = False,
    as_json: Json = False,
) -> None:
    """Change a simulated provider's driver, and show how it is detected, measured again and explained."""
    # An Airflow and an archive of its own, new each time: what is staged here must never meet what was measured in earnest.
    home = installation_paths().home / "demo-watch"
    if alert:
        with clear_errors(RuntimeError):
            provide_connections([CONNECTION])
    shutil.rmtree(home, ignore_errors=True)
    try:
        with override_home(home, stage(home)), stop_on_signal(), CampaignProgress() as watching:
            watching.status("SIMULATED: measuring the months before, in which nothing changes")
            months = measure_quiet_months(datetime.now(timezone.utc))
            watching.status("starting Airflow")
            with AirflowServer(installation_paths().airflow_home).start(watching.status) as server, server.client() as client:
                shown = Demo(server, client, installation_paths().config).show(watching.status)
                watching.status("stopping Airflow")
    except (DemoError, ServerError, AirflowError) as error:
        fail(str(error), FAILED)

    def tell() -> None:
        out.print(marked("[bold]SIMULATED[/], quiet in {}. Then:", ", ".join(months)))
        out.print(f"  {shown.watch.dag_id} found: {shown.reason}")
        out.print(f"  {shown.benchmark.dag_id} started by itself ({shown.benchmark.run_type}), campaign {shown.campaign_id}")
        for finding in shown.findings:
            out.print(marked("\n[bold]The alert[/] ({})", finding.kind))
            out.print(render(finding).text)
        out.print(f"\nThe demo has an archive of its own: PLUMBLINE_HOME={home} plumbline findings list")

    emit(as_json, {"shown": attributed(shown), "watched": shown}, tell)
    if not attributed(shown):
        err.print("the change was not found and explained as it should have been", style="red")
    raise typer.Exit(OK if attributed(shown) else FAILED)


def demo_own_model(as_json: Json = False) -> None:
    """Train a small model, serve it with vLLM in bf16 and int8 on both local providers, and compare speed, cost and correct answers."""
    if not os.environ.get(ENGINE_PYTHON):
        fail(f"{ENGINE_PYTHON} is not set; expected the Python of an environment with vLLM, as `make demo-own-model` sets it")
    # Torch and transformers take seconds to import, which no other command needs.
    from plumbline.embedded import demo_model

    home = installation_paths().home / "demo-own-model"
    with stop_on_signal(), CampaignProgress() as watching:
        checkpoints = demo_model.make(home / "models", watching.status)
        _clear_results(home)
        with override_home(home, demo_model.stage(home, *checkpoints, demo_model.questions())):
            request = RunParameters(f"own-model-{datetime.now(timezone.utc):%Y%m%d-%H%M%S}", "demonstration of an own model")
            try:
                declared = load()
                planned = planned_trials(declared, request, demo_model.PROVIDERS)
                with AirflowServer(installation_paths().airflow_home).start(watching.status) as server:
                    outcome = run_campaign(server, declared, request, planned, watching.state)
                    watching.status("stopping Airflow")
            except (CampaignError, ServerError, AirflowError, DeclarationError, PlanError) as error:
                fail(str(error), FAILED)
            with open_archive() as archive:
                data = campaign_data(archive, request.campaign_id)
    rows = demo_model.rows_of(data.documents)

    def tell() -> None:
        shown = table("", "provider", "precision", "", "first token", "per token", "tokens of bf16", "right answers")
        for row in rows:
            shown.add_row(*astuple(row))
        out.print(shown)
        show_verdict(campaign_verdict(conclude(data)))
        out.print(
            f"\nThe demo has an archive of its own: PLUMBLINE_HOME={home} PLUMBLINE_CONFIG={home / 'config'} plumbline cost precision"
        )
        if outcome.report:
            out.print(f"report: {outcome.report}")

    emit(as_json, {"rows": rows, "outcome": outcome}, tell)
    for problem in outcome.problems:
        err.print(problem, style="red")
    raise typer.Exit(OK if outcome.complete and all(row.status in ("valid", "degraded") for row in rows) else FAILED)


def _clear_results(home: Path) -> None:
    """Remove what an earlier demonstration measured: what is staged never meets what was measured in earnest."""
    for old in (home / "results", home / "reports", home / "data-docs"):
        shutil.rmtree(old, ignore_errors=True)
    for file in home.glob("archive.db*"):
        file.unlink()


def rehearse(
    provider: Annotated[list[str] | None, typer.Option(help="simulated providers, also disabled ones; every one if left out")] = None,
    campaigns: Annotated[str | None, typer.Option(help="months, such as 2026-01..2026-10; the twelve that are over if left out")] = None,
    workload: Annotated[list[str] | None, typer.Option(help="workloads; those that run monthly if left out")] = None,
    repeats: Annotated[int | None, typer.Option(min=1, max=50, help="trials a slot instead of the declared number")] = None,
    home: Annotated[
        Path | None, typer.Option(help="where its results and its archive go, apart from measured ones; rehearsal/ in the installation's")
    ] = None,
    alert: Annotated[
        bool, typer.Option("--alert", help="send the findings where real ones go; each message says that it is simulated")
    ] = False,
    as_json: Json = False,
) -> None:
    """Simulate campaigns of simulated providers; check, record and review them like measured ones."""
    now = datetime.now(timezone.utc)
    apart = (home or installation_paths().home / "rehearsal").resolve()
    if apart.exists() and not apart.is_dir():
        fail(f"--home: {apart} is a file; expected a folder")
    with clear_errors(DeclarationError, PlanError, RuntimeError):
        declared = simulated(load(), provider or ())
        months = months_of(campaigns or _last_year(now), now)
        if alert:
            provide_connections([CONNECTION])
        shown = table(
            "SIMULATED: no real machine was measured", "campaign", "provider", "trials", "ended", "open findings", right=("trials",)
        )

        def tell(one: RehearsedCampaign) -> None:
            ended = ", ".join(f"{count} {status}" for status, count in sorted(one.statuses.items())) or "silent"
            shown.add_row(one.campaign_id, one.provider, str(one.trials), ended, "\n".join(one.findings) or "none")

        with override_home(apart):
            done = rehearsed(declared, months, tell, workloads=workload, repeats=repeats, alerting=alert)

    def show() -> None:
        out.print(shown)
        out.print(f"A rehearsal has an archive of its own: PLUMBLINE_HOME={apart} plumbline findings list --all")

    emit(as_json, done, show)


def _last_year(now: datetime) -> str:
    """The twelve months whose first day is over."""
    last = (now - timedelta(days=1)).astimezone(timezone.utc)
    number = last.year * 12 + last.month - 12
    return f"{number // 12}-{number % 12 + 1:02d}..{last:%Y-%m}"
