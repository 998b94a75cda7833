"""The servers under the load clients, each on a core of its own: a Triton whose model returns its input, and one that only answers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import psutil
import tritonclient.grpc as triton
from load_drive import MODEL, VALUES
from tritonclient.utils import InferenceServerException

from plumbline.harness import parent_guard
from plumbline.harness.gang.channel import free_port
from plumbline.harness.inference.server.tritonserver import find_installation

CONFIG = f"""\
name: "{MODEL}"
backend: "python"
max_batch_size: 64
input [ {{ name: "IN" data_type: TYPE_FP32 dims: [ {VALUES} ] }} ]
output [ {{ name: "OUT" data_type: TYPE_FP32 dims: [ {VALUES} ] }} ]
dynamic_batching {{ max_queue_delay_microseconds: 500 }}
instance_group [ {{ kind: KIND_CPU count: 1 }} ]
"""
# By DLPack: an output from a numpy 2 array leaves this backend with the right shape but no bytes.
SOURCE = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        inputs = [pb_utils.get_input_tensor_by_name(request, "IN") for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("OUT", tensor.to_dlpack())]) for tensor in inputs]
"""
CORES = sorted(os.sched_getaffinity(0))
SERVER_CORE, CLIENT_CORE = str(CORES[0]), str(CORES[-1])
"""A core each, so that neither takes the other's time; the same one where there is only one."""
STILL = 5
"""Looks at the counts, 0.2 s apart, between which an idle server answers nothing."""


class Server:
    """A context manager around the server. `grpc` and `http` are host:port on loopback; `http` is empty where it speaks gRPC alone."""

    name, needs = "triton", "a Triton whose model returns its input"

    def __init__(self, workdir: Path) -> None:
        self.workdir = workdir
        self.grpc, self.http = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Server:
        installation = find_installation()
        version = self.workdir / "models" / MODEL / "1"
        version.mkdir(parents=True)
        (version / "model.py").write_text(SOURCE, encoding="utf-8")
        (version.parent / "config.pbtxt").write_text(CONFIG, encoding="utf-8")
        backends = installation.backend_directory(self.workdir / "backends")
        command = [
            *("taskset", "-c", SERVER_CORE, sys.executable, "-I", "-S", parent_guard.__file__, str(os.getpid()), str(installation.server)),
            *("--model-repository", str(self.workdir / "models"), "--backend-directory", str(backends)),
            *("--grpc-address", "127.0.0.1", "--grpc-port", self.grpc.split(":")[1]),
            *("--http-address", "127.0.0.1", "--http-port", self.http.split(":")[1]),
            *("--allow-metrics", "false", "--disable-auto-complete-config"),
        ]
        log = (self.workdir / "server.log").open("wb")
        with log:
            self._process = subprocess.Popen(
                command, env=installation.environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        try:
            self._client = triton.InferenceServerClient(self.grpc)
            self._wait()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._client.close()
        self._stop()

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def served(self) -> tuple[int, int]:
        """Successful and failed requests since the start, from the server's statistics."""
        statistics = self._client.get_inference_statistics(MODEL).model_stats[0].inference_stats
        return int(statistics.success.count), int(statistics.fail.count)

    def settle(self) -> None:
        """Wait until the server is idle: a client that was ended far behind leaves a backlog, which the server answers in bursts."""
        deadline, before, same = time.monotonic() + 30.0, -1, 0
        while same < STILL:
            if time.monotonic() > deadline:
                raise RuntimeError("the server still answers 30 s after its client has ended")
            now = sum(self.served())
            before, same = now, same + 1 if now == before else 0
            time.sleep(0.2)

    def _wait(self) -> None:
        deadline = time.monotonic() + 60.0
        while time.monotonic() < deadline:
            if not self.running():
                break
            with suppress(InferenceServerException):
                if self._client.is_model_ready(MODEL):
                    return
            time.sleep(0.05)
        tail = (self.workdir / "server.log").read_text(encoding="utf-8", errors="replace").splitlines()[-5:]
        raise RuntimeError(f"tritonserver was not ready within 60 s; its log ends: {' | '.join(tail)}")

    def _stop(self) -> None:
        if self._process is None:
            return
        if self.running():
            self._process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(10)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(5)


class EchoServer(Server):
    """The server of load_echo.py. What it can answer on its core is above what one client core can ask for: see the report."""

    name, needs = "echo", "a server that only answers"

    def __enter__(self) -> EchoServer:
        command = ["taskset", "-c", SERVER_CORE, sys.executable, str(Path(__file__).with_name("load_echo.py"))]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        assert self._process.stdout is not None
        self.grpc, self.http = self._process.stdout.readline().decode().strip(), ""
        self._client = triton.InferenceServerClient(self.grpc)
        return self

    def cpu_s(self) -> float:
        """CPU seconds of the server so far: beside its requests, what is left of its core."""
        assert self._process is not None
        times = psutil.Process(self._process.pid).cpu_times()
        return float(times.user + times.system)
