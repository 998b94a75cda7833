"""CeleryExecutor: a real Redis and the workers that k8s/airflow/values.yaml declares."""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import yaml
from celery import Celery  # type: ignore[import-untyped]
from fleet_services import VALUES, Executor, FleetServer, wait_for
from redis import Redis, RedisError
from tests.fakes.postgres_tcp import free_port

SMALL, SMALL_SIZE = "/small", "64m"
"""Where the first worker sees its own disk, and its size."""
NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount")


class CeleryExecutor(Executor):
    """`slots`: tasks at a time of all workers together."""

    name = "celery"

    def begin(self, server: FleetServer) -> None:
        program = shutil.which("redis-server")
        if program is None:
            raise RuntimeError("no redis-server on the PATH; expected Debian's package redis-server")
        self._folder = server.folder / "redis"
        self._folder.mkdir()
        self.port = free_port()
        self._server = server
        # As the chart starts it: snapshots now and then, no append-only file.
        self._command = [program, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder)]
        self.start_redis()

    def start_redis(self) -> None:
        """Start Redis with what its files hold, and wait until it answers."""
        with (self._folder / "redis.log").open("ab") as log:
            self._redis = subprocess.Popen(self._command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
        wait_for("Redis answers", self._answers, 60)

    def lose_redis(self) -> None:
        """SIGKILL Redis and delete all that it holds, as the end of a machine without a volume does; then start it again."""
        self._redis.send_signal(signal.SIGKILL)
        self._redis.wait()
        shutil.rmtree(self._folder)
        self._folder.mkdir()
        self.start_redis()

    def _answers(self) -> bool:
        try:
            return bool(Redis(port=self.port).ping())
        except RedisError:
            return False

    @property
    def broker(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def settings(self) -> dict[str, str]:
        database = (
            f"postgresql://airflow:{self._server.secrets['PLUMBLINE_AIRFLOW_DB_PASSWORD']}@127.0.0.1:{self._server.postgres.port}/airflow"
        )
        return {
            "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor",
            "AIRFLOW__CORE__PARALLELISM": str(self.slots),
            "AIRFLOW__CELERY__BROKER_URL": self.broker,
            "AIRFLOW__CELERY__RESULT_BACKEND": f"db+{database}",
            "AIRFLOW__CELERY__WORKER_CONCURRENCY": str(max(self.slots // worker_number(), 1)),
        }

    def services(self, server: FleetServer) -> dict[str, dict[str, Any]]:
        return {f"worker-{number}": self._worker(server, number) for number in range(1, worker_number() + 1)}

    def _worker(self, server: FleetServer, number: int) -> dict[str, Any]:
        command = ["airflow", "celery", "worker", "--skip-serve-logs", "--celery-hostname", f"worker-{number}@here"]
        if number > 1 or not may_mount(server.folder):
            return server.instance("scheduler", command)
        # A disk of its own for what a worker writes locally. Processes of other mount namespaces see it below /proc/PID/root.
        own = {"AIRFLOW_HOME": f"{SMALL}/home", "AIRFLOW__LOGGING__BASE_LOG_FOLDER": f"{SMALL}/logs", "TMPDIR": SMALL}
        mounted = [*NAMESPACE, "bash", "-c", f'mount -t tmpfs -o size={SMALL_SIZE} tmpfs "$0" && exec "$@"', SMALL, *command]
        made = server.instance("scheduler", mounted, **own)
        return {**made, "tmpfs": [*made["tmpfs"], SMALL]}

    def ready(self, name: str) -> bool:
        with Celery(broker=self.broker) as app:
            return bool(app.control.ping([f"{name}@here"], timeout=2.0))

    def pids(self) -> dict[str, int]:
        return {"redis": self._redis.pid}

    def end(self) -> None:
        if hasattr(self, "_redis"):
            self._redis.terminate()
            self._redis.wait()


def worker_number() -> int:
    return int(yaml.safe_load(VALUES.read_text())["workers"]["celery"]["replicas"])


def may_mount(folder: Path) -> bool:
    """Whether this machine lets a process mount in a namespace of its own."""
    return subprocess.run([*NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", str(folder)], capture_output=True, check=False).returncode == 0
