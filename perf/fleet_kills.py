"""The kill matrix of perf/scale_fleet.py: each component is killed at each stage of a campaign, then every trial is counted.

One campaign a component. It is killed (SIGKILL, with everything below it, as a container's end does) when the first task of a stage is on its way, and
started again at once, as Kubernetes does; of several instances another one each time. Redis loses all that it holds; PostgreSQL ends as by a crash; a worker's
disk is full for half a minute. Airflow notices what ended sooner than by its defaults (`SOONER`), so that a campaign takes minutes instead of an hour.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psutil
from fleet_campaign import Account, Campaign, World, account, start
from fleet_celery import SMALL, CeleryExecutor, may_mount
from fleet_kubernetes import KubernetesExecutor
from fleet_services import family, kind_of

from plumbline.embedded.client import AirflowClient

STAGES = ("plan", "run", "collect", "validate", "record")
SOONER = {
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",
    "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT": "90",
    "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT_CHECK_INTERVAL": "15",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "30",
}
ONLY = {"workers": ("run",)}
"""The stages of components that are away for long."""
AWAY_S = 3.5 * float(SOONER["AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT"])
"""Longer than Airflow's own number of tries, 2, lets a queued task wait."""
_ON_ITS_WAY = "('queued', 'running', 'deferred', 'restarting', 'success', 'up_for_retry', 'failed')"
_LIMIT_S, _FULL_S = 1800.0, 30.0


@dataclass
class Kills:
    """What one component's kills did. `at`: stage → the instance that ended and the stage's task states then."""

    component: str
    at: dict[str, str] = field(default_factory=dict)
    lasted_s: float = 0.0
    account: Account | None = None
    orphans: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return self.account is not None and self.account.clean and not self.orphans


def components(here: World) -> dict[str, Callable[[int], str]]:
    """Component → a function that ends one instance of it and starts it again; its argument counts the kills. It returns what ended."""

    def service(kind: str) -> Callable[[int], str]:
        def end(number: int) -> str:
            names: list[str] = sorted(name for name in here.server.graph.running if kind_of(name) == kind)
            # Of workers the one that has most to do.
            name = (
                max(names, key=lambda n: len(family(here.server.graph.running[n].pid))) if kind == "worker" else names[number % len(names)]
            )
            here.server.kill(name)
            here.server.restart(name)
            return name

        return end

    found = {kind: service(kind) for kind in sorted({kind_of(name) for name in here.server.graph.running})}
    executor = here.server.executor
    if isinstance(executor, CeleryExecutor):
        found["redis"] = lambda _: _done(executor.lose_redis, "Redis, emptied")
        if may_mount(here.folder):
            found["disk"] = lambda _: fill(here)
        found["workers"] = lambda _: workers_away(here)
    if isinstance(executor, KubernetesExecutor):
        found["task-pod"] = lambda number: executor.delete_one()
    found["postgresql"] = lambda _: _done(here.server.postgres.crash, "PostgreSQL")
    return found


def _done(end: Callable[[], None], name: str) -> str:
    end()
    return name


def kill(here: World, client: AirflowClient, component: str) -> Kills:
    """A campaign in which the component is killed once at each stage that the DAG has."""
    end, done, began = components(here)[component], Kills(component), time.monotonic()
    campaign = start(here, client, f"kill-{component}")
    stages = [stage for stage in ONLY.get(component, STAGES) if states(here, campaign, stage, "true")]
    for number, stage in enumerate(stages):
        found = until(partial(states, here, campaign, stage, f"state IN {_ON_ITS_WAY}"), here, campaign, client)
        done.at[stage] = f"{end(number)} ({found})"
    until(lambda: campaign.ended(client), here, campaign, client)
    done.lasted_s = time.monotonic() - began
    done.account, done.orphans = account(here, campaign), orphans(here)
    return done


def until(condition: Callable[[], object], here: World, campaign: Campaign, client: AirflowClient) -> object:
    """The condition's first true answer; RuntimeError with the tasks that have not ended after half an hour."""
    deadline = time.monotonic() + _LIMIT_S
    while not (found := condition()):
        if time.monotonic() > deadline:
            open_tasks = [
                f"{run.dag_id} {t.task_id} {t.state}" for run in campaign.runs for t in client.tasks(run.dag_id, run.run_id) if not t.ended
            ]
            raise RuntimeError(f"{campaign.campaign_id} goes on after {_LIMIT_S:g} s: {'; '.join(open_tasks)}")
        here.server.revive()
        time.sleep(1)
    return found


def states(here: World, campaign: Campaign, stage: str, where: str) -> str:
    """The states of the stage's tasks in the campaign, such as "2 running, 1 queued"; empty if no task fits."""
    query = f"""SELECT coalesce(state, 'none'), count(*) FROM task_instance
        WHERE run_id = ANY(%s) AND (task_id = %s OR task_id LIKE %s) AND {where} GROUP BY 1 ORDER BY 1"""
    found = here.server.ask(query, [run.run_id for run in campaign.runs], stage, f"%.{stage}")
    return ", ".join(f"{row[1]} {row[0]}" for row in found if len(row) == 2)


def orphans(here: World) -> list[str]:
    """Commands of processes with the services' environment that belong to no running service, at two looks: services start processes all the time."""
    first = _unowned(here)
    time.sleep(3)
    return [command for pid, command in _unowned(here).items() if pid in first]


def _unowned(here: World) -> dict[int, str]:
    commands = {}
    for one in here.server.graph.processes():
        with suppress(psutil.NoSuchProcess):
            commands[one.pid] = " ".join(one.cmdline())[:120]
    owned = {one.pid for process in here.server.graph.running.values() for one in family(process.pid)}
    return {pid: command for pid, command in commands.items() if pid not in owned and psutil.pid_exists(pid)}


def workers_away(here: World) -> str:
    """End all workers, and start them again after `AWAY_S`."""
    names = [name for name in here.server.graph.running if kind_of(name) == "worker"]
    for name in names:
        here.server.kill(name)
    time.sleep(AWAY_S)
    for name in names:
        here.server.restart(name)
    return f"all workers for {AWAY_S:g} s"


def fill(here: World) -> str:
    """Fill the disk of the first worker to its last byte for a while."""
    worker = here.server.graph.running["worker-1"]
    disk = Path(f"/proc/{worker.pid}/root") / str(here.folder / "memory" / "worker-1" / SMALL.strip("/")).lstrip("/")
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    filler = disk / "filler"
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(free, 1))
    time.sleep(_FULL_S)
    filler.unlink()
    return "worker-1's disk"


def table(found: list[Kills]) -> str:
    """One row for each component."""
    lines = ["| killed | at each stage | trials | lost | doubled | orphaned | else | s |", "|---|---|---|---|---|---|---|---|"]
    for each in found:
        have = each.account
        assert have is not None
        other = [*have.unusable, *have.strange, *have.failed_runs, *have.problems]
        counts = [have.planned, len(have.lost), len(have.doubled), len(have.pods) + len(each.orphans), "; ".join(other) or "–"]
        at = "; ".join(f"{stage}: {what}" for stage, what in each.at.items())
        lines.append(f"| {each.component} | {at} | {' | '.join(map(str, counts))} | {each.lasted_s:.0f} |")
    return "\n".join(lines)
