"""`make demo-watch`: a simulated provider's driver changes between two campaigns; the check finds it, and the rest happens by itself."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
import yaml

from plumbline.alerts import render
from plumbline.alerts.slack.connection import CONNECTION
from plumbline.archive import open_archive
from plumbline.cli.campaign import CampaignProgress, stop_on_signal
from plumbline.cli.exit_status import FAILED, OK
from plumbline.cli.output import Json, clear_errors, emit, err, fail, marked, out
from plumbline.declarations import load
from plumbline.declarations.installation import example_declarations, installation_paths, override_home
from plumbline.embedded.client import AirflowClient, AirflowError, DagRun, end_runs_since, pause_again, unpause
from plumbline.embedded.connections import provide_connections
from plumbline.embedded.server import AirflowServer, ServerError, Status
from plumbline.results.finding import Finding
from plumbline.workflows.pending_changes import AUTHOR
from plumbline.workflows.plan import DECISION_DAG
from plumbline.workflows.rehearse import months_of, rehearse_months, simulated

PROVIDER, WORKLOAD = "simulated-h100", "pretrain-1b-gpu"
REPEATS = 4
"""Repeats of a campaign; fewer can only suspect a change."""
BEFORE = {"driver.version": "550.90.07", "cuda.version": "12.4"}
AFTER = {"driver.version": "570.86.15", "cuda.version": "12.8"}
WORSE, PROBE = "8%", "matmul_tflops"
_QUIET_MONTHS = 3
_REVIEW = "drift_review"
_LIMIT_S, _LOOK_EVERY_S = 240.0, 0.5
Found = TypeVar("Found")


class DemoError(RuntimeError):
    """An expected event did not happen; the message names it and the state of all tasks."""


@dataclass(frozen=True)
class DemoResult:
    """`quiet`: the check before the change; `watch`: the one after. `benchmark`: the run that the change started, of `campaign_id`, for `reason`.
    `findings`: the provider's, at the end."""

    quiet: DagRun
    watch: DagRun
    benchmark: DagRun
    review: DagRun
    campaign_id: str
    reason: str
    findings: tuple[Finding, ...]


def attributed(demo: DemoResult) -> bool:
    """Whether all runs succeeded and the slowdown is attributed to the driver."""
    went_well = all(run.state == "success" for run in (demo.quiet, demo.watch, demo.benchmark, demo.review))
    return went_well and any(f.kind == "performance" and "driver.version" in f.attributed_to for f in demo.findings)


def stage(home: Path) -> Path:
    """A new configuration below `home` with one monitored provider and one monthly workload; its folder."""
    folder, shipped = home / "config", example_declarations()
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "providers").mkdir(parents=True)
    (folder / "workloads" / "training").mkdir(parents=True)
    shutil.copy(shipped / "thresholds.yaml", folder)
    provider = yaml.safe_load((shipped / "providers" / f"{PROVIDER}.yaml").read_text())
    # No failures and no drift yet: the demonstration is about the environment check.
    launcher = {**provider["launcher"], "environment": {**provider["launcher"]["environment"], **BEFORE}, "failures": {}, "drift": []}
    _write_declaration(folder, f"providers/{PROVIDER}", {**provider, "enabled": True, "launcher": launcher})
    workload = yaml.safe_load((shipped / "workloads" / "training" / f"{WORKLOAD}.yaml").read_text())
    repeats = {"per_slot": REPEATS, "slots": ["02:00"]}
    _write_declaration(folder, f"workloads/training/{WORKLOAD}", {**workload, "on_demand_only": False, "repeats": repeats})
    # One instance all month long, so that messages name a cost.
    _write_declaration(folder, "alerts", {"volumes": [{"provider": PROVIDER, "time_per_month": "730h"}]})
    return folder


def change_driver(folder: Path, at: datetime, facts: dict[str, str] | None = None) -> None:
    """From that day on the provider has another driver and is slower."""
    provider = yaml.safe_load((folder / "providers" / f"{PROVIDER}.yaml").read_text())
    event = {"kind": "driver_change", "since": f"{at:%Y-%m-%d}", "facts": facts or AFTER, "worse": WORSE, "probes": [PROBE]}
    provider["launcher"]["drift"] = [event]
    _write_declaration(folder, f"providers/{PROVIDER}", provider)


def measure_quiet_months(now: datetime) -> list[str]:
    """Record the campaigns of the months before; their ids."""
    last = now.year * 12 + now.month - 2
    months = [f"{number // 12}-{number % 12 + 1:02d}" for number in range(last - _QUIET_MONTHS + 1, last + 1)]
    declared = simulated(load(), [PROVIDER])
    rehearse_months(declared, months_of(f"{months[0]}..{months[-1]}", now), lambda _: None)
    return months


