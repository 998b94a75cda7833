"""A local tritonserver: find its installation, start it on free loopback ports, wait until it is ready, reload, kill and stop it."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc

from plumbline.declarations.installation import REPOSITORY
from plumbline.declarations.workloads.engines import ENGINES
from plumbline.harness import engine_python, image_requirements
from plumbline.harness.inference.analysis.metrics import ServerCounters
from plumbline.harness.inference.server import control, process
from plumbline.harness.inference.server.process import ServerLog, ServerProcess
from plumbline.harness.measurement import TrialFailed
from plumbline.results import FailureClass

GAUGES_EVERY_S = 1.0
"""How often the server looks at its gauges, GPU memory among them."""
_HOST = "127.0.0.1"
_ADDRESS = "PLUMBLINE_TRITON_ADDRESS"
"""The environment variable with the server's gRPC endpoint, read by models/retrieval.py."""
_PORT_TRIES = 5
_POLL_S = 0.01
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


@dataclass(frozen=True)
class Reload:
    """Unloading, which waits for running requests, and loading: seconds of each; `began` and `ended` are monotonic seconds."""

    unload_s: float
    load_s: float
    began: float
    ended: float


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return int(probe.getsockname()[1])


class Triton:
    """A context manager around one server. `address` is host:port of its gRPC endpoint, `metrics_address` of its metrics page,
    `http_address` of KServe over HTTP if `http` is set.

    `backend` is the model's: an engine's own backend sees the base's packages alone. `name`: of its log and its backends' folder in `workdir`.
    `variables`: added to its environment. `ports`: tried in turn if a port is taken in between. `cpus`: the server and its model processes
    run on these only. Entering raises TrialFailed: "image_error" without a usable server, "server_error" if it ends or its model does not
    load, "timeout" if it is not ready in time."""

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
        self._shared_memory = f"{process.shared_memory_prefix()}{name}-"

    def __enter__(self) -> Triton:
        process.sweep_shared_memory()
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
        return self._process.pid

    def abort_start(self) -> None:
        """Let a start that another thread waits for fail now, with whatever it raises; that thread closes the server."""
        self._process.abort_start()

    def running(self) -> bool:
        """Whether the server and its model processes live; Triton does not restart a model process, and requests to it hang.

        False from `kill` until `restart` returns; True during a `reload`."""
        return self._process.running()

    def resident_bytes(self) -> int:
        return self._process.resident_bytes()

    def reset_peak(self) -> bool:
        """Reset `peak_resident_bytes`; False where the kernel does not offer that."""
        return self._process.reset_peak()

    def peak_resident_bytes(self) -> int | None:
        """Peak resident memory since `reset_peak`; None if a process has ended."""
        return self._process.peak_resident_bytes()

    def view(self) -> ServerCounters | None:
        """The server's counters now; None if it does not answer."""
        try:
            return control.server_counters(self.address, self.model, self.metrics_address)
        except grpc.RpcError:
            return None

    def state(self) -> str:
        """In words, whether the server lives or how it ended, and what it logged last."""
        return f"tritonserver {self._process.state()}; {self.last_errors()}"

    def last_errors(self) -> str:
        return self._log.last_errors()

    def kill(self) -> float:
        """SIGKILL to the server and its model processes; returns the monotonic moment. `restart` brings them back."""
        at = self._process.kill()
        process.remove_shared_memory(self._shared_memory)
        return at

    def restart(self) -> StartUp:
        """Start the killed server at the same addresses and wait until it is ready; raises TrialFailed as entering does.

        For any thread. The log continues; the counters begin at zero."""
        return self._ready(time.monotonic())

    def reload(self, within_s: float) -> Reload:
        """Unload the model and load it again; in between, requests are refused. Its counters begin at zero.

        Raises TrialFailed: "timeout" if either takes longer than `within_s`, "server_error" if the model does not come back.
        """
        self._process.ignore_model_exit()
        began = time.monotonic()
        try:
            control.unload_model(self.address, self.model, within_s)
            unloaded = time.monotonic()
            control.load_model(self.address, self.model, within_s)
        except TimeoutError as error:
            raise TrialFailed("timeout", f"{error}; {self.last_errors()}") from error
        except grpc.RpcError as error:
            late = error.code() == grpc.StatusCode.DEADLINE_EXCEEDED
            detail = f"reloading {self.model}: {error.code().name}: {error.details()}; {self.state()}"
            raise TrialFailed("timeout" if late else "server_error", detail) from error
        ended = time.monotonic()
        self._process.refresh_children()
        return Reload(unloaded - began, ended - unloaded, began, ended)

    def _started(self) -> StartUp:
        for attempt in range(1, _PORT_TRIES + 1):
            self.address, self.metrics_address = (f"{_HOST}:{self.ports()}" for _ in range(2))
            self.http_address = f"{_HOST}:{self.ports()}" if self.http else ""
            try:
                return self._ready(time.monotonic())
            except TrialFailed:
                if attempt == _PORT_TRIES or not any(taken in self._log.text() for taken in _PORT_TAKEN):
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
            failure_class: FailureClass = "image_error" if image_requirements.find_image_fault(self._log.text()) else "server_error"
            raise TrialFailed(failure_class, f"not ready after {time.monotonic() - started:.1f}s: {self.state()}")
        self._process.refresh_children()
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
        deadline = started + self.ready_within_s
        while self.running():
            # Until its own log says that the endpoint is open, whoever answers there is somebody else.
            if self._log.opened(self.address) and control.is_ready(
                self.address, self.model, within_s=max(0.1, deadline - time.monotonic())
            ):
                ready = time.monotonic()
                if self._metrics_are_ours(deadline):
                    return ready
            if time.monotonic() > deadline:
                raise TrialFailed("timeout", f"tritonserver was not ready within {self.ready_within_s:g}s; {self.last_errors()}")
            time.sleep(_POLL_S)
        return None

    def _metrics_are_ours(self, deadline: float) -> bool:
        """The page opens last, and the log reports it open before its port is found taken."""
        while self.running() and time.monotonic() < deadline:
            with suppress(control.MetricsUnavailable):
                page = control.parse_metrics(control.fetch_metrics(self.metrics_address))
                if control.sum_metric(page, "nv_inference_request_success", self.model) is not None:
                    return self.running()
            time.sleep(_POLL_S)
        return False

    def _stop(self) -> None:
        self._process.stop()
        process.remove_shared_memory(self._shared_memory)

    def _close(self) -> None:
        try:
            self._process.close()
        finally:
            process.remove_shared_memory(self._shared_memory)


