"""An OpenAI-compatible server that the trial starts by the workload's command (vLLM, SGLang, llama.cpp and others), and its counters."""

from __future__ import annotations

import http.client
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic_core import from_json
from typing_extensions import Unpack

from plumbline.declarations.workloads.engines import Parallel, fill_command
from plumbline.harness import engine_python
from plumbline.harness.inference.analysis.metrics import ServerCounters
from plumbline.harness.inference.server import metrics_page
from plumbline.harness.inference.server.local_server import HOST, LocalServer, ServerOptions, StartUp
from plumbline.harness.inference.server.metrics_page import Sample, sum_metric
from plumbline.harness.measurement import TrialFailed

_VLLM: Mapping[str, Sequence[str]] = {
    "succeeded": ("vllm:request_success",),
    "queued_s": ("vllm:request_queue_time_seconds_sum",),
    "prefill_s": ("vllm:request_prefill_time_seconds_sum",),
    "decode_s": ("vllm:request_decode_time_seconds_sum",),
    "queries": ("vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries"),
    "hits": ("vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits"),
    "drafted": ("vllm:spec_decode_num_draft_tokens",),
    "accepted": ("vllm:spec_decode_num_accepted_tokens",),
}
_SGLANG: Mapping[str, Sequence[str]] = {
    "succeeded": ("sglang:num_requests",),
    "queued_s": ("sglang:queue_time_seconds_sum",),
    "queries": ("sglang:prompt_tokens",),
    "hits": ("sglang:cached_tokens",),
}
_ENGINES: Mapping[str, Mapping[str, Sequence[str]]] = {"vllm": _VLLM, "sglang": _SGLANG}


def counters_of(samples: list[Sample]) -> ServerCounters | None:
    """Totals since the server's start; None without an engine's counter of requests."""
    for names in _ENGINES.values():
        counters = {key: _total(samples, several) for key, several in names.items()}
        if counters["succeeded"] is None:
            continue
        hits, queries = counters.get("hits"), counters.get("queries")
        return ServerCounters(
            succeeded=int(counters["succeeded"]),
            queued_s=counters.get("queued_s") or 0.0,
            cache_hits=None if hits is None or queries is None else int(hits),
            cache_misses=None if hits is None or queries is None else int(queries - hits),
            prefill_s=counters.get("prefill_s"),
            decode_s=counters.get("decode_s"),
            drafted=_to_int(counters.get("drafted")),
            accepted=_to_int(counters.get("accepted")),
        )
    return None


def _total(samples: list[Sample], names: Sequence[str]) -> float | None:
    return next((total for name in names if (total := sum_metric(samples, name)) is not None), None)


def _to_int(value: float | None) -> int | None:
    return None if value is None else int(value)


SERVED_NAME = "plumbline"
_CALL_S = 5.0
_POLL_S = 0.05
_READY_PATHS = ("/health", "/v1/models")
_DEFAULTS = {
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    # Both close a connection after 5 idle seconds, at times just when the client sends its next request on it.
    "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "3600",
    "SGLANG_TIMEOUT_KEEP_ALIVE": "3600",
}
_VERSIONS = (("/version", "version"), ("/server_info", "version"), ("/get_server_info", "version"), ("/props", "build_info"))
"""Where servers report their version, and under which key: vLLM, SGLang (new and old), llama.cpp."""


@dataclass(frozen=True)
class OpenAiModel:
    """The model that the command serves. `folder`: the checkpoint; `context` in tokens; `threads`: cores to compute on."""

    folder: Path
    context: int
    threads: int
    parallel: Parallel = field(default_factory=Parallel)

    def placeholders(self, address: str) -> dict[str, str | int]:
        """Values of a command's placeholders for a server that listens at `address` (host:port)."""
        host, port = address.split(":")
        return {
            "model": str(self.folder),
            "host": host,
            "port": port,
            "served_name": SERVED_NAME,
            "context": self.context,
            "threads": self.threads,
            **self.parallel.model_dump(include={"tensor", "pipeline", "data"}),
        }


class OpenAiServer(LocalServer):
    """A server started by `command` (see EngineOptions.command). It is ready when /health, or /v1/models where there is no /health, answers
    200; its port serves the Prometheus page too, if it has one."""

    def __init__(self, command: tuple[str, ...], model: OpenAiModel, workdir: Path, **options: Unpack[ServerOptions]) -> None:
        super().__init__(workdir, **options)
        self.command, self.model, self.program = command, model, Path(command[0]).name
        self.served_name = SERVED_NAME

    def view(self) -> ServerCounters | None:
        try:
            return counters_of(metrics_page.parse_metrics(metrics_page.fetch_metrics(self.metrics_address)))
        except metrics_page.MetricsUnavailable:
            return None

    def _choose_ports(self) -> None:
        self.address = self.metrics_address = f"{HOST}:{self.ports()}"

    def _command(self) -> list[str]:
        program, *arguments = fill_command(self.command, self.model.placeholders(self.address))
        directories = self._environment()["PATH"]
        path = shutil.which(program, path=directories)
        if path is None:
            raise TrialFailed(
                "image_error",
                f"server.command: no program {program} on PATH ({directories}); expected an image that brings it, or its whole path",
            )
        return [path, *arguments]

    def _environment(self) -> dict[str, str]:
        """The harness's own, with the engine Python's programs first and without its module search path, which is not the engine's."""
        own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        first = str(Path(engine_python.describe().executable).parent)
        return {**_DEFAULTS, **own, "PATH": os.pathsep.join([first, os.environ.get("PATH", os.defpath)])}

    def _wait(self, started: float) -> float | None:
        deadline = started + self.ready_within_s
        while self.running():
            status, _ = self._get(_READY_PATHS[0])
            if status == 404:
                status, _ = self._get(_READY_PATHS[1])
            if status == 200 and self.running():
                return time.monotonic()
            if time.monotonic() > deadline:
                raise self._timeout()
            time.sleep(_POLL_S)
        return None

    def _report(self, started: float, ready: float) -> StartUp:
        listed = self._listed()
        # A command without {served_name} serves the model under a name of its own.
        if SERVED_NAME not in listed and listed:
            self.served_name = listed[0]
        about: dict[str, Any] = {"engine": self._engine(), "engine_version": self._version(), "threads": self.model.threads}
        return StartUp(started, ready, None, about)

    def _listed(self) -> list[str]:
        status, body = self._get("/v1/models")
        try:
            return [str(each["id"]) for each in from_json(body)["data"]] if status == 200 else []
        except (ValueError, KeyError, TypeError):
            return []

    def _engine(self) -> str:
        """The engine's name by its own metrics, else the program's name."""
        try:
            page = metrics_page.fetch_metrics(self.metrics_address)
        except metrics_page.MetricsUnavailable:
            return self.program
        return next((name for name in ("vllm", "sglang", "llamacpp") if f"\n{name}:" in page), self.program)

    def _version(self) -> str | None:
        for path, key in _VERSIONS:
            status, body = self._get(path)
            try:
                version = from_json(body).get(key) if status == 200 else None
            except (ValueError, AttributeError):
                continue
            if version is not None:
                return str(version)
        return None

    def _get(self, path: str) -> tuple[int | None, bytes]:
        try:
            return metrics_page.http_get(self.address, path, _CALL_S)
        except (OSError, http.client.HTTPException):
            return None, b""
