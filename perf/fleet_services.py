"""The team server's services as processes of this machine, on more than one scheduler, triggerer and API server.

What runs is what ships: the commands, settings and secrets of docker-compose.yaml, and Airflow's settings of k8s/airflow/values.yaml, which says how many there
are of each. An `Executor` adds its own services and settings. PostgreSQL is real; a balancer stands for the Service before the API servers.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg
import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "include")]

from fleet_balancer import Balancer  # noqa: E402
from tests.fakes.compose_processes import Processes, implementations, read_settings, resolve, write_settings  # noqa: E402
from tests.fakes.postgres_tcp import TcpPostgres, free_port  # noqa: E402

from plumbline.embedded.client import AirflowClient  # noqa: E402

VALUES = ROOT / "k8s" / "airflow" / "values.yaml"
KINDS = {"api-server": "apiServer", "scheduler": "scheduler", "triggerer": "triggerer"}
"""A service of the compose file → its part of the Helm values, whose `replicas` say how many."""
_STEP_S = 0.5
_START_S = 600.0
_JOBS = {"scheduler": "SchedulerJob", "triggerer": "TriggererJob", "dag-processor": "DagProcessorJob"}


class Executor:
    """Where tasks run: the settings that it needs, and its services beside Airflow's. This one: LocalExecutor, in the schedulers' processes."""

    name = "local"

    def __init__(self, slots: int) -> None:
        self.slots = slots

    def begin(self, server: FleetServer) -> None:
        """Start what Airflow's services need before they start."""

    def settings(self) -> dict[str, str]:
        # Each scheduler has its own.
        return {"AIRFLOW__CORE__EXECUTOR": "LocalExecutor", "AIRFLOW__CORE__PARALLELISM": str(max(self.slots // 2, 1))}

    def services(self, server: FleetServer) -> dict[str, dict[str, Any]]:
        """Services of the executor, by name, as in a compose file."""
        return {}

    def ready(self, name: str) -> bool:
        """Whether one of its services takes work."""
        return True

    def end(self) -> None:
        """End what `begin` started."""

    def pids(self) -> dict[str, int]:
        """Processes of `begin`, by component."""
        return {}

    def cpu(self) -> dict[str, float]:
        """CPU seconds outside of this server's processes, by component."""
        return {}


class Graph(Processes):  # type: ignore[misc]  # the tests' types are not followed
    """Services whose readiness is a state of the whole, so that no health check starts an Airflow."""

    ready: Callable[[str], bool]

    def healthy(self, name: str) -> bool:
        return self.ready(name)


class FleetServer:
    """The running services, between `with` and its end. `extra`: variables of every process. `code`: the checkout that they run."""

    def __init__(self, folder: Path, executor: Executor, extra: Mapping[str, str], code: Path = ROOT) -> None:
        self.folder, self.executor, self._code = folder, executor, code
        # All services on one machine: a parse may take longer than a minute.
        patience = {"AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "600", "AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": "600"}
        self.extra = {**patience, **extra}
        self.left: list[str] = []
        self._most: Counter[str] = Counter()
        self._over = threading.Event()

    def __enter__(self) -> FleetServer:
        file = write_settings(self.folder)
        shipped = resolve(implementations(self.folder)["podman-compose"], self.folder, file)["services"]
        self.secrets = read_settings(file)
        (self.folder / "pg").mkdir()
        self.postgres = TcpPostgres(self.folder / "pg")
        self.balancer = Balancer([free_port() for _ in range(_replicas("api-server"))])
        self.url = f"http://127.0.0.1:{self.balancer.port}"
        try:
            self._start(shipped)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self, shipped: dict[str, Any]) -> None:
        self.postgres.run_file(ROOT / "k8s/airflow/postgres-roles.sql", {k: str(v) for k, v in shipped["postgres"]["environment"].items()})
        self.executor.begin(self)
        replaced = {
            "@postgres:5432/": f"@127.0.0.1:{self.postgres.port}/",
            "http://api-server:8080": self.url,
            "http://localhost:8080": self.url,
            "0.0.0.0": "127.0.0.1",
            "/opt/plumbline": str(self._code),
        }
        self.graph = Graph({}, self.folder, self.secrets, replaced, {**chart_settings(), **self.executor.settings(), **self.extra})
        self.graph.ready = self.ready
        self.shipped = shipped
        self.graph.services = {"init": shipped["init"]}
        done = self.graph.run("init")
        if done.returncode != 0:
            raise RuntimeError(f"init failed:\n{done.stdout[-3000:]}")
        self.graph.services = {**self._services(), **self.executor.services(self)}
        threading.Thread(target=self._count_connections, daemon=True).start()
        for name in self.graph.services:
            self.graph.start(name)
        for name in self.graph.services:
            self.graph.wait_healthy(name, _START_S)

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if hasattr(self, "graph"):
            self.left = self.graph.stop()
        self.balancer.stop()
        self.executor.end()
        self.postgres.stop()

    def _services(self) -> dict[str, dict[str, Any]]:
        made = {"dag-processor": self.instance("dag-processor")}
        for number, port in enumerate(self.balancer.backends, 1):
            made[f"api-server-{number}"] = self.instance("api-server", AIRFLOW__API__PORT=str(port), AIRFLOW__API__WORKERS="1")
        for kind in ("scheduler", "triggerer"):
            for number in range(1, _replicas(kind) + 1):
                health = {"AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_PORT": str(free_port())}
                made[f"{kind}-{number}"] = self.instance(kind, None, **(health if kind == "scheduler" else {}))
        return made

    def instance(self, kind: str, command: list[str] | None = None, **variables: str) -> dict[str, Any]:
        """A service like the compose file's `kind`, with more variables, or another command."""
        like = self.shipped[kind]
        return {**like, "environment": {**like["environment"], **variables}, "command": command or like["command"]}

    def client(self) -> AirflowClient:
        return AirflowClient(self.url, self.secrets["PLUMBLINE_ADMIN_USER"], self.secrets["PLUMBLINE_ADMIN_PASSWORD"], patience_s=300)

    @property
    def archive_url(self) -> str:
        return str(self.graph.environment("scheduler-1")["PLUMBLINE_ARCHIVE_URL"])

    def ready(self, name: str) -> bool:
        """Whether a service works: an API server listens, another's process has a new heartbeat in Airflow's database."""
        kind = kind_of(name)
        if kind == "api-server":
            return self.balancer.listens(int(name.rpartition("-")[2]) - 1)
        if kind not in _JOBS:
            return self.executor.ready(name)
        since = psutil.Process(self.graph.running[name].pid).create_time()
        # Jobs do not name their process: as many must have begun as instances that began as late or later.
        peers = [p for n, p in self.graph.running.items() if kind_of(n) == kind and psutil.Process(p.pid).create_time() >= since]
        found = self.ask(
            "SELECT count(*) FROM job WHERE job_type = %s AND state = 'running' AND start_date >= to_timestamp(%s)", _JOBS[kind], since
        )
        return bool(found[0][0] >= len(peers))

    def ask(self, query: str, *values: object, database: str = "airflow") -> list[tuple[Any, ...]]:
        """Rows of a query by PostgreSQL's superuser; none while it is away."""
        with suppress(psycopg.OperationalError), self._connected(database) as connection:
            return list(connection.execute(query.encode(), values).fetchall())
        return [(0,)]

    def _connected(self, database: str) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(host=str(self.folder / "pg"), port=self.postgres.port, user="postgres", dbname=database, connect_timeout=5)

    def _count_connections(self) -> None:
        query = "SELECT usename, count(*) FROM pg_stat_activity WHERE usename IS NOT NULL AND usename <> 'postgres' GROUP BY usename"
        while not self._over.wait(2.0):
            found = dict(row for row in self.ask(query) if len(row) == 2)
            for role, number in {**found, "all": sum(found.values())}.items():
                self._most[role] = max(self._most[role], number)

    def most_connections(self) -> dict[str, int]:
        """The most connections to PostgreSQL at a time since the last call, by role and of all."""
        found, self._most = dict(self._most), Counter()
        return found

    def cpu(self) -> dict[str, float]:
        """CPU seconds by kind of service, with those of ended children, which their parents inherit."""
        spent: defaultdict[str, float] = defaultdict(float)
        pids = [(kind_of(name), process.pid) for name, process in self.graph.running.items()]
        postmaster = int((self.folder / "pg" / "postmaster.pid").read_text().split()[0])
        for kind, pid in [*pids, *self.executor.pids().items(), ("postgresql", postmaster)]:
            for one in family(pid):
                with suppress(psutil.Error):
                    t = one.cpu_times()
                    spent[kind] += t.user + t.system + t.children_user + t.children_system
        spent.update(self.executor.cpu())
        return dict(spent)

    def kill(self, name: str) -> None:
        """SIGKILL everything of a service at once, as a container's end does."""
        found = family(self.graph.running[name].pid)
        for one in found:
            with suppress(psutil.NoSuchProcess):
                one.suspend()  # none may react to another's end
        for one in [*found, *family(self.graph.running[name].pid)]:
            with suppress(psutil.NoSuchProcess):
                one.send_signal(signal.SIGKILL)
        self.graph.running[name].wait()

    def restart(self, name: str) -> None:
        """Start a service again, as Kubernetes does, and keep its earlier log."""
        self.revive()
        self.graph.wait_healthy(name, _START_S)

    def revive(self) -> None:
        """Start every service again that has ended by itself, as Kubernetes and `restart: unless-stopped` do: Airflow's end without a database."""
        for name, process in [*self.graph.running.items()]:
            if process.poll() is not None:
                with suppress(ProcessLookupError):  # a container's end is the end of all of its processes
                    os.killpg(process.pid, signal.SIGKILL)
                (self.folder / f"{name}.log").rename(self.folder / f"{name}.{time.time_ns()}.log")
                self.graph.start(name)


def family(pid: int) -> list[psutil.Process]:
    """The process and all below it."""
    try:
        top = psutil.Process(pid)
        return [top, *top.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def kind_of(name: str) -> str:
    """scheduler of scheduler-2."""
    head, _, number = name.rpartition("-")
    return head if number.isdigit() else name


def _values() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(VALUES.read_text())
    return found


def _replicas(kind: str) -> int:
    return int(_values()[KINDS[kind]]["replicas"])


def chart_settings() -> dict[str, str]:
    """Airflow's settings of the Helm values, as variables, but for what the chart's network and images decide."""
    decided = {"core": {"dags_folder", "plugins_folder"}, "api": {"base_url", "workers"}}
    return {
        f"AIRFLOW__{section.upper()}__{name.upper()}": str(value)
        for section, settings in _values()["config"].items()
        for name, value in settings.items()
        if name not in decided.get(section, ())
    }


def wait_for(what: str, condition: Callable[[], object], limit_s: float) -> None:
    """Until the condition holds; RuntimeError after `limit_s` seconds."""
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what}: not within {limit_s:g} s")
        time.sleep(_STEP_S)


def variables(config: Path, connections: Mapping[str, str]) -> dict[str, str]:
    """Variables of every process: the declarations, and Airflow's connections by id."""
    return {"PLUMBLINE_CONFIG": str(config), **{f"AIRFLOW_CONN_{name.upper()}": value for name, value in connections.items()}}


def processes_left(pids: Iterable[int]) -> list[int]:
    return [pid for pid in pids if psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE]