TRITONSERVER_VARIABLE = "PLUMBLINE_TRITONSERVER"
_STUB = "triton_python_backend_stub"


@dataclass(frozen=True)
class Installation:
    """`root` holds bin/ and backends/, `libraries` what the server needs besides the system's."""

    server: Path
    root: Path
    libraries: Path | None

    @classmethod
    def of(cls, server: Path) -> Installation:
        """The installation that a server binary belongs to: an unpacked nvidia-pytriton wheel or NVIDIA's container."""
        root = server.resolve().parent.parent
        bundled = root.parent.parent / "nvidia_pytriton.libs"
        return cls(server, root, bundled if bundled.is_dir() else None)

    def backend_parts(self) -> dict[str, Path]:
        """The files of the Python backend by the name that they must have; TrialFailed("image_error") if one is missing."""
        backend = self.root / "backends" / "python"
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        # The wheel keeps one stub a Python version; NVIDIA's container has the one of its own Python beside the backend.
        stubs = [self.root / "python_backend_stubs" / version / _STUB, backend / _STUB]
        parts = {name: backend / name for name in ("libtriton_python.so", "triton_python_backend_utils.py")}
        parts[_STUB] = next((stub for stub in stubs if stub.is_file()), stubs[0])
        for name, path in parts.items():
            if not path.is_file():
                raise TrialFailed("image_error", f"{self.server} has no {name} for Python {version}: {path} is missing")
        return parts

    def backends(self) -> tuple[str, ...]:
        """Sorted."""
        folder = self.root / "backends"
        return tuple(sorted(path.name for path in folder.iterdir() if path.is_dir())) if folder.is_dir() else ()

    def require(self, backend: str) -> None:
        """TrialFailed("image_error") unless it brings `backend`."""
        if backend not in (found := self.backends()):
            brings = f"; the image tritonserver:YY.MM-{ENGINES[backend].image} brings it" if backend in ENGINES else ""
            raise TrialFailed("image_error", f"{self.server} has no {backend} backend, it has {', '.join(found) or 'none'}{brings}")

    def backend_directory(self, folder: Path) -> Path:
        """Lay out the backends in `folder` and return it: the Python backend's stub must lie beside its library, all others as they are."""
        python = folder / "python"
        python.mkdir(parents=True, exist_ok=True)
        for name, path in self.backend_parts().items():
            shutil.copy2(path, python / name)
        for backend in self.backends():
            link = folder / backend
            if not link.exists():
                link.symlink_to(self.root / "backends" / backend, target_is_directory=True)
        return folder

    def environment(self, backend: str = "python") -> dict[str, str]:
        """The server's environment variables: its Python models run on the engine Python, with its packages.

        Models of ours (`backend` python) find the harness's packages behind the base's; an engine's own backend does not see them.
        """
        python = engine_python.describe()
        libraries = [str(self.libraries)] if self.libraries else []
        # Without this the stub takes whichever libpython the system has, or finds none.
        libraries.append(python.libraries)
        if inherited := os.environ.get("LD_LIBRARY_PATH"):
            libraries.append(inherited)
        first = str(Path(python.executable).parent if python.apart else Path(sys.prefix) / "bin")
        variables = {
            **os.environ,
            "LD_LIBRARY_PATH": os.pathsep.join(libraries),
            "PATH": os.pathsep.join([first, os.environ.get("PATH", os.defpath)]),
        }
        if python.apart:
            variables["PYTHONPATH"] = os.pathsep.join(python.search_path if backend == "python" else python.base_path)
        return variables


def find_installation() -> Installation:
    """TrialFailed("image_error") names the searched places and the remedy."""
    named = os.environ.get(TRITONSERVER_VARIABLE)
    if named:
        if not os.access(named, os.X_OK) or not Path(named).is_file():
            raise TrialFailed(
                "image_error", f"{TRITONSERVER_VARIABLE} is {named}, which is not an executable file; expected the path of a tritonserver"
            )
        return Installation.of(Path(named))
    unpacked = REPOSITORY / ".triton" / "pytriton" / "tritonserver" / "bin" / "tritonserver"
    if unpacked.is_file():
        return Installation.of(unpacked)
    on_path = shutil.which("tritonserver")
    if on_path:
        return Installation.of(Path(on_path))
    raise TrialFailed(
        "image_error",
        f"no tritonserver: {TRITONSERVER_VARIABLE} is not set, {unpacked} does not exist and none is on PATH; `make setup` unpacks one, "
        "the inference image brings its own",
    )