@dataclass(frozen=True)
class Demo:
    """A running Airflow whose declarations are `config`."""

    server: AirflowServer
    client: AirflowClient
    config: Path

    def show(self, on_status: Status = lambda _: None) -> DemoResult:
        """Check, change the driver, check again, and wait for the rerun and its review. DemoError if they do not come."""
        benchmark = load().providers[PROVIDER].dag_id
        on_status("Airflow is reading the DAGs")
        self.until(lambda: {AUTHOR, benchmark, _REVIEW, DECISION_DAG} <= set(self.client.dags()), "DAGs")
        unpause(self.server.home, self.client, [AUTHOR, benchmark])
        try:
            on_status("checking the provider before the change")
            quiet = self.look()
            on_status(f"changing its driver: {', '.join(f'{name} {BEFORE[name]} → {AFTER[name]}' for name in AFTER)}")
            change_driver(self.config, datetime.now(timezone.utc))
            on_status("checking again; everything after this starts automatically")
            watch = self.look()
            run = self.until(lambda: self.rerun(benchmark), "benchmark run after the change")
            on_status(f"{benchmark} runs: {self._events(run)[0].get('reason')}")
            run = self._wait_for_end(run)
            campaign_id, review = self.until(lambda: self._reviewed(run), "review of its results")
            return DemoResult(quiet, watch, run, review, campaign_id, str(self._events(run)[0]["reason"]), _findings())
        finally:
            pause_again(self.server.home, self.client)
            # An unanswered question would wait in the next Airflow of this home.
            end_runs_since(self.client, DECISION_DAG, self.server.started_at, "ended: a question of the demonstration")

    def look(self) -> DagRun:
        """One run of the provider check, to its end."""
        return self._wait_for_end(self.client.trigger(AUTHOR, {}))

    def rerun(self, benchmark: str) -> DagRun | None:
        """The newest benchmark run that an event started."""
        runs = [r for r in self.client.runs(benchmark, self.server.started_at) if r.run_type == "asset_triggered"]
        return runs[-1] if runs else None

    def _reviewed(self, benchmark: DagRun) -> tuple[str, DagRun] | None:
        """The run's campaign, and its review once that has ended."""
        for run in self.client.runs(_REVIEW, self.server.started_at):
            for event in self._events(run):
                if run.ended and event.get("provider") == PROVIDER and benchmark.ended:
                    return str(event["campaign_id"]), run
        return None

    def _events(self, run: DagRun) -> list[Any]:
        return list(self.client.upstream_events(run.dag_id, run.run_id))

    def _wait_for_end(self, run: DagRun) -> DagRun:
        def over() -> DagRun | None:
            now = self.client.run(run.dag_id, run.run_id)
            return now if now.ended else None

        return self.until(over, f"end of {run.dag_id} {run.run_id}")

    def until(self, poll: Callable[[], Found | None], what: str) -> Found:
        """Poll until the first answer."""
        deadline = time.monotonic() + _LIMIT_S
        last_error = ""
        while time.monotonic() < deadline:
            self.server.check()
            try:
                if answer := poll():
                    return answer
            except AirflowError as error:
                last_error = str(error)  # the API server is slow on a busy machine
            time.sleep(_LOOK_EVERY_S)
        states = [
            f"{t.task_id} {t.name or ''} {t.state}"
            for dag_id in self.client.dags()
            for r in self.client.runs(dag_id, self.server.started_at)
            for t in self.client.tasks(r.dag_id, r.run_id)
        ]
        errors = [f"{file}: {text.strip()}" for file, text in self.client.import_errors().items()]
        raise DemoError(
            "\n".join([f"no {what} after {_LIMIT_S:g} s; Airflow's logs are in {self.server.home / 'logs'}", last_error, *errors, *states])
        )


def _findings() -> tuple[Finding, ...]:
    with open_archive() as archive:
        return tuple(Finding.of(f.detail).with_state(f.state) for f in archive.findings_of(PROVIDER))


def _write_declaration(folder: Path, name: str, declared: dict[str, Any]) -> None:
    # Atomically: a task of the running Airflow may be reading it.
    draft = folder / f"{name}.part"
    draft.write_text(yaml.safe_dump(declared, sort_keys=False))
    draft.replace(folder / f"{name}.yaml")


def main(
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


if __name__ == "__main__":
    typer.run(main)
