"""`make demo-drift`: a real drift, found. A core is taken away from local-2core between two campaigns."""

from __future__ import annotations

import shutil
from datetime import datetime, timezone
from typing import Annotated

import psutil
import typer

from plumbline.alerts import render
from plumbline.analysis.conclusions import conclude
from plumbline.archive import open_archive
from plumbline.cli.campaign import CampaignProgress, load_declarations, stop_on_signal
from plumbline.cli.exit_status import FAILED, OK
from plumbline.cli.output import Json, emit, err, fail, marked, out
from plumbline.cli.verdict import show_verdict
from plumbline.declarations import Declarations, installation_paths
from plumbline.declarations.installation import override_home
from plumbline.embedded.campaign import CampaignError, CampaignOutcome, run_campaign
from plumbline.embedded.client import AirflowError, end_runs_since
from plumbline.embedded.server import AirflowServer, ServerError
from plumbline.launch.plan import PlanError, RunRequest, planned_trials
from plumbline.presentation.verdicts import campaign_verdict
from plumbline.results.finding import Finding
from plumbline.workflows.plan import DECISION_DAG
from plumbline.workflows.report import campaign_data

PROVIDER, WORKLOAD = "local-2core", "drift-demo-cpu"


def main(
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
    # Results of an earlier demonstration; what is staged never meets what was measured in earnest.
    shutil.rmtree(home, ignore_errors=True)
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


def _staged(declared: Declarations, repeats: int | None) -> CampaignOutcome:
    stamp = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S")
    before = RunRequest(f"demo-{stamp}-before", "drift demo: as declared", workloads=(WORKLOAD,), repeats=repeats)
    after = RunRequest(f"demo-{stamp}-after", "drift demo: the monthly rerun", workloads=(WORKLOAD,), repeats=repeats)
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


if __name__ == "__main__":
    typer.run(main)
