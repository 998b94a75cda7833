"""The server under test as a phase sees it: local replicas of Triton or of an OpenAI-compatible server, or an external server."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import reduce
from itertools import takewhile
from operator import add
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, TypeVar

import numpy as np

from plumbline.declarations import InferenceWorkload
from plumbline.declarations.providers.provider import Accelerator
from plumbline.harness.gpu_monitor import GpuPhaseMonitor
from plumbline.harness.inference.analysis import validity
from plumbline.harness.inference.analysis.metrics import ServerCounters, energy_rows
from plumbline.harness.inference.endpoint import (
    Endpoint,
    cached_token_rows,
    classify_failure,
    openai_wire,
    token_count_source,
    tokens_per_arrival,
)
from plumbline.harness.inference.server.backends import Repository
from plumbline.harness.inference.server.local_server import LocalServer, StartUp
from plumbline.harness.inference.server.metrics_page import Scraper
from plumbline.harness.inference.server.openai_server import OpenAiServer
from plumbline.harness.inference.server.triton import GAUGES_EVERY_S, Triton
from plumbline.harness.measurement import TrialFailed, TrialJudgement, present, telemetry_row
from plumbline.loadclient.http_requests import completion_request
from plumbline.loadclient.prompt import Prompt
from plumbline.loadclient.request_log import RequestLog
from plumbline.loadclient.transport import Target
from plumbline.metrics import LoadPhase
from plumbline.results import FailureClass, MetricRow, Telemetry, metric_row

RELOAD_WITHIN_S = 120.0
_COUNT_WITHIN_S = 1.0
_GPUS_EVERY_S = 1.0


@dataclass
class PeakMemory:
    """`bytes` is set after the block; None: unknown."""

    bytes: int | None = None


Server = TypeVar("Server", bound=LocalServer)


class ManagedServers(ABC, Generic[Server]):
    """Servers that the harness started: `replicas` of one model that share the load. What an `ExternalServer` has too is documented here."""

    def __init__(self, *servers: Server) -> None:
        self.servers = servers
        self.replicas = len(servers)
        self._answered = 0

    @abstractmethod
    def target(self, running: Callable[[], bool] | None = None) -> Target:
        """`running` replaces the servers' own: a fault ends them for a while without ending the phase."""

    @abstractmethod
    def body(self, number: int, prompt: Prompt, output_tokens: int) -> bytes:
        """Request `number`, serialised."""

    @abstractmethod
    def _empty(self, k: int) -> None:
        """Empty one server's memory, its prefix cache included; its counters begin at zero."""

    @property
    def start_up(self) -> StartUp:
        """Times from the first start to the last readiness, with the slowest load and the first model's report."""
        ups = [server.start_up for server in self.servers]
        loads = [up.model_load_s for up in ups if up.model_load_s is not None]
        load_s = max(loads) if len(loads) == len(ups) else None
        return StartUp(min(up.started for up in ups), max(up.ready for up in ups), load_s, ups[0].about)

    def running(self) -> bool:
        return all(server.running() for server in self.servers)

    def state(self) -> str:
        """The state and last output of those that ended, else of all."""
        ended = [k for k, server in enumerate(self.servers) if not server.running()]
        return self._states(ended or range(self.replicas))

    def _states(self, which: Iterable[int]) -> str:
        return "; ".join(replica_label(k, self.replicas, self.servers[k].state()) for k in which)

    def failure(self, log: RequestLog) -> tuple[FailureClass, str]:
        """Class and reason of a log without valid answers."""
        quiet = silent_replicas(log, self.replicas)
        return "server_error", f"{format_outcome(log)}; {self._states(quiet) if quiet else self.state()}"

    def rows(self, log: RequestLog) -> list[MetricRow]:
        """Rows that only this kind of server has."""
        return []

    def judgements(self, log: RequestLog) -> list[TrialJudgement]:
        """Judgements on a steady phase that only this kind of server needs."""
        return present(validity.pace_unmeasured(log))

    def answered(self, requests: int) -> None:
        """Record further answers, which the counters must reach."""
        self._answered += requests

    def reload(self) -> None:
        """Empties their memory and resets their counters."""
        with ThreadPoolExecutor(self.replicas, "reload") as pool:
            list(pool.map(self._reload, range(self.replicas)))
        self._answered = 0

    def _reload(self, k: int) -> None:
        try:
            self._empty(k)
        except TrialFailed as failure:
            raise TrialFailed(failure.failure_class, replica_label(k, self.replicas, failure.detail)) from failure

    def view(self) -> ServerCounters | None:
        """Their counters, once they hold every answered request; None if unavailable."""
        # A request is counted after its answer was sent.
        deadline = time.monotonic() + _COUNT_WITHIN_S
        view = self._view()
        while view is not None and view.succeeded < self._answered and time.monotonic() < deadline:
            time.sleep(0.02)
            view = self._view()
        return view

    def _view(self) -> ServerCounters | None:
        views = [view for server in self.servers if (view := server.view()) is not None]
        return reduce(add, views) if len(views) == self.replicas else None

    def beside(self, phase: LoadPhase) -> AbstractContextManager[PhaseSampler]:
        return _ServerSampler(self.servers, phase)

    @contextmanager
    def peak_memory(self, *, gpu: bool) -> Iterator[PeakMemory]:
        """Peak memory during the block, on its GPUs or of the machine; single servers only."""
        peak, server = PeakMemory(), self.servers[0]
        reset = server.process.reset_peak()
        yield peak
        if gpu:
            # Allocators of GPU memory keep what they once had, so that the end tells of the peak, as soon as the gauge has been read again.
            time.sleep(1.1 * GAUGES_EVERY_S)
            view = server.view()
            peak.bytes = view.gpu_memory_bytes if view else None
        elif reset:
            peak.bytes = server.process.peak_resident_bytes()


