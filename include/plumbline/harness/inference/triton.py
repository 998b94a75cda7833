"""A tritonserver of our own: started on a free loopback port, watched, and gone when the block ends, however it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from plumbline.harness.inference import control, guarded, shared_memory
from plumbline.harness.inference.installation import Installation
from plumbline.harness.measurement import TrialFailed

_PORT_TRIES = 5
_POLL_S = 0.01
_OPEN = "Started GRPCInferenceService at {address}"
_TERM_S, _KILL_S = 10.0, 5.0
_STAMP = re.compile(r"^[A-Z](\d{4} \d\d:\d\d:\d\d\.\d{6}) \d+ [^\]]*\] (.*)$")
# What every start without a GPU logs as an error or a warning, and nobody needs to read in a failure's detail.
_HARMLESS = re.compile(r"NVML|DCGM|CudaDriverHelper|pinned memory|CUDA (driver|memory)|libcuda", re.IGNORECASE)


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


def free_port() -> int:
    """A loopback port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Triton:
    """A context manager around one server process. `address` is host:port of its gRPC endpoint.

    HTTP and metrics endpoints stay closed: one port is one race less, and the server spends no time on polling devices. A port that
    somebody takes between its choice and the server's start is a reason to try the next one of `ports`.
    Entering raises TrialFailed: "image_error" without a usable server, "server_error" if it ends or its model does not load, "timeout"
    if it is not ready in time.
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
    ) -> None:
        self.installation, self.repository, self.model = installation, repository, model
        self.workdir, self.ready_within_s, self.ports = workdir, ready_within_s, ports
        self.log = workdir / "server.log"
        self.address = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._family: list[psutil.Process] = []
        self._shared_memory = shared_memory.prefix()

    def __enter__(self) -> Triton:
        shared_memory.sweep()
        try:
            self.start_up = self._started()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop()

    @property
    def pid(self) -> int:
        """Process id of the server."""
        assert self._process is not None
        return self._process.pid

    def running(self) -> bool:
        """Whether the server and its model processes live. Triton does not start a model process again: requests to it then hang."""
        return self._process is not None and self._process.poll() is None and not any(map(_dead, self._family))

    def resident_bytes(self) -> int:
        """Resident memory of the server and its model processes; 0 once they have ended."""
        total = 0
        for process in self._family:
            with suppress(psutil.NoSuchProcess):
                total += process.memory_info().rss
        return total

    def state(self) -> str:
        """In words, whether the server lives or how it ended, and what it logged last."""
        code = self._process.poll() if self._process else None
        alive = "is running" if self.running() else "lost its model process"
        how = alive if code is None else f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return f"tritonserver {how}; {self.complaint()}"

    def complaint(self) -> str:
        """The log's last errors, or its last lines if it has none."""
        lines = [line for line in self._logged().splitlines() if line.strip() and line[0] not in "+|"]
        errors = [line for line in lines if line.startswith(("E", "error:")) and not _HARMLESS.search(line)]
        chosen = (errors or lines)[-5:]
        return f"its log says: {' | '.join(line.strip() for line in chosen)}" if chosen else "its log is empty"

    def _logged(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""

    def _started(self) -> StartUp:
        backends = self.installation.backend_directory(self.workdir / "backends")
        for attempt in range(1, _PORT_TRIES + 1):
            port = self.ports()
            self.address = f"127.0.0.1:{port}"
            started = time.monotonic()
            self._launch(backends, port)
            ready = self._wait(started)
            if ready is not None:
                server = psutil.Process(self.pid)
                # Noted once: walking all of the machine's processes takes milliseconds that a running measurement does not have.
                self._family = [server, *server.children(recursive=True)]
                return StartUp(started, ready, *self._from_log())
            if "already in use" not in self._logged() or attempt == _PORT_TRIES:
                raise TrialFailed("server_error", f"not ready after {time.monotonic() - started:.1f}s: {self.state()}")
            self._stop()
        raise AssertionError("unreachable")

    def _launch(self, backends: Path, port: int) -> None:
        command = [
            *(sys.executable, "-I", "-S", guarded.__file__, str(os.getpid()), str(self.installation.server)),
            *("--model-repository", str(self.repository), "--backend-directory", str(backends)),
            *("--grpc-address", "127.0.0.1", "--grpc-port", str(port), "--allow-http", "false", "--allow-metrics", "false"),
            # Otherwise each model process is started twice, the first time only to ask it for its configuration.
            "--disable-auto-complete-config",
            *("--backend-config", f"python,shm-region-prefix-name={self._shared_memory}"),
        ]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command, env=self.installation.environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _wait(self, started: float) -> float | None:
        """The monotonic moment of readiness; None if the server ended."""
        deadline = started + self.ready_within_s
        while self.running():
            # Until its own log says that the endpoint is open, whoever answers there is somebody else.
            if _OPEN.format(address=self.address) in self._logged() and control.ready(
                self.address, self.model, within_s=max(0.1, deadline - time.monotonic())
            ):
                return time.monotonic()
            if time.monotonic() > deadline:
                raise TrialFailed("timeout", f"tritonserver was not ready within {self.ready_within_s:g}s; {self.complaint()}")
            time.sleep(_POLL_S)
        return None

    def _from_log(self) -> tuple[float | None, dict[str, Any]]:
        """Load time of the model by the log's own timestamps, and the line in which the model says what it is."""
        began = ended = None
        about: dict[str, Any] = {}
        for line in self._logged().splitlines():
            match = _STAMP.match(line)
            if match is None:
                continue
            at, text = match[1], _unquoted(match[2])
            if text.startswith(f"loading: {self.model}:"):
                began = _moment(at)
            elif text.startswith(f"successfully loaded '{self.model}'"):
                ended = _moment(at)
            elif "plumbline-model " in text:
                about = json.loads(text.split("plumbline-model ", 1)[1])
        # The log's moments have no year: over New Year their difference says nothing.
        return (ended - began if began is not None and ended is not None and ended >= began else None), about

    def _stop(self) -> None:
        """End the server gracefully, then by force, with every process that it started."""
        process, family = self._process, list(self._family)
        if process is None:
            return
        with suppress(psutil.NoSuchProcess):
            family += psutil.Process(process.pid).children(recursive=True)
        try:
            # A server that lost its model process waits for it in vain: it only has to go.
            if self.running():
                process.send_signal(signal.SIGTERM)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_TERM_S)
        finally:
            # Not only after a timeout: a second interrupt during the wait above must not leave anything behind either.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(_KILL_S)
            for member in family:
                with suppress(psutil.NoSuchProcess):
                    member.kill()
            psutil.wait_procs(family, timeout=_KILL_S)
            shared_memory.remove(self._shared_memory)
            self._process, self._family = None, []


def _dead(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def _unquoted(message: str) -> str:
    try:
        text = json.loads(message)
    except ValueError:
        return message  # tables and older versions' messages are not quoted
    return text if isinstance(text, str) else message


def _moment(stamp: str) -> float:
    # Triton writes month and day but no year; only differences are used. 2000 is a leap year.
    return datetime.strptime(f"2000{stamp}", "%Y%m%d %H:%M:%S.%f").replace(tzinfo=timezone.utc).timestamp()
