"""The team server on more than one machine, with a fleet: a campaign of each size through every service, as a table.

python perf/scale_fleet.py --executor local|celery|kubernetes [--providers 5 50] [--workloads 2] [--repeats 1] [--slots 8] [--simulated] [--lasts 30]
    [--against CHECKOUT]
python perf/scale_fleet.py --executor celery|kubernetes --kill all|COMPONENT … [--providers 2] [--workloads 2] [--repeats 2]

Real: the services of k8s/airflow/values.yaml (two schedulers, triggerers and API servers, four workers), PostgreSQL, Redis, and the DAGs as they are.
A provider is a cluster whose fake API runs pods of `--lasts` seconds, with simulated results; with `--simulated` it is a simulated provider, whose
trials no trigger waits for. With `--against` the services run another checkout's code before this one's, each with a column. The full size is
`--workloads 20 --repeats 12`: 12,000 trials of 50 providers.

Exit status 1 if a trial is lost or counted twice, or a pod or process is left. `--kill`: fleet_kills.py.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import fleet_kills
from fleet_campaign import Account, Size, World, account, start, world
from fleet_celery import CeleryExecutor
from fleet_kubernetes import KubernetesExecutor
from fleet_services import ROOT, Executor, wait_for

EXECUTORS: dict[str, type[Executor]] = {"local": Executor, "celery": CeleryExecutor, "kubernetes": KubernetesExecutor}
_CAMPAIGN_S = 7200.0
_DELAYS = """
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY late), percentile_cont(0.95) WITHIN GROUP (ORDER BY late), count(*)
FROM (SELECT extract(epoch FROM start_date - queued_dttm) AS late FROM task_instance
      WHERE dag_id LIKE 'benchmark_%%' AND state = 'success' AND try_number = 1 AND start_date >= queued_dttm) AS waited
"""


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
        ("code", [f.size.code.name for f in found]),
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
    parser.add_argument("--kill", nargs="+", metavar="COMPONENT", help="the kill matrix: of these components, or all")
    parser.add_argument("--against", type=Path, help="a checkout whose code is measured first")
    asked = parser.parse_args()
    # Ends like Ctrl-C, so that every service is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if asked.kill:
        return kill_matrix(EXECUTORS[asked.executor](asked.slots), asked)
    found, left = [], []
    for providers, code in product(asked.providers, [asked.against.resolve(), ROOT] if asked.against else [ROOT]):
        size = Size(providers, asked.workloads, asked.repeats, asked.simulated, asked.lasts, asked.parallel, code)
        executor = EXECUTORS[asked.executor](asked.slots)
        with world(executor, size) as here:
            found.append(measure(here))
            print(f"{providers} providers, {code.name}: {found[-1].account}\n{table(executor, found)}\n", flush=True)
        left += here.server.left
    print(f"processes that had to be killed at the end: {len(left)}")
    return 0 if all(each.account.clean for each in found) and not left else 1


def kill_matrix(executor: Executor, asked: argparse.Namespace) -> int:
    """Kill each component of `asked.kill` at each stage of a campaign of its own; exit status 0 if every account is clean."""
    size = Size(asked.providers[0], asked.workloads, asked.repeats, asked.simulated, asked.lasts, asked.parallel)
    found = []
    with world(executor, size, fleet_kills.SOONER) as here, here.server.client() as client:
        for component in fleet_kills.components(here) if asked.kill == ["all"] else asked.kill:
            found.append(fleet_kills.kill(here, client, component))
            print(f"{component}: {found[-1].account}; {len(found[-1].orphans)} processes orphaned {found[-1].orphans}", flush=True)
    print(fleet_kills.table(found))
    return 0 if all(each.clean for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