class ManagedTriton(ManagedServers[Triton]):
    """A Triton that the harness started, with the model of `repository`; `others`: replicas that share the load."""

    def __init__(self, triton: Triton, repository: Repository, *others: Triton) -> None:
        super().__init__(triton, *others)
        self.triton, self.repository = triton, repository

    def target(self, running: Callable[[], bool] | None = None) -> Target:
        further = tuple(server.address for server in self.servers[1:])
        return Target(self.triton.address, self.repository.wire, running or self.running, replicas=further)

    def body(self, number: int, prompt: Prompt, output_tokens: int) -> bytes:
        return self.repository.body(number, prompt, output_tokens)

    def _empty(self, k: int) -> None:
        self.servers[k].reload(RELOAD_WITHIN_S)

    @property
    def journal_folder(self) -> Path:
        return self.repository.folder / self.repository.model / "1"


class ManagedOpenAi(ManagedServers[OpenAiServer]):
    """OpenAI-compatible servers that the harness started by the workload's command."""

    def __init__(self, workload: InferenceWorkload, *servers: OpenAiServer) -> None:
        super().__init__(*servers)
        self._options, self._text = workload.server, workload.requests.text
        self._exact = workload.server.exact_output and workload.requests.output == "forced"
        self._adapters = list(workload.server.adapters or ())

    def target(self, running: Callable[[], bool] | None = None) -> Target:
        first, *others = self.servers
        return Target(
            first.address,
            openai_wire(first.served_name, text=self._text),
            running or self.running,
            protocol=self._options.protocol or "openai",
            path="/v1",
            exact=self._exact,
            replicas=tuple(server.address for server in others),
        )

    def body(self, number: int, prompt: Prompt, output_tokens: int) -> bytes:
        # A LoRA adapter is a model of its own to the protocol.
        model = self._adapters[number % len(self._adapters)] if self._adapters else self.servers[0].served_name
        chat = self._options.protocol == "openai_chat"
        return completion_request(model, prompt, output_tokens, chat=chat, exact=self._exact)

    def rows(self, log: RequestLog) -> list[MetricRow]:
        return [metric_row("tokens_per_event", tokens_per_arrival(log), log.finished, phase=log.load.name, statistic="mean")]

    def judgements(self, log: RequestLog) -> list[TrialJudgement]:
        cut = validity.prompt_cut(log, ids=not self._text)
        return [*super().judgements(log), *present(cut), *validity.unexpected_answers(log)]

    def _empty(self, k: int) -> None:
        self.servers[k].kill()
        self.servers[k].restart()


