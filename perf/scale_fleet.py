"""The team server on more than one machine, with a fleet: a campaign of each size through every service, as a table.

python perf/scale_fleet.py --executor local|celery [--providers 5 50] [--workloads 2] [--repeats 1] [--slots 8] [--simulated] [--lasts 30]

Real: the services of k8s/airflow/values.yaml (two schedulers, triggerers and API servers, four workers), PostgreSQL, Redis, and the DAGs as they are.
A provider is a cluster whose fake API runs pods of `--lasts` seconds, with simulated results; with `--simulated` it is a simulated provider, whose
trials no trigger waits for. The full size is `--workloads 20 --repeats 12`: 12,000 trials of 50 providers.

Exit status 1 if a trial is lost or counted twice, or a pod or process is left.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fleet_celery import CeleryExecutor
from fleet_cluster import CONNECTION, PROVIDER, SIMULATED, Clusters
from fleet_services import Executor, FleetServer, variables, wait_for
from scale_world import make_world

from plumbline.archive import open_archive
from plumbline.declarations import Declarations, Trial, load
from plumbline.embedded.client import AirflowClient, DagRun
from plumbline.launch.plan import RunRequest, planned_trials
from plumbline.results import ResultStore
from plumbline.workflows.plan import plan_runs

EXECUTORS: dict[str, type[Executor]] = {"local": Executor, "celery": CeleryExecutor}
_PARSED_S, _CAMPAIGN_S = 900.0, 7200.0
_DELAYS = """
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY late), percentile_cont(0.95) WITHIN GROUP (ORDER BY late), count(*)
FROM (SELECT extract(epoch FROM start_date - queued_dttm) AS late FROM task_instance
      WHERE dag_id LIKE 'benchmark_%%' AND state = 'success' AND try_number = 1 AND start_date >= queued_dttm) AS waited
"""


@dataclass(frozen=True)
class Size:
    """`parallel`: trials of a provider at a time; `lasts_s`: seconds that a pod runs."""

    providers: int
    workloads: int
    repeats: int
    simulated: bool = False
    lasts_s: float = 30.0
    parallel: int = 4


@dataclass
class World:
    """A running server with its fleet."""

    folder: Path
    server: FleetServer
    clusters: Clusters
    declared: Declarations
    size: Size

    @property
    def store(self) -> ResultStore:
        return ResultStore((self.folder / "results").as_uri())


@contextmanager
def world(executor: Executor, size: Size, extra: dict[str, str] | None = None) -> Iterator[World]:
    """Services and fleet in a temporary folder; at the end everything is stopped."""
    with tempfile.TemporaryDirectory(prefix="fleet-") as path, Clusters(size.lasts_s) as clusters:
        folder = Path(path)
        text = (SIMULATED if size.simulated else PROVIDER).format(parallel=size.parallel, results=(folder / "away").as_uri())
        config = make_world(folder, size.providers, size.workloads, size.repeats, provider=text)
        results = {"PLUMBLINE_RESULTS_URL": (folder / "results").as_uri()}
        os.environ["PLUMBLINE_CONFIG"] = str(config)
        with FleetServer(folder, executor, {**variables(config, {CONNECTION: clusters.connection}), **results, **(extra or {})}) as server:
            made = World(folder, server, clusters, load(), size)
            with server.client() as client:
                wanted = {provider.dag_id for provider in made.declared.enabled_providers()}
                wait_for("every DAG is there", lambda: wanted <= {*client.dags()}, _PARSED_S)
                if errors := client.import_errors():
                    raise RuntimeError(f"DAG files with errors: {errors}")
                for dag_id in wanted:
                    client.set_paused(dag_id, False)
            yield made


@dataclass
class Campaign:
    """A campaign of all providers, started. `planned`: its trials by id."""

    campaign_id: str
    runs: list[DagRun]
    planned: dict[str, Trial]

    def ended(self, client: AirflowClient) -> bool:
        """Look at the runs that had not ended; whether all have."""
        self.runs = [run if run.ended else client.run(run.dag_id, run.run_id) for run in self.runs]
        return all(run.ended for run in self.runs)


def start(here: World, client: AirflowClient, campaign_id: str) -> Campaign:
    """One run of each provider's DAG, with every repeat of every workload."""
    request = RunRequest(campaign_id, "a measurement of the server")
    names = [provider.name for provider in here.declared.enabled_providers()]
    planned = planned_trials(here.declared, request, names)
    runs = [client.trigger(each.dag_id, each.conf) for each in plan_runs(here.declared, request, names)]
    return Campaign(campaign_id, runs, {trial.trial_id: trial for trials in planned.values() for trial in trials})


@dataclass(frozen=True)
class Account:
    """What became of a campaign's trials. `unusable`: recorded, but no attempt counts. `problems`: what `archive verify` names."""

    planned: int
    lost: list[str]
    doubled: list[str]
    unusable: list[str]
    strange: list[str]
    failed_runs: list[str]
    pods: list[str]
    problems: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not (self.lost or self.doubled or self.unusable or self.strange or self.failed_runs or self.pods or self.problems)

    def __str__(self) -> str:
        counts = {name: len(value) for name, value in vars(self).items() if isinstance(value, list)}
        named = [f"{name}: {', '.join(value[:3])}" for name, value in vars(self).items() if isinstance(value, list) and value]
        return "; ".join([f"{self.planned} trials, " + ", ".join(f"{number} {name}" for name, number in counts.items()), *named])


