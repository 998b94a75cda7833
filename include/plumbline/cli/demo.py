"""`plumbline demo-drift`: a core is taken away behind the provider's back; see it found, explained and alerted."""

from __future__ import annotations

import shutil
from datetime import datetime, timezone
from typing import Annotated

import psutil
import typer

from plumbline.alerts import render
from plumbline.archive import open_archive
from plumbline.cli.campaign import declarations, show_drift, stopping
from plumbline.cli.live import Watching
from plumbline.cli.output import FAILED, OK, Json, emit, err, fail, marked, out
from plumbline.declarations import Declarations, places
from plumbline.declarations.places import moved_home
from plumbline.drift import Finding
from plumbline.launch.plan import PlanError
from plumbline.orchestration.airflow_client import AirflowError
from plumbline.orchestration.airflow_server import AirflowServer, ServerError
from plumbline.orchestration.asked import Asked
from plumbline.orchestration.campaign import CampaignError, Outcome, run_campaign
from plumbline.orchestration.campaign_plan import planned_trials
from plumbline.orchestration.deciding import DECISION
from plumbline.orchestration.reporting import campaign_data
from plumbline.orchestration.unpaused import end_runs_since

PROVIDER, WORKLOAD = "local-2core", "drift-demo-cpu"


def demo_drift(
    repeats: Annotated[
        int | None, typer.Option(min=4, max=20, help="repeats before and after; fewer than 4 can suspect but never show")
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure local-2core, take one of its cores away without telling anybody, measure again, and see what the review makes of it."""
    declared = declarations()
    if len(psutil.Process().cpu_affinity()) < 2:
        fail("the demo takes a core away; expected at least two usable cores on this machine")
    # An archive of its own, new each time: what is staged here must never meet what was measured in earnest.
    home = places().home / "demo"
    for old in (home / "results", home / "reports", home / "data-docs"):
        shutil.rmtree(old, ignore_errors=True)
    for file in home.glob("archive.db*"):
        file.unlink()
    with moved_home(home), stopping():
        after = _staged(declared, repeats)
        with open_archive() as archive:
            data = campaign_data(archive, after.campaign_id)
            found = [Finding.of(f.detail).with_state(f.state) for f in archive.findings(campaign_id=after.campaign_id)]
    kinds = {f.kind for f in found}
    attributed = any(f.kind == "performance" and "cpu.usable" in f.attributed_to for f in found)
    shown = after.complete and {"environment", "performance"} <= kinds and attributed

    def tell() -> None:
        show_drift(data)
        for finding in found:
            out.print(marked("\n[bold]The alert[/] ({})", finding.kind))
            out.print(render(finding).text, highlight=False, markup=False, soft_wrap=True)
        out.print(f"\nThe demo has an archive of its own: PLUMBLINE_HOME={home} plumbline findings", soft_wrap=True, highlight=False)
        if after.report:
            out.print(f"report: {after.report}", soft_wrap=True, highlight=False)

    emit(as_json, {"shown": shown, "findings": found, "outcome": after}, tell)
    for problem in after.problems:
        err.print(problem, style="red", highlight=False, markup=False, soft_wrap=True)
    if not shown:
        err.print("the drift was not shown as it should have been; a busy machine can hide it: try again", style="red", highlight=False)
    raise typer.Exit(OK if shown else FAILED)


def _staged(declared: Declarations, repeats: int | None) -> Outcome:
    stamp = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S")
    before = Asked(f"demo-{stamp}-before", "drift demo: as declared", workloads=(WORKLOAD,), repeats=repeats)
    after = Asked(f"demo-{stamp}-after", "drift demo: the monthly rerun", workloads=(WORKLOAD,), repeats=repeats)
    try:
        plans = [planned_trials(declared, asked, [PROVIDER]) for asked in (before, after)]
        # The same Airflow home as `make run` has: what is staged apart are the results, not the scheduler.
        with Watching() as watching, AirflowServer(places().airflow_home).start(watching.status) as server:
            run_campaign(server, declared, before, plans[0], watching.state)
            watching.status("taking core 1 away from everything that runs here")
            _confine(server, core=declared.providers[PROVIDER].launcher.cpus[0])  # type: ignore[union-attr]
            outcome = run_campaign(server, declared, after, plans[1], watching.state)
            with server.client() as client:
                # The next Airflow of this home has another archive, in which no answer could be carried out.
                end_runs_since(client, DECISION, server.started_at, "asked about what the demo had staged")
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