class _ServerSampler:
    """`sample` runs about once a second beside a phase, the others after it. `rows`: of the answered requests in the phase's log."""

    def __init__(self, servers: Sequence[LocalServer], phase: LoadPhase) -> None:
        self._servers, self._phase = servers, phase
        self._scrapers = [Scraper(server.metrics_address) for server in servers]
        self._gpus = GpuPhaseMonitor(_GPUS_EVERY_S)
        self._resident: list[float] = []

    def __enter__(self) -> _ServerSampler:
        for scraper in self._scrapers:
            scraper.__enter__()
        self._gpus.__enter__()
        self._gpus.change(None, self._phase)
        self.sample()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._gpus.change(self._phase, None)
        self._gpus.__exit__()
        for scraper in self._scrapers:
            scraper.__exit__(kind, error, trace)

    def sample(self) -> None:
        if resident := sum(server.process.resident_bytes() for server in self._servers):
            self._resident.append(float(resident))

    def telemetry(self) -> list[Telemetry]:
        several = len(self._servers) > 1
        rows = [r for k, each in enumerate(self._scrapers) for r in each.telemetry(self._phase, f"replica{k}_" if several else "")]
        rows += self._gpus.telemetry()
        return rows + ([telemetry_row(self._phase, "server_resident", "bytes", self._resident)] if self._resident else [])

    def rows(self, log: RequestLog) -> list[MetricRow]:
        return energy_rows(log, self._gpus.samples(self._phase))


class ExternalServer:
    """An external endpoint."""

    replicas = 1

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint

    def target(self, running: Callable[[], bool] | None = None) -> Target:
        return self.endpoint.target()

    def body(self, number: int, prompt: Prompt, output_tokens: int) -> bytes:
        return self.endpoint.body(number, prompt, output_tokens)

    def running(self) -> bool:
        return True

    def state(self) -> str:
        return f"{self.endpoint.launcher.url} is external: its state is unknown"

    def failure(self, log: RequestLog) -> tuple[FailureClass, str]:
        failure_class, why = classify_failure(log)
        return failure_class, f"{format_counts(log)}: {why}"

    def rows(self, log: RequestLog) -> list[MetricRow]:
        return [
            metric_row("tokens_per_event", tokens_per_arrival(log), log.finished, phase=log.load.name, statistic="mean"),
            *cached_token_rows(log),
        ]

    def judgements(self, log: RequestLog) -> list[TrialJudgement]:
        launcher = self.endpoint.launcher
        judgements = [validity.rate_limited(log), validity.pace_unmeasured(log)]
        if launcher.protocol.startswith("openai"):
            judgements.append(validity.prompt_cut(log, ids=not self.endpoint.workload.requests.text))
            judgements.append(None if launcher.exact_output else validity.tokens_not_counted(log))
        return [*present(*judgements), *validity.unexpected_answers(log)]

    def token_count_source(self, logs: Sequence[RequestLog]) -> str | None:
        """See endpoint.token_count_source; None for protocols that send a token at a time."""
        return token_count_source(logs) if self.endpoint.launcher.protocol.startswith("openai") else None

    def answered(self, requests: int) -> None:
        return

    def view(self) -> ServerCounters | None:
        return None

    def beside(self, phase: LoadPhase) -> AbstractContextManager[PhaseSampler]:
        return nullcontext(_NullSampler())

    def peak_memory(self, *, gpu: bool) -> AbstractContextManager[PeakMemory]:
        return nullcontext(PeakMemory())


class _NullSampler:
    def sample(self) -> None:
        return

    def telemetry(self) -> list[Telemetry]:
        return []

    def rows(self, log: RequestLog) -> list[MetricRow]:
        return []


PhaseSampler = _ServerSampler | _NullSampler
ServerUnderTest = ManagedServers[Any] | ExternalServer
"""One model, behind one address or several that share its load."""


def format_outcome(log: RequestLog) -> str:
    """Outcome of a load's requests, with the first error."""
    return format_counts(log) + (f"; first error: {log.first_error()}" if log.errors() else "")


def format_counts(log: RequestLog) -> str:
    """How many of a load's requests finished, and of which kinds the errors were."""
    counts = ", ".join(f"{n} {name}" for name, n in log.errors().items())
    return f"{log.finished} of {log.n} requests of {log.load.name} finished" + (f" ({counts})" if counts else "")


def replica_label(k: int, n: int, detail: str) -> str:
    """`detail` with its replica, counted from 0; unchanged for a single server."""
    return detail if n == 1 else f"replica {k} of {n}: {detail}"


