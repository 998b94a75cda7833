"""A tritonserver of our own: started on free loopback ports, watched, and gone when the block ends, however it ends."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc

from plumbline.harness import image_faults
from plumbline.harness.inference import control, scrape, shared_memory
from plumbline.harness.inference.installation import Installation
from plumbline.harness.inference.server_view import ServerView
from plumbline.harness.inference.serverlog import ServerLog
from plumbline.harness.inference.serverprocess import ServerProcess
from plumbline.harness.measurement import TrialFailed
from plumbline.results import FailureClass

GAUGES_EVERY_S = 1.0
"""How often the server looks at its gauges, GPU memory among them."""
_HOST = "127.0.0.1"
_ADDRESS = "PLUMBLINE_TRITON_ADDRESS"
"""The environment variable by which a model knows the server's gRPC endpoint: models/retrieval/server.py reads it."""
_PORT_TRIES = 5
_POLL_S = 0.01
_TAKEN = ("already in use", "at the same address and port")


@dataclass(frozen=True)
class StartUp:
    """How the server came up. `time_to_ready_s` from the start of its process; `model_load_s` by its log (None if it does not say);
    `started` and `ready` monotonic seconds; `about` what the model said of itself."""

    started: float
    ready: float
    model_load_s: float | None
    about: dict[str, Any]

    @property
    def time_to_ready_s(self) -> float:
        return self.ready - self.started


@dataclass(frozen=True)
class Reload:
    """Unloading, which waits for running requests, and loading: seconds of each; `began` and `ended` are monotonic seconds."""

    unload_s: float
    load_s: float
    began: float
    ended: float


