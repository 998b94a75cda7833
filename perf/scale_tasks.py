"""Airflow's cost of a trial: a run of mapped trials through the team server's services, on a real PostgreSQL.

python perf/scale_tasks.py [TRIALS] [WAIT_S] [PARALLELISM]

Each trial is empty but has a cluster trial's shape in Airflow, a task that is deferred once for WAIT_S and then resumed. Before it, in the same services, the
shape that trials had earlier: a task that was resumed twice, and two tasks after it. So the figures cover the scheduler's loop, the start of task
processes, the triggerer and the API server.
If a trigger fires before the scheduler has recorded its task's deferral, the scheduler fails the task (a known race in Airflow); the last line counts
these.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

import psutil

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[1] / "include")]

LASTING = ("api-server", "scheduler", "dag-processor", "triggerer")
EXECUTIONS = {"five": 5, "two": 2}  # of a trial, by DAG: begin, started, finished, collect, record; begin, finished
DAG = """
from datetime import timedelta

from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk import BaseOperator, dag, task, task_group


class Launch(BaseOperator):
    def __init__(self, spec, then, **kwargs):
        super().__init__(**kwargs)
        self.spec, self.then = spec, then

    def execute(self, context):
        self.defer(trigger=TimeDeltaTrigger(timedelta(seconds={wait})), method_name=self.then)

    def started(self, context, event=None):
        self.defer(trigger=TimeDeltaTrigger(timedelta(seconds={wait})), method_name="finished")

    def finished(self, context, event=None):
        return None


@task
def plan():
    return list(range({trials}))


@task
def collect(spec):
    return spec


@task
def record(spec):
    return spec


@dag(schedule=None, start_date=None, max_active_tasks=256)
def five():
    @task_group
    def trial(spec):
        Launch(task_id="run", spec=spec, then="started") >> collect(spec)

    specs = plan()
    trial.expand(spec=specs) >> record.expand(spec=specs)


@dag(schedule=None, start_date=None, max_active_tasks=256)
def two():
    @task_group
    def trial(spec):
        Launch(task_id="run", spec=spec, then="finished")

    specs = plan()
    trial.expand(spec=specs) >> collect(specs) >> record(specs)


five()
two()
"""


def main() -> None:
    given = sys.argv[1:]
    trials, wait = int(given[0]) if given else 60, float(given[1]) if len(given) > 1 else 20.0
    from tests.fakes.compose_processes import ROOT, Processes, implementations, read_settings, resolve, write_settings
    from tests.fakes.postgres_tcp import TcpPostgres, free_port

    from plumbline.embedded.client import AirflowClient

    with tempfile.TemporaryDirectory(prefix="scale-tasks-") as path:
        folder = Path(path)
        settings = write_settings(folder)
        services = resolve(implementations(folder)["podman-compose"], folder, settings)["services"]
        (folder / "dags").mkdir()
        (folder / "dags" / "scale.py").write_text(DAG.replace("{trials}", str(trials)).replace("{wait}", str(wait)))
        (folder / "pg").mkdir()
        postgres = TcpPostgres(folder / "pg")
        api, health = free_port(), free_port()
        replaced = {
            "@postgres:5432/": f"@127.0.0.1:{postgres.port}/",
            "http://api-server:8080": f"http://127.0.0.1:{api}",
            "http://localhost:8080": f"http://127.0.0.1:{api}",
            "8080": str(api),
            "8974": str(health),
            "0.0.0.0": "127.0.0.1",
            "/opt/plumbline": str(ROOT),
        }
        bundle = {
            "name": "dags-folder",
            "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
            "kwargs": {"path": str(folder / "dags")},
        }
        extra = {"AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps([bundle])}
        if len(given) > 2:
            extra["AIRFLOW__CORE__PARALLELISM"] = given[2]
        graph = Processes(services, folder, read_settings(settings), replaced, extra)
        try:
            postgres.run_file(ROOT / "k8s/airflow/postgres-roles.sql", {k: str(v) for k, v in services["postgres"]["environment"].items()})
            done = graph.run("init")
            assert done.returncode == 0, done.stdout
            graph.start_all(LASTING, 180)
            secrets = graph.settings
            with AirflowClient(f"http://127.0.0.1:{api}", secrets["PLUMBLINE_ADMIN_USER"], secrets["PLUMBLINE_ADMIN_PASSWORD"]) as client:
                while not EXECUTIONS.keys() <= {*client.dags()}:
                    time.sleep(0.5)
                for shape in EXECUTIONS:
                    client.set_paused(shape, False)
                    watch(client, graph, trials, shape)
        finally:
            graph.stop()
            postgres.stop()


def watch(client: object, graph: object, trials: int, shape: str) -> None:
    before, began = cpu(graph), time.monotonic()
    run = client.trigger(shape, {})  # type: ignore[attr-defined]
    while not run.ended:
        time.sleep(1)
        run = client.run(run.dag_id, run.run_id)  # type: ignore[attr-defined]
    lasted, executions = time.monotonic() - began, trials * EXECUTIONS[shape]
    after = cpu(graph)
    print(
        f"{shape}: {trials} trials, {executions} task executions in {lasted:.0f} s on {os.cpu_count()} cores: {executions / lasted * 60:.0f} a minute"
    )
    for name in after:
        spent = after[name] - before[name]
        print(f"  {name:14s} {spent:6.1f} CPU s, {spent / executions:.2f} an execution, {spent / trials:.2f} a trial")
    print(f"  unshared resident memory: {memory(graph)}")
    log = (graph.folder / "scheduler.log").read_text(errors="replace")  # type: ignore[attr-defined]
    print(f"  {log.count('attribute is queued') + log.count('attribute is running')} resumed too early and failed by the scheduler")


def cpu(graph: object) -> dict[str, float]:
    """CPU seconds by service, including ended processes, whose times their parents inherit."""
    seconds = {}
    for name, process in graph.running.items():  # type: ignore[attr-defined]
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        times = [p.cpu_times() for p in family if p.is_running()]
        seconds[name] = sum(t.user + t.system + t.children_user + t.children_system for t in times)
    return seconds


def memory(graph: object) -> str:
    """Resident memory by service, as text."""
    parts = []
    for name, process in graph.running.items():  # type: ignore[attr-defined]
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        parts.append(f"{name} {sum(p.memory_full_info().uss for p in family) / 2**20:.0f} MiB")
    return ", ".join(parts)


if __name__ == "__main__":
    main()