def visible_devices(accelerator: Accelerator, replicas: int, each: int, inherited: Mapping[str, str]) -> list[dict[str, str]]:
    """Environment variables that show each replica its own `each` GPUs, by replica; empty ones on a CPU and for a single server.

    `inherited`: this process's environment, whose own choice of GPUs is kept. Raises TrialFailed("bad_declaration") if it shows too few.
    """
    if accelerator.kind == "cpu" or replicas == 1:
        return [{} for _ in range(replicas)]
    variables = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES") if accelerator.kind == "amd" else ("CUDA_VISIBLE_DEVICES",)
    # ROCm renumbers twice: HIP's numbers count what ROCR shows.
    below = _device_list(inherited, "ROCR_VISIBLE_DEVICES") if accelerator.kind == "amd" else None
    inherited_devices = next((devices for name in variables if (devices := _device_list(inherited, name)) is not None), None)
    if inherited_devices is None:
        inherited_devices = [str(i) for i in range(len(below) if below is not None else accelerator.count)]
    if len(inherited_devices) < replicas * each:
        raise TrialFailed(
            "bad_declaration", f"{replicas} replicas of {each} GPUs need {replicas * each}, but {len(inherited_devices)} are visible here"
        )
    own = [inherited_devices[k * each : (k + 1) * each] for k in range(replicas)]
    if accelerator.kind != "amd":
        return [{"CUDA_VISIBLE_DEVICES": ",".join(gpus)} for gpus in own]
    renumbered = dict.fromkeys(variables, ",".join(map(str, range(each))))
    physical = [[below[int(gpu)] if below is not None and gpu.isdigit() else gpu for gpu in gpus] for gpus in own]
    return [{"ROCR_VISIBLE_DEVICES": ",".join(gpus), **renumbered} for gpus in physical]


def _device_list(variables: Mapping[str, str], name: str) -> list[str] | None:
    """Like CUDA and ROCm, up to the first that is no index and no UUID, such as -1."""
    if name not in variables:
        return None
    parts = (part.strip() for part in variables[name].split(","))
    return list(takewhile(lambda part: part.isdigit() or part.startswith(("GPU-", "MIG-")), parts))


@contextmanager
def all_running(servers: Sequence[LocalServer]) -> Iterator[None]:
    """All servers, started together, while the block runs.

    The first failure ends the others' start, and its TrialFailed names the server."""
    n = len(servers)
    if n == 1:
        with servers[0]:
            yield
        return
    with ThreadPoolExecutor(n, "replica") as pool:
        starting = {pool.submit(server.__enter__): k for k, server in enumerate(servers)}
        try:
            for started in as_completed(starting):
                try:
                    started.result()
                except TrialFailed as failure:
                    raise TrialFailed(failure.failure_class, replica_label(starting[started], n, failure.detail)) from failure
            yield
        finally:
            # A server whose start is under way is closed by the thread that starts it; one that failed is closed already.
            for start, k in starting.items():
                if not start.done():
                    servers[k].process.abort_start()
            up = [servers[k] for start, k in starting.items() if start.exception() is None]
            for closing in [pool.submit(server.__exit__, None, None, None) for server in up]:
                closing.result()


def silent_replicas(log: RequestLog, replicas: int) -> list[int]:
    """Replicas that were sent requests of this load and finished none."""
    if log.replica is None:
        return []
    return [k for k in range(replicas) if log.due[log.replica == k].any() and not log.ok[log.replica == k].any()]


def replica_telemetry(log: RequestLog, replicas: int) -> list[Telemetry]:
    """Per replica, so that a slow GPU shows: `replica<k>_time_to_first_token` (s, of finished requests, from their scheduled time) and
    `replica<k>_request_throughput` (requests/s). Empty for a single server and replicas that finished nothing."""
    if log.replica is None:
        return []
    phase, waited, elapsed = log.load.name, log.first_token - log.scheduled, log.elapsed_s
    rows = []
    for k in range(replicas):
        values = np.sort(waited[log.ok & (log.replica == k)])
        if not len(values):
            continue
        rate = len(values) / elapsed
        rows.append(telemetry_row(phase, f"replica{k}_time_to_first_token", "s", values, p95=float(np.quantile(values, 0.95))))
        rows.append(
            Telemetry(phase=phase, signal=f"replica{k}_request_throughput", unit="requests/s", n=len(values), mean=rate, min=rate, max=rate)
        )
    return rows
