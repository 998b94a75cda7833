"""The server under load, as the phases see it: our own Triton, or one that somebody else runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from types import TracebackType
from typing import Protocol

from plumbline.declarations.phases import LoadPhase
from plumbline.harness.gpu_watch import GpuWatch
from plumbline.harness.inference.client import Target
from plumbline.harness.inference.endpoint.external import Endpoint, tokens_per_arrival
from plumbline.harness.inference.endpoint.failures import failure_of
from plumbline.harness.inference.energy import energy_rows
from plumbline.harness.inference.network import Way
from plumbline.harness.inference.prompts import Prompt
from plumbline.harness.inference.replicas import label, silent
from plumbline.harness.inference.repositories import Repository
from plumbline.harness.inference.requestlog import RequestLog
from plumbline.harness.inference.scrape import Scraper
from plumbline.harness.inference.server_view import ServerView
from plumbline.harness.inference.triton import GAUGES_EVERY_S, Reload, StartUp, Triton
from plumbline.harness.measurement import TrialFailed
from plumbline.results import FailureClass, MetricRow, Telemetry, row

RELOAD_WITHIN_S = 120.0
_COUNT_WITHIN_S = 1.0


class Beside(Protocol):
    """What is sampled beside a phase: `sample` about once a second, the others once the phase is over. `rows`: of what the phase's log says
    that was answered."""

    def sample(self) -> None: ...

    def telemetry(self) -> list[Telemetry]: ...

    def rows(self, log: RequestLog) -> list[MetricRow]: ...


@dataclass
class Peak:
    """`bytes` is there once the block is over; None: nobody can see it."""

    bytes: int | None = None


class Served(Protocol):
    """One model, behind one address or several that share its load. `replicas`: how many servers those are."""

    replicas: int

    def target(self, running: Callable[[], bool] | None = None) -> Target:
        """Where the load goes; `running` in place of the server's own (a fault ends it for a while, and that ends no phase)."""

    def body(self, number: int, prompt: Prompt, output_tokens: int) -> bytes:
        """Request `number`, serialised."""

    def way(self) -> Way:
        """The network path to it."""

    def running(self) -> bool:
        """Whether it lives, as far as can be told from here."""

    def state(self) -> str:
        """In words, how it is and what it said last."""

    def answered(self, requests: int) -> None:
        """The client has seen so many more answers: the counters must come to hold them."""

    def view(self) -> ServerView | None:
        """Its counters, once they hold every request that was answered; None where nobody can see them."""

    def failure(self, log: RequestLog) -> tuple[FailureClass, str]:
        """What it means that nothing in this log was answered rightly."""

    def rows(self, log: RequestLog) -> list[MetricRow]:
        """What a phase's log says that is of interest with this server only."""

    def beside(self, phase: LoadPhase) -> AbstractContextManager[Beside]:
        """What is to be sampled while a phase runs."""

    def peak_memory(self, *, gpu: bool) -> AbstractContextManager[Peak]:
        """How much memory it had at most while the block ran, on its GPUs or of the machine: asked of a single server only."""


class OwnTriton:
    """A Triton that the harness started, with the model of `repository`; with `others`, replicas of it that share the load."""

    def __init__(self, triton: Triton, repository: Repository, *others: Triton) -> None:
        self.triton, self.repository = triton, repository
        self.servers = (triton, *others)
        self.replicas = len(self.servers)
        self._answered = 0

    @property
    def start_up(self) -> StartUp:
        """How they came up: from the first start to the last readiness, with the slowest load, and what the first model said of itself."""
        ups = [server.start_up for server in self.servers]
        loads = [up.model_load_s for up in ups if up.model_load_s is not None]
        load_s = max(loads) if len(loads) == len(ups) else None
        return StartUp(min(up.started for up in ups), max(up.ready for up in ups), load_s, ups[0].about)

    def target(self, running: Callable[[], bool] | None = None) -> Target:
        further = tuple(server.address for server in self.servers[1:])
        return Target(self.triton.address, self.repository.wire, running or self.running, replicas=further)

    def body(self, number: int, prompt: Prompt, output_tokens: int) -> bytes:
        return self.repository.body(number, prompt, output_tokens)

    def way(self) -> Way:
        return Way(self.triton.address)

    def running(self) -> bool:
        return all(server.running() for server in self.servers)

    def state(self) -> str:
        ended = [k for k, server in enumerate(self.servers) if not server.running()]
        return self._states(ended or range(self.replicas))

    def _states(self, which: Iterable[int]) -> str:
        return "; ".join(label(k, self.replicas, self.servers[k].state()) for k in which)

    def failure(self, log: RequestLog) -> tuple[FailureClass, str]:
        quiet = silent(log, self.replicas)
        return "server_error", f"{told(log)}; {self._states(quiet) if quiet else self.state()}"

    def rows(self, log: RequestLog) -> list[MetricRow]:
        return []

    def answered(self, requests: int) -> None:
        self._answered += requests

    def began_again(self) -> None:
        """Its counters have begun at zero."""
        self._answered = 0

    def reload(self) -> Reload:
        """Unload the model and load it again: its memory is empty then, and so are its counters."""
        if self.replicas == 1:
            done = self.triton.reload(RELOAD_WITHIN_S)
        else:
            with ThreadPoolExecutor(self.replicas, "reload") as pool:
                done = max(pool.map(self._reload, range(self.replicas)), key=lambda each: each.ended)
        self.began_again()
        return done

    def _reload(self, k: int) -> Reload:
        try:
            return self.servers[k].reload(RELOAD_WITHIN_S)
        except TrialFailed as failure:
            raise TrialFailed(failure.failure_class, label(k, self.replicas, failure.detail)) from failure

    def view(self) -> ServerView | None:
        # A request is counted after its answer was sent.
        deadline = time.monotonic() + _COUNT_WITHIN_S
        found = self._view()
        while found is not None and found.succeeded < self._answered and time.monotonic() < deadline:
            time.sleep(0.02)
            found = self._view()
        return found

    def _view(self) -> ServerView | None:
        views = [view for server in self.servers if (view := server.view()) is not None]
        return reduce(add, views) if len(views) == self.replicas else None

    def beside(self, phase: LoadPhase) -> AbstractContextManager[Beside]:
        return _BesideTriton(self.servers, phase)

    @contextmanager
    def peak_memory(self, *, gpu: bool) -> Iterator[Peak]:
        peak = Peak()
        told = self.triton.forget_peak()
        yield peak
        if gpu:
            # Allocators of GPU memory keep what they once had, so that the end tells of the peak, as soon as the gauge has been read again.
            time.sleep(1.1 * GAUGES_EVERY_S)
            view = self.triton.view()
            peak.bytes = view.gpu_memory_bytes if view else None
        elif told:
            peak.bytes = self.triton.peak_resident_bytes()

    @property
    def journals(self) -> Path:
        """The folder in which our own models write down what they began and answered."""
        return self.repository.folder / self.repository.model / "1"


