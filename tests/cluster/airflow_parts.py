"""Airflow's components as processes of their own, each of which can be killed and started again, as on a team's server."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType

import httpx

from plumbline.declarations import enabled_providers
from plumbline.embedded.client import AirflowClient
from plumbline.embedded.server import create_pools
from plumbline.embedded.settings import USERNAME, environment, password, write_settings
from plumbline.embedded.supervisor import COMPONENTS, MIGRATION

_START_LIMIT_S = 240.0
_GRACE_S = 15.0
_SETTINGS = {
    # Several trials wait at a time here, each for its own pod: nothing is measured on this machine's side.
    "AIRFLOW__CORE__PARALLELISM": "4",
    "AIRFLOW__SCHEDULER__JOB_HEARTBEAT_SEC": "5",
    # A killed component is missed after seconds instead of minutes.
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "30",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "30",
    "AIRFLOW__SCHEDULER__TRIGGER_TIMEOUT_CHECK_INTERVAL": "15",
    "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "5",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "20",
}


class AirflowParts:
    """One Airflow in `home`. KUBECONFIG is taken out of its environment: its connections say where clusters are."""

    def __init__(self, home: Path, extra: Mapping[str, str]) -> None:
        self.home = home
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = int(probe.getsockname()[1])
        write_settings(home, self._port, reparse=False)
        base = {k: v for k, v in os.environ.items() if k != "KUBECONFIG"}
        self._env = {**environment(home, base), **_SETTINGS, **extra}
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def logs(self) -> Path:
        return self.home / "logs"

    @property
    def database(self) -> Path:
        return self.home / "airflow.db"

    def client(self) -> AirflowClient:
        """A client that is logged in."""
        return AirflowClient(f"http://127.0.0.1:{self._port}", USERNAME, password(self.home))

    def http(self) -> httpx.Client:
        """A logged-in client for what AirflowClient has no method for."""
        address = f"http://127.0.0.1:{self._port}"
        login = httpx.post(f"{address}/auth/token", json={"username": USERNAME, "password": password(self.home)}, trust_env=False)
        return httpx.Client(
            base_url=address, headers={"Authorization": f"Bearer {login.json()['access_token']}"}, timeout=30, trust_env=False
        )

    def start(self, names: Iterable[str] = tuple(COMPONENTS)) -> None:
        """Start components and wait until each answers or beats."""
        since = datetime.now(timezone.utc)
        for name in names:
            self._running[name] = self._popen(name, COMPONENTS[name])
        deadline = time.monotonic() + _START_LIMIT_S
        while waiting := self._waiting_for(names, since):
            for name in names:
                assert self._running[name].poll() is None, f"{name} ended: {self.tail(name)}"
            assert time.monotonic() < deadline, f"no {waiting} after {_START_LIMIT_S:g} s: {self.tail(waiting)}"
            time.sleep(0.5)

    def kill(self, name: str) -> None:
        """SIGKILL a component and whatever it started, as when its machine goes away."""
        process = self._running.pop(name)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def tail(self, name: str) -> str:
        """The end of a component's log."""
        log = self.logs / f"{name}.log"
        return "\n".join(log.read_text(errors="replace").splitlines()[-30:]) if log.exists() else "(no log)"

    def __enter__(self) -> AirflowParts:
        self.logs.mkdir(parents=True, exist_ok=True)
        migration = self._popen("migration", MIGRATION["migration"])
        assert migration.wait() == 0, self.tail("migration")
        try:
            self.start()
            with self.client() as client:
                create_pools(client, enabled_providers())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop()

    def _stop(self) -> None:
        for sent in (signal.SIGTERM, signal.SIGKILL):
            for process in self._running.values():
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, sent)
            deadline = time.monotonic() + _GRACE_S
            while time.monotonic() < deadline and any(p.poll() is None for p in self._running.values()):
                time.sleep(0.1)
        self._running.clear()

    def _popen(self, name: str, arguments: tuple[str, ...]) -> subprocess.Popen[bytes]:
        with (self.logs / f"{name}.log").open("ab") as out:
            return subprocess.Popen(
                [sys.executable, "-m", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=self._env,
                start_new_session=True,  # so that it can be ended with everything that it started
            )

    def _waiting_for(self, names: Iterable[str], since: datetime) -> str:
        try:
            health = httpx.get(f"http://127.0.0.1:{self._port}/api/v2/monitor/health", timeout=5, trust_env=False).json()
        except (httpx.HTTPError, ValueError):
            return "api-server"
        for name in names:
            part = name.replace("-", "_")
            beat = (health.get(part) or {}).get(f"latest_{part}_heartbeat")
            if name != "api-server" and (beat is None or datetime.fromisoformat(beat.replace("Z", "+00:00")) < since):
                return name
        return ""
