"""`plumbline demo-watch`: a provider's driver changes overnight; see it noticed, measured, explained and alerted, by nobody's hand."""

from __future__ import annotations

import shutil
from datetime import datetime, timezone
from typing import Annotated

import typer

from plumbline.alerts import render
from plumbline.alerts.slack import CONNECTION
from plumbline.cli.campaign import stopping
from plumbline.cli.live import Watching
from plumbline.cli.output import FAILED, OK, Json, clear_errors, emit, err, fail, marked, out
from plumbline.declarations import places
from plumbline.declarations.places import moved_home
from plumbline.orchestration.airflow_client import AirflowError
from plumbline.orchestration.airflow_server import AirflowServer, ServerError
from plumbline.orchestration.connections import adopt
from plumbline.orchestration.watch_demo import Demo, DemoError, attributed, measure_quiet_months, stage


def demo_watch(
    alert: Annotated[
        bool, typer.Option("--alert", help="send the findings where real ones go; each message says that it is simulated")
    ] = False,
    as_json: Json = False,
) -> None:
    """Change a simulated provider's driver and see the watch find it, its benchmark start by itself, and the slowdown explained by it."""
    # An Airflow and an archive of its own, new each time: what is staged here must never meet what was measured in earnest.
    home = places().home / "demo-watch"
    if alert:
        with clear_errors(RuntimeError):
            adopt([CONNECTION])
    shutil.rmtree(home, ignore_errors=True)
    try:
        with moved_home(home, stage(home)), stopping(), Watching() as watching:
            watching.status("SIMULATED: measuring the months before, in which nothing changes")
            months = measure_quiet_months(datetime.now(timezone.utc))
            watching.status("starting Airflow")
            with AirflowServer(places().airflow_home).start(watching.status) as server, server.client() as client:
                shown = Demo(server, client, places().config).show(watching.status)
                watching.status("stopping Airflow")
    except (DemoError, ServerError, AirflowError) as error:
        fail(str(error), FAILED)

    def tell() -> None:
        out.print(marked("[bold]SIMULATED[/], quiet in {}. Then:", ", ".join(months)), highlight=False)
        out.print(f"  {shown.watch.dag_id} found: {shown.reason}", highlight=False, markup=False, soft_wrap=True)
        out.print(
            f"  {shown.benchmark.dag_id} started by itself ({shown.benchmark.run_type}), campaign {shown.campaign_id}", highlight=False
        )
        for finding in shown.findings:
            out.print(marked("\n[bold]The alert[/] ({})", finding.kind))
            out.print(render(finding).text, highlight=False, markup=False, soft_wrap=True)
        out.print(f"\nThe demo has an archive of its own: PLUMBLINE_HOME={home} plumbline findings list", soft_wrap=True, highlight=False)

    emit(as_json, {"shown": attributed(shown), "watched": shown}, tell)
    if not attributed(shown):
        err.print("the change was not found and explained as it should have been", style="red", highlight=False)
    raise typer.Exit(OK if attributed(shown) else FAILED)
