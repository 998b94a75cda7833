"""Load a server that is already there: an open loop at one rate, with a trial's load client, statistics and verdict on the client.

Nothing is declared and nothing is archived.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

import numpy as np
from pydantic_core import from_json

from plumbline.declarations.thresholds import ClientLimits
from plumbline.declarations.urls import sends_in_clear, url_problem
from plumbline.declarations.workloads.load import Arrivals
from plumbline.declarations.workloads.prompts import PromptFormat, read_rows
from plumbline.declarations.workloads.text_file import read_bytes
from plumbline.formats.reading.text_file import UnusableFile
from plumbline.harness.inference.analysis.metrics import metrics_of
from plumbline.harness.inference.analysis.validity import client_limited
from plumbline.harness.inference.endpoint import openai_wire
from plumbline.harness.inference.load.prompts import CorpusText
from plumbline.harness.inference.load.schedule import arrival_times
from plumbline.loadclient.http_requests import completion_request
from plumbline.loadclient.kserve_model import KserveModel, UnusableModel, describe
from plumbline.loadclient.load_generator import drive
from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.prompt import NO_IDS, Prompt
from plumbline.loadclient.request_log import RequestLog
from plumbline.loadclient.round_trip import http_connection
from plumbline.loadclient.stated_errors import body_message
from plumbline.loadclient.transport import Target, Tick
from plumbline.metrics.formatting import unknown_name
from plumbline.results import MetricRow

Api = Literal["kserve", "openai", "openai_chat"]
Process = Literal["poisson", "constant"]
MOST_REQUESTS = 2_000_000
_CALL_S = 10.0
_PROMPTS = "a .txt or .jsonl file"
_SCHEMES = {"grpc": ("kserve", False), "grpcs": ("kserve", True), "http": ("openai", False), "https": ("openai", True)}
LATENCIES = ("request_scheduled_latency", "time_to_first_token", "time_per_output_token", "inter_token_latency")
RATES = ("offered_rate", "achieved_rate_ratio", "request_throughput", "output_token_throughput", "input_token_throughput", "error_rate")
CLIENT = ("request_dispatch_delay", "client_cpu_per_request", "client_cpu_utilization")
"""The metrics of a trial that a load reports."""

_CLIENT_LIMITS = ClientLimits.model_validate(
    {
        "dispatch_delay_degraded": "10ms",
        "dispatch_delay_invalid": "100ms",
        "achieved_rate_degraded": "99%",
        "achieved_rate_invalid": "95%",
    }
)
"""The limits that thresholds.yaml ships; this command reads no declarations."""


class LoadFailed(RuntimeError):
    """The server refuses the first request; the message has its words."""


@dataclass(frozen=True)
class ServerLoad:
    """The load to send. `url`: grpc://host:port, http(s)://host:port/path, or host:port. `rate` in requests a second; `prompts`: a file of them, used
    in turn; without one, text of `input_tokens` tokens or random tensors. `ignore_eos`: answers have exactly `output_tokens` tokens."""

    url: str
    rate: float
    duration_s: float
    api: Api | None = None
    model: str | None = None
    prompts: Path | None = None
    input_tokens: int = 128
    output_tokens: int = 64
    arrivals: Process = "poisson"
    ignore_eos: bool = False
    timeout_s: float = 60.0
    seed: int = 0
    key: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class LoadedServer:
    """The result of the load. `errors`: failed requests by class; `verdict`: whether the client itself was a limit, as of a trial, with its reason."""

    address: str
    api: Api
    model: str
    seconds: float
    requests: int
    finished: int
    errors: dict[str, int]
    first_error: str
    verdict: Literal["valid", "degraded", "invalid"]
    reason: str
    processes: int
    metrics: list[MetricRow]


@dataclass(frozen=True)
class _Served:
    target: Target
    bodies: Callable[[int], list[bytes]]
    output_tokens: int


def load_server(asked: ServerLoad, tick: Tick | None = None) -> LoadedServer:
    """Send the load and measure it, after one request that is not counted.

    ValueError (UnusableModel, UnusableFile) names the flag and what is expected; LoadFailed if the server refuses the first request."""
    api, address, tls, path = _place(asked)
    expected = asked.rate * asked.duration_s
    if not 1 <= expected <= MOST_REQUESTS:
        raise ValueError(f"--rate times --for is {expected:,.4g} requests; expected 1 to {MOST_REQUESTS:,}")
    times = _times(asked)
    key = {} if asked.key is None else {"authorization": f"Bearer {asked.key}"}
    serve = _kserve if api == "kserve" else _openai
    served = serve(asked, api, Target(address, openai_wire("", text=True), lambda: True, tls=tls, headers=key, secret=asked.key, path=path))
    bodies = served.bodies(len(times))
    first = drive(_phase(np.zeros(1), 1.0, served.output_tokens), bodies[:1], served.target, timeout_s=asked.timeout_s)
    if not first.finished:
        raise LoadFailed(f"{address} refuses the first request: {first.first_error()}")
    log = drive(_phase(times, asked.duration_s, served.output_tokens), bodies, served.target, timeout_s=asked.timeout_s, tick=tick)
    return _result(address, api, served.target.wire.model, log)


def _result(address: str, api: Api, model: str, log: RequestLog) -> LoadedServer:
    judged = client_limited(log, _CLIENT_LIMITS)
    once = bool((log.load.output_tokens == 1).all())
    reported = {*(LATENCIES[:1] if once else LATENCIES), *(set(RATES) - ({"output_token_throughput"} if once else set())), *CLIENT}
    return LoadedServer(
        address,
        api,
        model,
        log.elapsed_s,
        log.n,
        log.finished,
        log.errors(),
        log.first_error(),
        "valid" if judged is None else judged.level,
        "" if judged is None else judged.reason.detail or "",
        len(log.cpu_s),
        [row for row in metrics_of(log, None, None) if row.metric in reported],
    )


def _place(asked: ServerLoad) -> tuple[Api, str, bool, str]:
    """Protocol, host:port, TLS and path."""
    scheme = "" if "://" in asked.url else "grpc://" if asked.api in (None, "kserve") else "http://"
    url = urlsplit(f"{scheme}{asked.url}")
    example = "grpc://host:8001 (KServe) or http://host:8000/v1 (OpenAI)"
    if problem := url_problem(url.geturl()):
        raise ValueError(f"the URL {problem}; expected {example}, and a key in OPENAI_API_KEY")
    if url.scheme not in _SCHEMES:
        raise ValueError(f"the URL {asked.url} has the scheme {url.scheme}; expected {example}")
    guessed, tls = _SCHEMES[url.scheme]
    api: Api = asked.api or ("kserve" if guessed == "kserve" else "openai")
    if (api == "kserve") != (guessed == "kserve"):
        raise ValueError(f"--api {api} and the URL {asked.url} do not fit; expected {example}")
    try:
        port = url.port or (443 if tls else 8001 if api == "kserve" else 80)
    except ValueError:
        raise ValueError(f"the URL {asked.url} has no readable port; expected {example}") from None
    if asked.key is not None and sends_in_clear(url.geturl()):
        raise ValueError(
            f"the URL {asked.url} is plain {url.scheme}, which would send OPENAI_API_KEY in clear; expected {url.scheme}s://, or no key"
        )
    if not url.hostname or (api == "kserve" and url.path.strip("/")):
        raise ValueError(f"the URL {asked.url} is not a server's; expected {example}")
    if url.path.rstrip("/").endswith("/completions"):
        raise ValueError(
            f"the URL {asked.url} ends in /completions; expected the path before it, such as /v1, and --api openai or openai_chat"
        )
    host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
    return api, f"{host}:{port}", tls, "" if api == "kserve" else url.path.rstrip("/") or "/v1"


def _times(asked: ServerLoad) -> np.ndarray:
    arrivals = Arrivals.model_validate({asked.arrivals: {"rate": f"{asked.rate!r}/s"}})
    times = arrival_times(arrivals, asked.duration_s, np.random.default_rng(asked.seed))
    return times if len(times) else np.zeros(1)


def _phase(times: np.ndarray, duration_s: float, output_tokens: int) -> PhaseLoad:
    n = len(times)
    return PhaseLoad("steady", duration_s, times, np.zeros(n, np.int32), np.full(n, output_tokens, np.int32), np.full(n, -1, np.int32))


# KServe v2.


def _kserve(asked: ServerLoad, api: Api, target: Target) -> _Served:
    model = describe(target.address, asked.model, target.headers, tls=target.tls)
    rows = [{}] if asked.prompts is None else _objects(asked.prompts, model)
    rng = np.random.default_rng([asked.seed, 1])

    def bodies(n: int) -> list[bytes]:
        made = [model.tensors(row, rng) for row in rows[:n]]
        return [model.wire.body(i, made[i % len(made)]) for i in range(n)]

    return _Served(replace(target, wire=model.wire), bodies, asked.output_tokens if model.streams else 1)


def _objects(file: Path, model: KserveModel) -> list[dict[str, Any]]:
    """JSON objects, one a line: values of the model's inputs by name."""
    rows = []
    for number, line in enumerate(read_bytes(file, f"--prompts {file}", _PROMPTS).decode("utf-8-sig", "replace").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UnusableFile(f"--prompts {file}:{number} is not JSON ({error}); expected an object a line") from None
        if not isinstance(row, dict):
            names = ", ".join(f'"{each.name}": …' for each in model.inputs)
            raise UnusableFile(f"--prompts {file}:{number} is no object; expected {{{names}}}")
        rows.append(row)
    if not rows:
        raise UnusableFile(f"--prompts {file} holds no request; expected a JSON object a line")
    return rows


# OpenAI's completions and chat completions.


def _openai(asked: ServerLoad, api: Api, target: Target) -> _Served:
    model = _served_model(asked, target)
    prompts = _prompts(asked, api)

    def bodies(n: int) -> list[bytes]:
        return [
            completion_request(model, prompt, asked.output_tokens, chat=api == "openai_chat", exact=asked.ignore_eos)
            for prompt in prompts(n)
        ]

    placed = replace(target, wire=openai_wire(model, text=True), protocol=api, exact=asked.ignore_eos)
    return _Served(placed, bodies, asked.output_tokens)


def _served_model(asked: ServerLoad, target: Target) -> str:
    """The model to name in requests; the server's own list says whether it has it, where it has such a list."""
    connection = http_connection(target, _CALL_S)
    try:
        connection.request("GET", target.url("/models"), headers=dict(target.headers))
        response = connection.getresponse()
        status, body = response.status, response.read(1 << 20)
    except (OSError, http.client.HTTPException) as error:
        why = "it does not speak HTTP/1.1" if isinstance(error, http.client.HTTPException) else str(error)
        raise UnusableModel(f"{target.address} cannot be used ({why}); expected a server such as http://host:8000/v1") from None
    finally:
        connection.close()
    if status in (401, 403):
        said = target.quoted(body_message(body).message)
        raise UnusableModel(f"{target.address} refuses the key (HTTP {status}: {said}); expected a valid OPENAI_API_KEY in the environment")
    try:
        known = [str(each["id"]) for each in from_json(body)["data"]] if status == 200 else []
    except (ValueError, KeyError, TypeError):
        known = []
    if asked.model is None:
        if len(known) != 1:
            listed = f", one of {', '.join(known[:5])}" if known else f" (GET {target.url('/models')} lists none: HTTP {status})"
            raise UnusableModel(f"{target.address} serves {len(known)} models; expected --model{listed}")
        return known[0]
    if known and asked.model not in known:
        raise UnusableModel(f"--model: {unknown_name('model', asked.model, known)}")
    return asked.model


def _prompts(asked: ServerLoad, api: Api) -> Callable[[int], Sequence[Prompt]]:
    if asked.prompts is None:
        text = CorpusText()
        return lambda n: text.segments([asked.input_tokens] * n, np.random.default_rng([asked.seed, 1]))
    name = str(asked.prompts)
    content = read_bytes(asked.prompts, f"--prompts {asked.prompts}", _PROMPTS)
    kind: PromptFormat = "text"
    if not name.endswith(".txt"):
        head = content[:4096].partition(b"\n")[0]
        kind = "messages" if b'"messages"' in head else "sharegpt" if b'"conversations"' in head else "text"
    if kind != "text" and api != "openai_chat":
        raise UnusableFile(f"--prompts {name} holds conversations; expected --api openai_chat, or objects with prompt")
    rows = read_rows(content, name, kind)
    prompts = [Prompt(NO_IDS, row.text, row.messages[: row.turns[-1]] if row.text is None else None) for row in rows]
    return lambda n: [prompts[i % len(prompts)] for i in range(n)]


APIS: tuple[str, ...] = get_args(Api)
PROCESSES: tuple[str, ...] = get_args(Process)