def account(here: World, campaign: Campaign) -> Account:
    """Compare plan, archive and store: each trial once and usable, and the store's attempts are the archive's."""
    with open_archive(here.server.archive_url) as archive:
        rows = archive.trials(campaign.campaign_id)
        usable = Counter(row.trial_id for row in rows if row.usable)
        problems = [str(each) for each in archive.verify()]
    recorded = {(row.trial_id, row.attempt) for row in rows}
    store = here.store
    stored = {
        (trial_id, int(folder.rpartition("-")[2]))
        for trial_id in campaign.planned
        for folder in store.attempts(campaign.campaign_id, trial_id)
    }
    return Account(
        planned=len(campaign.planned),
        lost=sorted(campaign.planned.keys() - {row.trial_id for row in rows}),
        doubled=sorted(trial_id for trial_id, times in usable.items() if times > 1),
        unusable=sorted(f"{row.trial_id} {row.status} {row.quality_action}" for row in rows if row.trial_id not in usable),
        strange=sorted(f"{trial}#{attempt}" for trial, attempt in recorded ^ stored),
        failed_runs=[f"{run.dag_id} {run.state}" for run in campaign.runs if run.state != "success"],
        pods=here.clusters.leftovers(),
        problems=problems,
    )


@dataclass(frozen=True)
class Figures:
    """Of one campaign. `executions`: task processes, resumptions included. `delays`: seconds, median and 95th percentile, and their number."""

    size: Size
    lasted_s: float
    executions: int
    cpu_s: dict[str, float]
    delays: tuple[float, float, int]
    connections: dict[str, int]
    account: Account


def measure(here: World) -> Figures:
    """Run one campaign to its end."""
    with here.server.client() as client:
        here.server.most_connections()
        before, began, executed = here.server.cpu(), time.monotonic(), executions(here)
        campaign = start(here, client, "fleet")
        wait_for("the campaign's end", lambda: campaign.ended(client), _CAMPAIGN_S)
        lasted, after = time.monotonic() - began, here.server.cpu()
    spent = {kind: after[kind] - before.get(kind, 0.0) for kind in after}
    median, late, number = here.server.ask(_DELAYS)[0]
    return Figures(
        here.size,
        lasted,
        executions(here) - executed,
        spent,
        (float(median), float(late), number),
        here.server.most_connections(),
        account(here, campaign),
    )


def executions(here: World) -> int:
    """Task processes so far: each start writes a line to Airflow's audit log."""
    return int(here.server.ask("SELECT count(*) FROM log WHERE event = 'running'")[0][0])


def table(executor: Executor, found: Sequence[Figures]) -> str:
    """One column for each size."""
    kinds = sorted({kind for each in found for kind in each.cpu_s})
    rows = [
        ("providers × workloads × repeats", [f"{f.size.providers} × {f.size.workloads} × {f.size.repeats}" for f in found]),
        ("trials", [str(f.account.planned) for f in found]),
        ("task executions", [str(f.executions) for f in found]),
        ("task executions a minute", [f"{f.executions / f.lasted_s * 60:.0f}" for f in found]),
        ("seconds", [f"{f.lasted_s:.0f}" for f in found]),
        *((f"CPU s a task, {kind}", [f"{f.cpu_s.get(kind, 0.0) / f.executions:.3f}" for f in found]) for kind in kinds),
        ("CPU s a task, all", [f"{sum(f.cpu_s.values()) / f.executions:.2f}" for f in found]),
        ("CPU s a trial, all", [f"{sum(f.cpu_s.values()) / f.account.planned:.2f}" for f in found]),
        ("queued to started, median and p95 s", [f"{f.delays[0]:.1f}, {f.delays[1]:.1f} (n = {f.delays[2]})" for f in found]),
        *(
            (f"database connections at most, {role}", [str(f.connections.get(role, 0)) for f in found])
            for role in ("airflow", "plumbline", "all")
        ),
        ("trials lost, doubled, pods left", [f"{len(f.account.lost)}, {len(f.account.doubled)}, {len(f.account.pods)}" for f in found]),
    ]
    lines = [
        f"| {executor.name}, {executor.slots} tasks at a time, {os.cpu_count()} cores |" + " |" * len(found),
        "|---" * (len(found) + 1) + "|",
    ]
    return "\n".join([*lines, *(f"| {name} | {' | '.join(values)} |" for name, values in rows)])


def main() -> int:
    parser = argparse.ArgumentParser(description="the team server with a fleet, on more than one machine's services")
    parser.add_argument("--executor", choices=EXECUTORS, default="celery")
    parser.add_argument("--providers", type=int, nargs="+", default=[5, 50])
    parser.add_argument("--workloads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=1, help="of each workload, in 3 slots if it is a multiple of 3")
    parser.add_argument("--slots", type=int, default=8, help="tasks at a time")
    parser.add_argument("--lasts", type=float, default=30.0, help="seconds that a pod runs")
    parser.add_argument("--parallel", type=int, default=4, help="trials of a provider at a time")
    parser.add_argument("--simulated", action="store_true", help="simulated providers instead of clusters")
    asked = parser.parse_args()
    found, left = [], []
    for providers in asked.providers:
        size = Size(providers, asked.workloads, asked.repeats, asked.simulated, asked.lasts, asked.parallel)
        executor = EXECUTORS[asked.executor](asked.slots)
        with world(executor, size) as here:
            found.append(measure(here))
            print(f"{providers} providers: {found[-1].account}", flush=True)
        left += here.server.left
    print(table(executor, found))
    print(f"processes that had to be killed at the end: {len(left)}")
    return 0 if all(each.account.clean for each in found) and not left else 1


if __name__ == "__main__":
    sys.exit(main())