class _BesideTriton:
    """Their gauges, their memory, and all GPUs of the node."""

    def __init__(self, servers: Sequence[Triton], phase: LoadPhase) -> None:
        self._servers, self._phase = servers, phase
        self._scrapers = [Scraper(server.metrics_address) for server in servers]
        self._gpus = GpuWatch()
        self._resident: list[float] = []

    def __enter__(self) -> _BesideTriton:
        for scraper in self._scrapers:
            scraper.__enter__()
        self._gpus.__enter__()
        self.sample()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._gpus.__exit__(kind, error, trace)
        for scraper in self._scrapers:
            scraper.__exit__(kind, error, trace)

    def sample(self) -> None:
        if resident := sum(server.resident_bytes() for server in self._servers):
            self._resident.append(float(resident))

    def telemetry(self) -> list[Telemetry]:
        several = len(self._servers) > 1
        rows = [r for k, each in enumerate(self._scrapers) for r in each.telemetry(self._phase, f"replica{k}_" if several else "")]
        rows += self._gpus.telemetry(self._phase)
        values = self._resident
        if values:
            low, high = min(values), max(values)
            mean = sum(values) / len(values)
            rows.append(Telemetry(phase=self._phase, signal="server_resident", unit="bytes", n=len(values), mean=mean, min=low, max=high))
        return rows

    def rows(self, log: RequestLog) -> list[MetricRow]:
        return energy_rows(log, self._gpus)


class SomebodysServer:
    """An endpoint: only what comes over the wire is known of it."""

    replicas = 1

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint

    def target(self, running: Callable[[], bool] | None = None) -> Target:
        return self.endpoint.target()

    def body(self, number: int, prompt: Prompt, output_tokens: int) -> bytes:
        return self.endpoint.body(number, prompt, output_tokens)

    def way(self) -> Way:
        end = self.endpoint
        return Way(end.address, end.launcher.protocol, end.tls, end.path, end.headers)

    def running(self) -> bool:
        return True

    def state(self) -> str:
        return f"{self.endpoint.launcher.url} is not ours to look into"

    def failure(self, log: RequestLog) -> tuple[FailureClass, str]:
        failure_class, why = failure_of(log)
        return failure_class, f"{counted(log)}: {why}"

    def rows(self, log: RequestLog) -> list[MetricRow]:
        return [row("tokens_per_event", tokens_per_arrival(log), log.finished, phase=log.load.name, statistic="mean")]

    def answered(self, requests: int) -> None:
        return

    def view(self) -> ServerView | None:
        return None

    def beside(self, phase: LoadPhase) -> AbstractContextManager[Beside]:
        return nullcontext(_Nothing())

    def peak_memory(self, *, gpu: bool) -> AbstractContextManager[Peak]:
        return nullcontext(Peak())


class _Nothing:
    def sample(self) -> None:
        return

    def telemetry(self) -> list[Telemetry]:
        return []

    def rows(self, log: RequestLog) -> list[MetricRow]:
        return []


def told(log: RequestLog) -> str:
    """What became of a load's requests, in words, with the first error."""
    return counted(log) + (f"; first error: {log.first_error()}" if log.errors() else "")


def counted(log: RequestLog) -> str:
    """How many of a load's requests finished, and of which kinds the errors were."""
    counts = ", ".join(f"{n} {name}" for name, n in log.errors().items())
    return f"{log.finished} of {log.n} requests of {log.load.name} finished" + (f" ({counts})" if counts else "")
