"""A local tritonserver: start it on free loopback ports, wait until it is ready, reload, kill and stop it."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from tritonclient.utils import InferenceServerException
from typing_extensions import Unpack

from plumbline.harness import engine_python
from plumbline.harness.inference.analysis.metrics import ServerCounters
from plumbline.harness.inference.server import control, metrics_page, shared_memory
from plumbline.harness.inference.server.local_server import HOST, POLL_S, LocalServer, ServerOptions, StartUp
from plumbline.harness.inference.server.tritonserver import TritonInstallation
from plumbline.harness.measurement import TrialFailed

GAUGES_EVERY_S = 1.0
"""How often the server looks at its gauges, GPU memory among them."""
_ADDRESS = "PLUMBLINE_TRITON_ADDRESS"
"""The environment variable with the server's gRPC endpoint, read by models/model_client.py."""


class Triton(LocalServer):
    """A tritonserver. `address` is its gRPC endpoint, `http_address` KServe over HTTP if `http` is set.

    `backend` is the model's: an engine's own backend sees the base's packages alone. Triton does not restart a model process, and requests to
    it hang: without one the server is not `running`, except during a `reload`."""

    program = "tritonserver"

    def __init__(
        self,
        installation: TritonInstallation,
        repository: Path,
        model: str,
        workdir: Path,
        *,
        http: bool = False,
        backend: str = "python",
        **options: Unpack[ServerOptions],
    ) -> None:
        super().__init__(workdir, **options)
        self.installation, self.repository, self.model, self.http, self.backend = installation, repository, model, http, backend
        self.http_address = ""
        self._links: Path | None = None
        self._shared_memory = f"{shared_memory.shared_memory_prefix()}{self.name}-"

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
        backends = self.installation.backend_directory(self.workdir / f"{self.name}-backends")
        self._folders = {"models": self.repository, "backends": backends, "python": Path(engine_python.describe().prefix)}
        # The Python backend puts the first two into a line for bash, without quotes. Its Python, which knows no locale, decodes the last as
        # ASCII: with other letters in its prefix torch cannot be imported.
        if strange := [name for name, folder in self._folders.items() if shlex.quote(str(folder)) != str(folder)]:
            self._links = Path(tempfile.mkdtemp(prefix="plumbline-"))
            for name in strange:
                (self._links / name).symlink_to(self._folders[name], target_is_directory=True)
                self._folders[name] = self._links / name

    def _close(self) -> None:
        try:
            super()._close()
        finally:
            if self._links is not None:
                shutil.rmtree(self._links, ignore_errors=True)

    def _cleared(self) -> None:
        shared_memory.remove_shared_memory(self._shared_memory)

    def _choose_ports(self) -> None:
        self.address, self.metrics_address = (f"{HOST}:{self.ports()}" for _ in range(2))
        self.http_address = f"{HOST}:{self.ports()}" if self.http else ""

    def _environment(self) -> dict[str, str]:
        return {**self.installation.environment(self.backend, self._folders["python"]), _ADDRESS: self.address}

    def _report(self, started: float, ready: float) -> StartUp:
        about = self._log.about()
        if "prefix" in about:
            about["prefix"] = os.path.realpath(about["prefix"])  # what the link leads to
        return StartUp(started, ready, self._log.load_s(self.model), about)

    def _command(self) -> list[str]:
        def endpoint(name: str, address: str) -> tuple[str, ...]:
            host, port = address.split(":")
            return (f"--{name}-address", host, f"--{name}-port", port)

        return [
            str(self.installation.server),
            *("--model-repository", str(self._folders["models"]), "--backend-directory", str(self._folders["backends"])),
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
