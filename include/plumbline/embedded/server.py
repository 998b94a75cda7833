"""A local Airflow of one owner process: starts on a loopback address, creates pools, and leaves no process behind."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import socket
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Literal

import httpx
import psutil

from plumbline.declarations import DeclarationError, Provider, enabled_providers, installation_paths, load
from plumbline.declarations.archive_address import EMBEDDED
from plumbline.declarations.installation import dag_folder
from plumbline.embedded.client import AirflowClient, pause_again
from plumbline.embedded.settings import DEFAULT_PORT, USERNAME, environment, password, write_settings
from plumbline.embedded.supervisor import COMPONENTS, GRACE_S, MIGRATION
from plumbline.harness.child_process import ChildProcess
from plumbline.harness.process_tree import end_processes, is_live, tagged_processes
from plumbline.whole_file import write_whole
from plumbline.workflows.plan import POOL_DESCRIPTION, pool_slots
from plumbline.workflows.retain import delete_old_files

SERVER_MARK = EMBEDDED
"""Environment variable with the id of the start, which every descendant inherits in any session."""
_PATIENCE_S = 10.0
_CLOCK_SLACK_S = 1.0


@dataclass(frozen=True)
class ServerRecord:
    """Written right after the start, so that the next start finds leftovers."""

    supervisor: int
    created: float
    server_id: str

    def write(self, file: Path) -> None:
        write_whole(file, json.dumps(asdict(self)))


def read_record(file: Path) -> ServerRecord | None:
    """The record of the last start; None if missing or incomplete."""
    try:
        return ServerRecord(**json.loads(file.read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def remaining_processes(record: ServerRecord) -> list[psutil.Process]:
    """Living processes of the recorded server: its session, those with its mark, and their descendants."""
    pids = set(tagged_processes(SERVER_MARK, record.server_id))
    if _leader_is_ours(record):
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if os.getsid(process.pid) == record.supervisor and process.pid != os.getpid() and is_live(process):
                    pids.add(process)
    return list(pids)


def end_leftovers(record: ServerRecord) -> list[int]:
    """End that start's processes; returns their pids. RuntimeError if some cannot be ended."""
    return sorted(end_processes(lambda: remaining_processes(record), _PATIENCE_S, _PATIENCE_S))


def _leader_is_ours(record: ServerRecord) -> bool:
    """A session id stays reserved while a member lives, so a missing leader is safe; a leader of another age is another process."""
    try:
        return abs(psutil.Process(record.supervisor).create_time() - record.created) < _CLOCK_SLACK_S
    except psutil.NoSuchProcess:
        return True


def create_pools(client: AirflowClient, providers: Iterable[Provider]) -> list[str]:
    """Create the pools of these providers or correct their size; their names. A task without its pool never starts."""
    slots = pool_slots(providers)
    for name, number in slots.items():
        client.put_pool(name, number, POOL_DESCRIPTION)
    return list(slots)


class PoolKeeper:
    """Creates the pools of providers that are enabled while Airflow runs, when declarations change."""

    def __init__(self) -> None:
        self._seen = self._state()

    def refresh(self, client: AirflowClient) -> list[str]:
        """The names of new pools; empty if no declaration changed, or while one cannot be read."""
        if (now := self._state()) == self._seen:
            return []
        try:
            providers = enabled_providers()
        except DeclarationError:
            return []
        new = [name for name in pool_slots(providers) if not client.has_pool(name)]
        create_pools(client, providers)
        self._seen = now
        return new

    @staticmethod
    def _state() -> tuple[tuple[str, int], ...]:
        here = installation_paths()
        folders = (here.config / "providers", here.generated_providers)
        return tuple(sorted((str(file), file.stat().st_mtime_ns) for folder in folders for file in folder.glob("*.yaml")))


_START_LIMIT_S = 240.0
_STOP_LIMIT_S = 2 * GRACE_S + 5
_LOG_LINES = 15

Status = Callable[[str], None]


class ServerError(RuntimeError):
    """Airflow cannot be started; the message names the remedy."""


