"""The server's own Prometheus page, read once a second beside a phase, and what it says of that phase.

While load runs, pages are only fetched and kept: reading one takes milliseconds of the interpreter, which the client has better uses for.
"""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from types import TracebackType

from plumbline.harness.measurement import telemetry_row
from plumbline.metrics import Phase
from plumbline.results import Telemetry

CACHE_HITS, CACHE_MISSES = "plumbline_prefix_cache_hits", "plumbline_prefix_cache_misses"
"""Counters of prompt tokens that our own model's prefix cache had, and had not."""
DRAFTED, ACCEPTED = "plumbline_draft_tokens", "plumbline_accepted_draft_tokens"
"""Counters of tokens that speculative decoding proposed, and of those accepted."""
_FETCH_S = 2.0
_EVERY_S = 1.0
_GAUGES = {
    "nv_inference_pending_request_count": ("server_pending_requests", "count"),
    "nv_gpu_utilization": ("server_gpu_utilization", "ratio"),
    "nv_gpu_memory_used_bytes": ("server_gpu_memory", "bytes"),
    "nv_gpu_power_usage": ("server_gpu_power", "W"),
    "nv_cpu_utilization": ("server_host_cpu_utilization", "ratio"),
    "vllm:num_requests_running": ("server_running_requests", "count"),
    "vllm:num_requests_waiting": ("server_pending_requests", "count"),
    "vllm:kv_cache_usage_perc": ("server_kv_cache_usage", "ratio"),
    "sglang:num_running_reqs": ("server_running_requests", "count"),
    "sglang:num_queue_reqs": ("server_pending_requests", "count"),
    "sglang:token_usage": ("server_kv_cache_usage", "ratio"),
    "llamacpp:requests_processing": ("server_running_requests", "count"),
    "llamacpp:requests_deferred": ("server_pending_requests", "count"),
}
"""Gauges that become telemetry: signal and unit. Those of several GPUs become one signal each, by their order of identity."""


MAX_PAGE = 32 * 2**20
"""Bytes of a page of a server: vLLM's metrics take one of them."""


class MetricsUnavailable(Exception):
    """The page could not be read; the message says why."""


@dataclass(frozen=True)
class Sample:
    name: str
    labels: Mapping[str, str]
    value: float


def http_get(address: str, path: str, within_s: float) -> tuple[int, bytes]:
    """Status and body of an answer of `address` (host:port); raises OSError and HTTPException."""
    with closing(http.client.HTTPConnection(address, timeout=within_s)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read(MAX_PAGE + 1)
        if len(body) > MAX_PAGE:
            raise OSError(f"the answer has more than {MAX_PAGE:,} bytes; expected a page")
        return answer.status, body


def fetch_metrics(address: str) -> str:
    """The page of `address` (host:port); raises MetricsUnavailable."""
    try:
        status, body = http_get(address, "/metrics", _FETCH_S)
        text = body.decode()
    except (OSError, http.client.HTTPException, UnicodeDecodeError) as error:
        raise MetricsUnavailable(f"http://{address}/metrics: {type(error).__name__}: {error}") from error
    if status != 200:
        raise MetricsUnavailable(f"http://{address}/metrics answered {status}; expected 200")
    return text


def parse_metrics(page: str) -> list[Sample]:
    """The page's lines; raises Unavailable if it is not in Prometheus' text format."""
    from prometheus_client.parser import text_string_to_metric_families

    try:
        return [Sample(s.name, s.labels, s.value) for family in text_string_to_metric_families(page) for s in family.samples]
    except (ValueError, KeyError, IndexError) as error:
        raise MetricsUnavailable(f"not in Prometheus' text format: {error}; the page begins {page[:80]!r}") from error


def sum_metric(lines: list[Sample], name: str, model: str | None = None) -> float | None:
    """Sum of a metric's lines, of one model if it is named; None if there is no such line."""
    # Depending on its version Triton appends the suffix that Prometheus wants to counters.
    values = [s.value for s in lines if s.name in (name, f"{name}_total") and (model is None or s.labels.get("model", model) == model)]
    return sum(values) if values else None


class Scraper:
    """A context manager that fetches the page once a second, and once at its start and at its end, in a thread of its own.

    A page that cannot be had is left out: a server that was killed in this phase has none for a while.
    """

    def __init__(self, address: str, every_s: float = _EVERY_S) -> None:
        self.address, self.every_s = address, every_s
        self.pages: list[tuple[float, str]] = []
        """Monotonic seconds of each page, and its text."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="scrape", daemon=True)

    def __enter__(self) -> Scraper:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join(2 * _FETCH_S + self.every_s)

    def _loop(self) -> None:
        due = time.monotonic()
        ended = False
        while not ended:
            ended = self._stop.wait(max(0.0, due - time.monotonic()))
            with suppress(MetricsUnavailable):
                self.pages.append((time.monotonic(), fetch_metrics(self.address)))
            # From the schedule, not from now: a slow answer must not thin out the samples; but missed ones are not made up for.
            due = max(due + self.every_s, time.monotonic())

    def telemetry(self, phase: Phase, prefix: str = "") -> list[Telemetry]:
        """Telemetry of the gauges, a row for each signal of the pages, `prefix` before its name. Call it when the phase is over."""
        samples: dict[tuple[str, str], list[float]] = {}
        for _, page in list(self.pages):
            for signal, unit, value in _signals(page):
                samples.setdefault((signal, unit), []).append(value)
        return [telemetry_row(phase, f"{prefix}{signal}", unit, values) for (signal, unit), values in sorted(samples.items())]


def _signals(page: str) -> Iterator[tuple[str, str, float]]:
    try:
        lines = parse_metrics(page)
    except MetricsUnavailable:
        return
    gpus = sorted({s.labels["gpu_uuid"] for s in lines if "gpu_uuid" in s.labels})
    for line in lines:
        if line.name in _GAUGES:
            signal, unit = _GAUGES[line.name]
            gpu = line.labels.get("gpu_uuid")
            yield (signal if gpu is None else signal.replace("gpu", f"gpu{gpus.index(gpu)}"), unit, line.value)
