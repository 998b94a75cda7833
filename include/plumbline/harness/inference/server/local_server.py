"""A server on this machine: started by its command on free loopback ports, waited for, killed, started again and stopped with its children."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from typing_extensions import Required, Self, TypedDict, Unpack

from plumbline.harness import image_requirements
from plumbline.harness.gang.channel import free_port
from plumbline.harness.inference.analysis.metrics import ServerCounters
from plumbline.harness.inference.server.process import ServerProcess
from plumbline.harness.inference.server.server_log import ServerLog
from plumbline.harness.measurement import TrialFailed
from plumbline.results import FailureClass

HOST = "127.0.0.1"
POLL_S = 0.01
_PORT_TRIES = 5
_PORT_TAKEN = ("already in use", "at the same address and port")


@dataclass(frozen=True)
class StartUp:
    """`time_to_ready_s` from the start of its process; `model_load_s` by its log (None without an entry); `started` and `ready` monotonic seconds;
    `about`: what the model reported."""

    started: float
    ready: float
    model_load_s: float | None
    about: dict[str, Any]

    @property
    def time_to_ready_s(self) -> float:
        return self.ready - self.started


class ServerOptions(TypedDict, total=False):
    """Options of any server, see LocalServer."""

    ready_within_s: Required[float]
    ports: Callable[[], int]
    cpus: Collection[int] | None
    variables: Mapping[str, str]
    name: str


class LocalServer(ABC):
    """A context manager around one server. `address` is host:port of what the load goes to, `metrics_address` of its Prometheus page.

    `name`: of its log in `workdir`. `variables`: added to its environment. `ports`: tried in turn if a port is taken in between. `cpus`: the
    server and its children run on these only. Entering raises TrialFailed: "image_error" without a usable server, "server_error" if it ends
    or its model does not load, "timeout" if it is not ready in time."""

    program = "server"
    """The server's name in messages."""

    def __init__(self, workdir: Path, **options: Unpack[ServerOptions]) -> None:
        self.workdir, self.ready_within_s = workdir, options["ready_within_s"]
        self.ports, self.name = options.get("ports", free_port), options.get("name", "server")
        self.variables = dict(options.get("variables", {}))
        self.address = self.metrics_address = ""
        self._log = ServerLog(workdir / f"{self.name}.log")
        self.log = self._log.path
        self.process = ServerProcess(options.get("cpus"))

    # What each kind of server defines

    @abstractmethod
    def view(self) -> ServerCounters | None:
        """The server's counters now; None if it does not answer or has none."""

    @abstractmethod
    def _choose_ports(self) -> None: ...

    @abstractmethod
    def _command(self) -> list[str]: ...

    @abstractmethod
    def _environment(self) -> dict[str, str]: ...

    @abstractmethod
    def _wait(self, started: float) -> float | None:
        """Wait until it is ready: the monotonic moment, or None if it has ended. TrialFailed("timeout") after `ready_within_s`."""

    @abstractmethod
    def _report(self, started: float, ready: float) -> StartUp: ...

    def _prepare(self) -> None:
        """Before the first start."""
        return

    def _cleared(self) -> None:
        """After its processes have ended."""
        return

    # What all have

    def __enter__(self) -> Self:
        try:
            self._prepare()
            self.start_up = self._started()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._close()

    def running(self) -> bool:
        """Whether the server and its children live. False from `kill` until `restart` returns."""
        return self.process.running()

    def state(self) -> str:
        """In words, whether the server lives or how it ended, and what it logged last."""
        return f"{self.program} {self.process.state()}; {self._log.last_errors()}"

    def kill(self) -> float:
        """SIGKILL to the server and its children; returns the monotonic moment. `restart` brings them back."""
        at = self.process.kill()
        self._cleared()
        return at

    def restart(self) -> StartUp:
        """Start the killed server at the same addresses and wait until it is ready; raises TrialFailed as entering does.

        For any thread. The log continues; the counters begin at zero."""
        return self._ready(time.monotonic())

    def _started(self) -> StartUp:
        for attempt in range(1, _PORT_TRIES + 1):
            self._choose_ports()
            try:
                return self._ready(time.monotonic())
            except TrialFailed:
                if attempt == _PORT_TRIES or not any(taken in self._log.text() for taken in _PORT_TAKEN):
                    raise
                self._stop()
        raise AssertionError("unreachable")

    def _ready(self, started: float) -> StartUp:
        self._log.begin()
        self.process.start(self._command(), {**self._environment(), **self.variables}, self.log)
        ready = self._wait(started)
        if ready is None:
            failure_class: FailureClass = "image_error" if image_requirements.find_image_fault(self._log.text()) else "server_error"
            raise TrialFailed(failure_class, f"not ready after {time.monotonic() - started:.1f}s: {self.state()}")
        self.process.refresh_children()
        return self._report(started, ready)

    def _timeout(self) -> TrialFailed:
        return TrialFailed("timeout", f"{self.program} was not ready within {self.ready_within_s:g}s; {self._log.last_errors()}")

    def _stop(self) -> None:
        self.process.stop()
        self._cleared()

    def _close(self) -> None:
        try:
            self.process.close()
        finally:
            self._cleared()