class AirflowServer:
    """All components of Airflow under one supervisor, with its state in `home`.

    `mode` "run": for one campaign, on PLUMBLINE_PORT (default 8080) or, if that is in use, any free port.
    `mode` "up": until it is stopped, on PLUMBLINE_PORT or 8080 only; reads edited DAG files again.
    """

    def __init__(self, home: Path, mode: Literal["run", "up"] = "run") -> None:
        self.home = home.resolve()
        self.mode = mode
        self.username = USERNAME
        self.started_at = datetime.now(timezone.utc)
        self._port = 0
        self._process: ChildProcess | None = None
        self._record: ServerRecord | None = None
        self._lock: IO[str] | None = None
        self._shown = 0

    @property
    def address(self) -> str:
        """Base URL, such as http://127.0.0.1:8080."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def password(self) -> str:
        """The password of `username`, created once for a home."""
        return password(self.home)

    def client(self, patience_s: float = 0.0) -> AirflowClient:
        """A client that is logged in as `username`; `patience_s` as of AirflowClient."""
        return AirflowClient(self.address, self.username, self.password, patience_s=patience_s)

    def start(self, on_status: Status = lambda _: None) -> AirflowServer:
        """End leftovers of an earlier start (processes, runs, unpaused DAGs), start all components, create the providers' pools.

        Raises ServerError; DeclarationError if the declarations, which name the pools, cannot be read.
        """
        if not dag_folder().is_dir():
            raise ServerError(f"{dag_folder()} is not a folder; expected one with the DAG files of this Airflow")
        self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._acquire()
        try:
            earlier = read_record(self._pidfile)
            if earlier and (ended := end_leftovers(earlier)):
                on_status(f"ended {len(ended)} processes of an earlier run")
            self._port = _port(self.mode)
            write_settings(self.home, self._port, reparse=self.mode == "up")
            self.tidy_logs()
            self._launch()
            self._wait_healthy(on_status)
            with self.client() as client:
                create_pools(client, enabled_providers())
                pause_again(self.home, client)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop all processes and verify that none is left. Safe to call twice."""
        process, self._process = self._process, None
        if process is not None:
            process.stop(_STOP_LIMIT_S)
        if self._record is not None:
            end_leftovers(self._record)
            self._pidfile.unlink(missing_ok=True)
            self._record = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def processes(self) -> list[psutil.Process]:
        """All processes of this server, tasks and their trials included."""
        return remaining_processes(self._record) if self._record else []

    def tidy_logs(self) -> None:
        """Delete log files that are older than `keep.logs` in upkeep.yaml."""
        keep_s = load().upkeep.keep.logs
        if keep_s is not None:
            delete_old_files(self.home / "logs", time.time() - keep_s)

    def check(self) -> None:
        """Raise ServerError if Airflow has ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            raise ServerError(f"Airflow stopped: {self._last_words()}")

    def news(self) -> list[str]:
        """The supervisor's lines since the last call, such as a component's restart."""
        lines = _tail(self.home / "logs" / "supervisor.log", 0).splitlines()
        new = lines[self._shown :] if len(lines) >= self._shown else lines
        self._shown = len(lines)
        return new

    def __enter__(self) -> AirflowServer:
        return self if self._process is not None else self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def _pidfile(self) -> Path:
        return self.home / "server.json"

    def _acquire(self) -> None:
        """One owner a home. The kernel releases the lock of a killed owner."""
        lock = (self.home / "lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise ServerError(f"an Airflow is already running in {self.home}; stop it, or set PLUMBLINE_HOME to another folder") from None
        self._lock = lock

    def _launch(self) -> None:
        server_id = secrets.token_hex(16)
        env = environment(self.home, os.environ) | {SERVER_MARK: server_id}
        (self.home / "logs").mkdir(exist_ok=True)
        for name in (*COMPONENTS, *MIGRATION, "supervisor"):
            (self.home / "logs" / f"{name}.log").unlink(missing_ok=True)
        self.started_at = datetime.now(timezone.utc)
        command = [sys.executable, "-m", "plumbline.embedded.supervisor"]
        # A group of its own: Ctrl-C in the terminal reaches only the owner, which stops the components in order.
        self._process = ChildProcess(command, env, output=self.home / "logs" / "supervisor.log", own_group=True)
        self._record = ServerRecord(self._process.pid, psutil.Process(self._process.pid).create_time(), server_id)
        self._record.write(self._pidfile)

    def _wait_healthy(self, on_status: Status) -> None:
        deadline = time.monotonic() + _START_LIMIT_S
        shown = ""
        with httpx.Client(base_url=self.address, timeout=5, trust_env=False) as http:
            while time.monotonic() < deadline:
                self.check()
                waiting = self._not_ready(http)
                if not waiting:
                    on_status("Airflow is ready")
                    return
                if waiting != shown:
                    on_status(f"waiting for {waiting}")
                    shown = waiting
                time.sleep(0.25)
        raise ServerError(
            f"Airflow was not healthy after {_START_LIMIT_S:g} s, still waiting for {shown}; logs are in {self.home / 'logs'}"
        )

    def _not_ready(self, http: httpx.Client) -> str:
        """The missing parts; empty when healthy. Heartbeats from before this start do not count."""
        if not (self.home / "logs" / "api-server.log").exists():
            return "the database"
        try:
            health = http.get("/api/v2/monitor/health").json()
        except (httpx.HTTPError, ValueError):
            return "the API server"
        late = []
        for part in ("scheduler", "dag_processor", "triggerer"):
            beat = (health.get(part) or {}).get(f"latest_{part}_heartbeat")
            if beat is None or datetime.fromisoformat(beat.replace("Z", "+00:00")) < self.started_at:
                late.append(part.replace("_", " "))
        return ", ".join(late)

    def _last_words(self) -> str:
        line = _tail(self.home / "logs" / "supervisor.log", 1)
        name = line.split(" ", 1)[0]
        log = self.home / "logs" / f"{name}.log"
        return f"{line}\n{_tail(log, _LOG_LINES)}\n(whole log: {log})" if log.exists() else line


def _tail(file: Path, lines: int) -> str:
    """The last lines of a file; 0: all."""
    return "\n".join(file.read_text(errors="replace").splitlines()[-lines:]) if file.exists() else ""


def _port(mode: str) -> int:
    text = os.environ.get("PLUMBLINE_PORT") or str(DEFAULT_PORT)
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise ServerError(f"PLUMBLINE_PORT is {text!r}; expected a port number such as 8080")
    with socket.socket() as probe:
        # As the API server does: a port with lingering connections is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", int(text)))
        except OSError as error:
            if mode == "up":
                raise ServerError(f"port {text} on 127.0.0.1 is not free ({error.strerror}); set PLUMBLINE_PORT to a free port") from None
            probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