def free_port() -> int:
    """A loopback port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return int(probe.getsockname()[1])


class Triton:
    """A context manager around one server. `address` is host:port of its gRPC endpoint, `metrics_address` of its metrics page, and
    `http_address` of KServe over HTTP if `http` asks for it: else that stays closed, a port less is a race less.

    `backend` is the model's: an engine's own backend sees the base's packages alone.

    `name`: of its log and its backends' folder in `workdir`, where several servers run. `variables`: added to its environment.

    A port that somebody takes between its choice and the server's start is a reason to try the next ones of `ports`. `cpus`: the server and
    its model processes run on these only. Entering raises TrialFailed: "image_error" without a usable server, "server_error" if it ends or
    its model does not load, "timeout" if it is not ready in time.
    """

    def __init__(
        self,
        installation: Installation,
        repository: Path,
        model: str,
        workdir: Path,
        *,
        ready_within_s: float,
        ports: Callable[[], int] = free_port,
        cpus: Collection[int] | None = None,
        http: bool = False,
        backend: str = "python",
        variables: Mapping[str, str] | None = None,
        name: str = "server",
    ) -> None:
        self.installation, self.repository, self.model = installation, repository, model
        self.workdir, self.ready_within_s, self.ports, self.http, self.backend = workdir, ready_within_s, ports, http, backend
        self.address = self.metrics_address = self.http_address = ""
        self.variables, self.name = dict(variables or {}), name
        self._log = ServerLog(workdir / f"{name}.log")
        self.log = self._log.path
        self._process = ServerProcess(cpus)
        self._shared_memory = f"{shared_memory.prefix()}{name}-"

    def __enter__(self) -> Triton:
        shared_memory.sweep()
        try:
            self._backends = self.installation.backend_directory(self.workdir / f"{self.name}-backends")
            self.start_up = self._started()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._close()

    @property
    def pid(self) -> int:
        """Process id of the server."""
        return self._process.pid

    def give_up(self) -> None:
        """Let a start that another thread waits for fail now, with whatever it raises; that thread closes the server."""
        self._process.give_up()

    def running(self) -> bool:
        """Whether the server and its model processes live. Triton does not start a model process again: requests to it then hang.

        False from `kill` until `start_again` has come back; True all through a `reload`.
        """
        return self._process.running()

    def resident_bytes(self) -> int:
        """Resident memory of the server and its model processes; 0 once they have ended."""
        return self._process.resident_bytes()

    def forget_peak(self) -> bool:
        """Let `peak_resident_bytes` begin anew; False where the kernel does not offer that."""
        return self._process.forget_peak()

    def peak_resident_bytes(self) -> int | None:
        """Highest resident memory of the server and its model processes since `forget_peak`; None if one of them has ended."""
        return self._process.peak_resident_bytes()

    def view(self) -> ServerView | None:
        """The server's counters now; None if it does not answer."""
        try:
            return control.statistics(self.address, self.model, self.metrics_address)
        except grpc.RpcError:
            return None

    def state(self) -> str:
        """In words, whether the server lives or how it ended, and what it logged last."""
        return f"tritonserver {self._process.state()}; {self.complaint()}"

    def complaint(self) -> str:
        """The log's last errors, or its last lines if it has none."""
        return self._log.complaint()

    def kill(self) -> float:
        """End the server and its model processes at once with SIGKILL; returns the monotonic moment. `start_again` is the way back."""
        at = self._process.kill()
        shared_memory.remove(self._shared_memory)
        return at

    def start_again(self) -> StartUp:
        """Start the killed server at the same addresses and wait until it is ready; raises TrialFailed as entering does.

        Any thread may call it. The log goes on in the same file; the counters begin at zero.
        """
        return self._ready(time.monotonic())

    def reload(self, within_s: float) -> Reload:
        """Unload the model and load it again; in between, requests are refused. Its counters begin at zero.

        Raises TrialFailed: "timeout" if either takes longer than `within_s`, "server_error" if the model does not come back.
        """
        self._process.forget_models()
        began = time.monotonic()
        try:
            control.unload(self.address, self.model, within_s)
            unloaded = time.monotonic()
            control.load(self.address, self.model, within_s)
        except TimeoutError as error:
            raise TrialFailed("timeout", f"{error}; {self.complaint()}") from error
        except grpc.RpcError as error:
            late = error.code() == grpc.StatusCode.DEADLINE_EXCEEDED
            told = f"reloading {self.model}: {error.code().name}: {error.details()}; {self.state()}"
            raise TrialFailed("timeout" if late else "server_error", told) from error
        ended = time.monotonic()
        self._process.note_family()
        return Reload(unloaded - began, ended - unloaded, began, ended)

    def _started(self) -> StartUp:
        for attempt in range(1, _PORT_TRIES + 1):
            self.address, self.metrics_address = (f"{_HOST}:{self.ports()}" for _ in range(2))
            self.http_address = f"{_HOST}:{self.ports()}" if self.http else ""
            try:
                return self._ready(time.monotonic())
            except TrialFailed:
                if attempt == _PORT_TRIES or not any(taken in self._log.text() for taken in _TAKEN):
                    raise
                self._stop()
        raise AssertionError("unreachable")

    def _ready(self, started: float) -> StartUp:
        self._log.begin()
        self._process.start(
            self._command(), {**self.installation.environment(self.backend), **self.variables, _ADDRESS: self.address}, self.log
        )
        ready = self._wait(started)
        if ready is None:
            failure_class: FailureClass = "image_error" if image_faults.sign(self._log.text()) else "server_error"
            raise TrialFailed(failure_class, f"not ready after {time.monotonic() - started:.1f}s: {self.state()}")
        self._process.note_family()
        return StartUp(started, ready, self._log.load_s(self.model), self._log.about())

    def _command(self) -> list[str]:
        def endpoint(name: str, address: str) -> tuple[str, ...]:
            host, port = address.split(":")
            return (f"--{name}-address", host, f"--{name}-port", port)

        return [
            str(self.installation.server),
            *("--model-repository", str(self.repository), "--backend-directory", str(self._backends)),
            *endpoint("grpc", self.address),
            *endpoint("metrics", self.metrics_address),
            *("--metrics-interval-ms", f"{GAUGES_EVERY_S * 1e3:.0f}"),
            *(endpoint("http", self.http_address) if self.http else ("--allow-http", "false")),
            # So that a model can be unloaded and loaded again.
            *("--model-control-mode", "explicit", "--load-model", "*"),
            # Otherwise each model process is started twice, the first time only to ask it for its configuration.
            "--disable-auto-complete-config",
            *("--backend-config", f"python,shm-region-prefix-name={self._shared_memory}"),
        ]

    def _wait(self, started: float) -> float | None:
        """The monotonic moment of readiness; None if the server ended."""
        deadline = started + self.ready_within_s
        while self.running():
            # Until its own log says that the endpoint is open, whoever answers there is somebody else.
            if self._log.opened(self.address) and control.ready(self.address, self.model, within_s=max(0.1, deadline - time.monotonic())):
                ready = time.monotonic()
                if self._metrics_are_ours(deadline):
                    return ready
            if time.monotonic() > deadline:
                raise TrialFailed("timeout", f"tritonserver was not ready within {self.ready_within_s:g}s; {self.complaint()}")
            time.sleep(_POLL_S)
        return None

    def _metrics_are_ours(self, deadline: float) -> bool:
        """Whether the metrics page is this server's. It opens last, and the log says that it is open before its port is found taken."""
        while self.running() and time.monotonic() < deadline:
            with suppress(scrape.Unavailable):
                page = scrape.samples(scrape.fetch(self.metrics_address))
                if scrape.total(page, "nv_inference_request_success", self.model) is not None:
                    return self.running()
            time.sleep(_POLL_S)
        return False

    def _stop(self) -> None:
        self._process.stop()
        shared_memory.remove(self._shared_memory)

    def _close(self) -> None:
        try:
            self._process.close()
        finally:
            shared_memory.remove(self._shared_memory)
