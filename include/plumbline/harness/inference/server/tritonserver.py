"""A local tritonserver: find its installation, start it on free loopback ports, wait until it is ready, reload, kill and stop it."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tritonclient.utils import InferenceServerException

from plumbline.declarations.installation import REPOSITORY
from plumbline.declarations.workloads.engines import InferenceEngine
from plumbline.harness import engine_python
from plumbline.harness.inference.analysis.metrics import ServerCounters
from plumbline.harness.inference.server import control, metrics_page, shared_memory
from plumbline.harness.inference.server.local_server import HOST, POLL_S, LocalServer, StartUp, free_port
from plumbline.harness.measurement import TrialFailed

GAUGES_EVERY_S = 1.0
"""How often the server looks at its gauges, GPU memory among them."""
_ADDRESS = "PLUMBLINE_TRITON_ADDRESS"
"""The environment variable with the server's gRPC endpoint, read by models/retrieval.py."""


class Triton(LocalServer):
    """A tritonserver. `address` is its gRPC endpoint, `http_address` KServe over HTTP if `http` is set.

    `backend` is the model's: an engine's own backend sees the base's packages alone. Triton does not restart a model process, and requests to
    it hang: without one the server is not `running`, except during a `reload`."""

    program = "tritonserver"

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
        super().__init__(workdir, ready_within_s=ready_within_s, ports=ports, cpus=cpus, variables=variables, name=name)
        self.installation, self.repository, self.model, self.http, self.backend = installation, repository, model, http, backend
        self.http_address = ""
        self._shared_memory = f"{shared_memory.shared_memory_prefix()}{name}-"

    def view(self) -> ServerCounters | None:
        try:
            return control.server_counters(self.address, self.model, self.metrics_address)
        except InferenceServerException:
            return None

    def reload(self, within_s: float) -> None:
        """Unload the model and load it again; in between, requests are refused. Its counters begin at zero.

        Raises TrialFailed: "timeout" if either takes longer than `within_s`, "server_error" if the model does not come back.
        """
        self.process.ignore_model_exit()
        try:
            control.unload_model(self.address, self.model, within_s)
            control.load_model(self.address, self.model, within_s)
        except TimeoutError as error:
            raise TrialFailed("timeout", f"{error}; {self._log.last_errors()}") from error
        except InferenceServerException as error:
            late = error.status() == "StatusCode.DEADLINE_EXCEEDED"
            detail = f"reloading {self.model}: {error.status()}: {error.message()}; {self.state()}"
            raise TrialFailed("timeout" if late else "server_error", detail) from error
        self.process.refresh_children()

    def _prepare(self) -> None:
        shared_memory.sweep_shared_memory()
        self._backends = self.installation.backend_directory(self.workdir / f"{self.name}-backends")

    def _cleared(self) -> None:
        shared_memory.remove_shared_memory(self._shared_memory)

    def _choose_ports(self) -> None:
        self.address, self.metrics_address = (f"{HOST}:{self.ports()}" for _ in range(2))
        self.http_address = f"{HOST}:{self.ports()}" if self.http else ""

    def _environment(self) -> dict[str, str]:
        return {**self.installation.environment(self.backend), _ADDRESS: self.address}

    def _report(self, started: float, ready: float) -> StartUp:
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
            # A backend that is written in Python is the Python backend under another name.
            *(
                argument
                for name in sorted({"python", *({self.backend} & self.installation.python_backends())})
                for argument in ("--backend-config", f"{name},shm-region-prefix-name={self._shared_memory}")
            ),
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
                raise self._timeout()
            time.sleep(POLL_S)
        return None

    def _metrics_are_ours(self, deadline: float) -> bool:
        """The page opens last, and the log reports it open before its port is found taken."""
        while self.running() and time.monotonic() < deadline:
            with suppress(metrics_page.MetricsUnavailable):
                page = metrics_page.parse_metrics(metrics_page.fetch_metrics(self.metrics_address))
                if metrics_page.sum_metric(page, "nv_inference_request_success", self.model) is not None:
                    return self.running()
            time.sleep(POLL_S)
        return False


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

    def python_backends(self) -> set[str]:
        """Models that are a model.py which the Python backend runs."""
        return {name for name in self.backends() if (self.root / "backends" / name / "model.py").is_file()}

    def require(self, engine: InferenceEngine) -> None:
        """TrialFailed("image_error") unless it brings the engine's backend, and the engine Python the engine."""
        brings = f"the image tritonserver:YY.MM-{engine.image} brings it"
        if (backend := engine.triton_backend) not in (installed := self.backends()):
            raise TrialFailed("image_error", f"{self.server} has no {backend} backend, it has {', '.join(installed) or 'none'}; {brings}")
        if engine.package:
            remedy = f"{brings}, or set {engine_python.VARIABLE} to a Python that has it"
            engine_python.describe().require(engine.package, remedy)

    def require_input(self, backend: str, name: str, expected: str) -> None:
        """TrialFailed("image_error") unless a backend written in Python knows an input of that name."""
        folder = self.root / "backends" / backend
        if not any(name in source.read_text(encoding="utf-8") for source in folder.rglob("*.py")):
            raise TrialFailed("image_error", f"{folder} does not know the input {name}; expected {expected}")

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
    configured = os.environ.get(TRITONSERVER_VARIABLE)
    if configured:
        if not os.access(configured, os.X_OK) or not Path(configured).is_file():
            raise TrialFailed(
                "image_error",
                f"{TRITONSERVER_VARIABLE} is {configured}, which is not an executable file; expected the path of a tritonserver",
            )
        return Installation.of(Path(configured))
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
