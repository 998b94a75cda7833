"""A model that an external server hosts: requests, authentication, server facts, and failure classes."""

from __future__ import annotations

import http.client
import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import urlencode, urlsplit

import numpy as np
from pydantic_core import from_json
from tritonclient.grpc import InferenceServerClient
from tritonclient.utils import InferenceServerException

from plumbline.declarations import EndpointLauncher, InferenceWorkload, KubernetesLauncher, Trial
from plumbline.declarations.workloads.models import Encoder
from plumbline.harness import launcher_protocol
from plumbline.harness.inference.load import model_wires
from plumbline.loadclient import http_requests
from plumbline.loadclient.prompt import Prompt
from plumbline.loadclient.request_log import CACHED, COMPLETION, PROMPT, RequestLog
from plumbline.loadclient.round_trip import grpc_credentials, http_connection
from plumbline.loadclient.transport import Target
from plumbline.loadclient.wire import INPUT_TOKENS, Wire
from plumbline.results import FailureClass, MetricRow, Scalar, metric_row

_CALL_S = 5.0


@dataclass(frozen=True)
class Endpoint:
    """A declared endpoint and a workload for it. `key`: its API key, if it asks for one."""

    launcher: EndpointLauncher
    workload: InferenceWorkload
    key: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, trial: Trial) -> Endpoint:
        """TypeError if the trial's provider is not an endpoint and serves none. Takes the key out of the environment."""
        declared, workload = trial.provider.launcher, trial.workload.serving
        if isinstance(declared, KubernetesLauncher) and declared.serving is not None:
            launcher = declared.serving.endpoint(os.environ[launcher_protocol.SERVERS_VARIABLE])
        else:
            launcher = trial.provider.launcher_as(EndpointLauncher)
        if workload is None:
            raise TypeError(f"trial {trial.trial_id} is {trial.workload.kind}; expected inference on an endpoint")
        return cls(launcher, workload, launcher_protocol.take_endpoint_key())

    @property
    def wire(self) -> Wire:
        """The tensors that its answers must carry; an external server need not report its times."""
        model, workload = self.launcher.model, self.workload
        natural = workload.requests.output == "natural"
        if self.launcher.protocol.startswith("openai"):
            return openai_wire(model, text=workload.requests.text)
        if isinstance(workload.model, Encoder):
            return model_wires.encoder(model, workload.model.task, workload.model.width, timed=False)
        return replace(model_wires.causal_lm(model, workload.requests.text), last={}, natural=natural)

    def target(self) -> Target:
        """Where the load goes; it always counts as running."""
        url = urlsplit(self.launcher.url)
        tls = url.scheme in ("https", "grpcs")
        host = f"[{url.hostname}]" if ":" in (url.hostname or "") else url.hostname
        return Target(
            f"{host}:{url.port or (443 if tls else 80)}",
            self.wire,
            lambda: True,
            protocol=self.launcher.protocol,
            tls=tls,
            headers={**self.launcher.fixed_headers, **self._key_header},
            secret=self.key,
            path=url.path.rstrip("/"),
            query=urlencode(self.launcher.query),
            waits=self.launcher.retry_after == "wait",
            limit=self.launcher.max_tokens_field,
            exact=self._exact,
        )

    @property
    def _key_header(self) -> dict[str, str]:
        if self.key is None:
            return {}
        name = self.launcher.key_header
        return {name: f"Bearer {self.key}" if name.lower() == "authorization" else self.key}

    @property
    def _exact(self) -> bool:
        """Whether answers have exactly as many tokens as were asked for."""
        return self.launcher.exact_output and self.workload.requests.output == "forced"

    def body(self, number: int, prompt: Prompt, output_tokens: int) -> bytes:
        launcher, wire, model = self.launcher, self.wire, self.workload.model
        protocol, headers = launcher.protocol, launcher.headers_of(number)
        if protocol in ("openai", "openai_chat"):
            return http_requests.completion_request(
                launcher.model,
                prompt,
                output_tokens,
                chat=protocol == "openai_chat",
                exact=self._exact,
                limit=launcher.max_tokens_field,
                stream_options=launcher.stream_options,
                headers=headers,
            )
        if isinstance(model, Encoder):
            inputs = model_wires.encoder_inputs(prompt, model.task)
            return wire.body(number, inputs) if protocol == "kserve_grpc" else http_requests.infer_request(number, inputs, headers)
        if protocol == "kserve_grpc":
            return wire.body(number, model_wires.lm_inputs(prompt, output_tokens))
        return http_requests.generate_request(prompt, output_tokens, headers)

    def facts(self) -> dict[str, Scalar]:
        """Facts of the endpoint, without its key. `endpoint.server`: how it names itself.

        To be called after the first inference: a request wakes an endpoint that was scaled to zero."""
        return {
            "endpoint.url": self.launcher.url,
            "endpoint.protocol": self.launcher.protocol,
            "endpoint.model": self.launcher.model,
            "endpoint.exact_output": self.launcher.exact_output,
            **{f"endpoint.{name}": value for name, value in self.launcher.declared_request.items()},
            "endpoint.server": self._server(),
        }

    def _server(self) -> str | None:
        try:
            return (_server_by_grpc if self.launcher.protocol == "kserve_grpc" else _server_by_http)(self.target())
        except (OSError, http.client.HTTPException, InferenceServerException, ValueError):
            return None  # it serves without saying what it is


def openai_wire(model: str, *, text: bool) -> Wire:
    """Token ids are what they are; text is cut into tokens by a tokenizer that is not ours."""
    return Wire("stream", model, {}, {} if text else {INPUT_TOKENS: 4}, index=None)


def _server_by_grpc(target: Target) -> str:
    headers = {name.lower(): value for name, value in target.headers.items()}
    with InferenceServerClient(target.address, creds=grpc_credentials(target)) as client:
        server = client.get_server_metadata(headers, client_timeout=_CALL_S)
    return f"{server.name} {server.version}"


def _server_by_http(target: Target) -> str | None:
    kserve = target.protocol == "kserve_http"
    connection = http_connection(target, _CALL_S)
    try:
        connection.request("GET", target.url("/v2" if kserve else "/models"), headers=dict(target.headers))
        response = connection.getresponse()
        if kserve and response.status == 200:
            server = from_json(response.read(65536))
            return f"{server['name']} {server['version']}"
        return response.headers.get("Server")
    finally:
        connection.close()


def tokens_per_arrival(log: RequestLog) -> float | None:
    """Mean tokens of an answer that arrive together, over finished requests: above 1, inter-token latencies are those of pieces."""
    tokens = pieces = 0
    for i in np.flatnonzero(log.ok):
        arrived = log.tokens(int(i))
        tokens, pieces = tokens + len(arrived), pieces + len(np.unique(arrived))
    return tokens / pieces if pieces else None


def cached_token_rows(log: RequestLog) -> list[MetricRow]:
    """`cache_hit_ratio`: cached over all prompt tokens, as the usage of answers counts them; nothing where it does not."""
    prompt, cached = log.usage[log.ok, PROMPT], log.usage[log.ok, CACHED]
    counted = (cached >= 0) & (prompt > 0)
    if not counted.any():
        return []
    read = int(prompt[counted].sum())
    return [metric_row("cache_hit_ratio", float(cached[counted].sum()) / read, read, phase=log.load.name)]


def token_count_source(logs: Sequence[RequestLog]) -> str | None:
    """The source of the answers' token counts: "usage", "events" (one event taken for one token) or "usage and events"; None without an answer."""
    counted = np.concatenate([log.usage[log.ok, COMPLETION] >= 0 for log in logs]) if logs else np.zeros(0, np.bool_)
    if not len(counted):
        return None
    return "usage" if counted.all() else "usage and events" if counted.any() else "events"


_STATUS = re.compile(r"^(?:HTTP|error) (\d{3})\b|^([A-Z_]+): ")
_GRPC = {
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "INVALID_ARGUMENT": 400,
    "UNIMPLEMENTED": 404,
    "FAILED_PRECONDITION": 400,
    "RESOURCE_EXHAUSTED": 429,
}
# An error within a gRPC stream has no status: these are Triton's words for a request that can never succeed.
_PERMANENT = re.compile(r"unknown model|unexpected inference input|unexpected shape for input|expected \d+ inputs but got", re.IGNORECASE)
_BY_ERROR: dict[str, FailureClass] = {
    "timeout": "timeout",
    "cancelled": "server_error",
    "server_error": "server_error",
    "unreachable": "unreachable",
    "wrong_output": "bad_declaration",
    "not_sent": "unreachable",
    "rate_limited": "quota_exceeded",
    "invalid_response": "server_error",
}

_OF_THE_SERVER = (408, 424)
"""Statuses below 500 of a server that did not finish: 424 is TGI's for a generation that failed."""
_FIELDS = (
    ("stream_options", "expected launcher.stream_options: false"),
    ("max_completion_tokens", "expected launcher.max_tokens_field: max_completion_tokens"),
    ("max_tokens", "expected launcher.max_tokens_field to be the field's name there, or shorter answers"),
    ("api-version", "expected launcher.query: {api-version: …}"),
    ("min_tokens", "expected launcher.exact_output: false"),
    ("ignore_eos", "expected launcher.exact_output: false"),
)
"""Words of a rejection → the declared field to change."""
_REMEDIES = {
    "not_sent": "expected launcher.url to lead to a server that this machine reaches",
    "unreachable": "expected launcher.url to lead to a server that this machine reaches and that keeps its connections",
    "timeout": "expected lower rates, shorter answers or a longer request_timeout",
}


def classify_failure(log: RequestLog) -> tuple[FailureClass, str]:
    """Class and reason, by the most frequent kind of failure; ValueError if no request failed.

    bad_declaration  the endpoint refuses the key, model, path or request, redirects, or answers with another number of tokens
    quota_exceeded   it reports too many requests, or an account without credit"""
    errors = log.errors()
    if not errors:
        raise ValueError(f"no request of {log.load.name} failed")
    error = max(errors, key=lambda name: errors[name])
    status, detail = _most_frequent(log, error)
    if status == 429 or error == "rate_limited":
        return (
            "quota_exceeded",
            f"the endpoint reports too many requests ({detail}); expected lower rates in phases, or a higher quota there",
        )
    if status is None:
        hint = "; declare exact_output: false if it cannot" if error == "wrong_output" and "; expected" in detail else ""
        hint = f"; {_REMEDIES[error]}" if error in _REMEDIES else hint
        return _BY_ERROR[error], f"{error}: {detail}{hint}"
    if status == 402:
        return "quota_exceeded", f"the endpoint reports an account without credit ({detail})"
    if status in (401, 403):
        return (
            "bad_declaration",
            f"the endpoint refuses the key ({detail}); expected launcher.connection to name a connection whose key is valid there",
        )
    if 300 <= status < 400:
        return "bad_declaration", f"the endpoint redirects ({detail}); expected launcher.url to be where it answers"
    if 400 <= status < 500 and status not in _OF_THE_SERVER:
        expected = next((remedy for words, remedy in _FIELDS if words in detail), "expected url, protocol, model and lengths that it knows")
        return "bad_declaration", f"the endpoint rejects the request ({detail}); {expected}"
    return _BY_ERROR[error], detail


def _most_frequent(log: RequestLog, error: str) -> tuple[int | None, str]:
    """The most frequent status of this class and its first detail; (None, first detail) without a status."""
    counts: Counter[int | None] = Counter()
    first: dict[int | None, str] = {}
    for number, detail in sorted(log.details.items()):
        if log.error_of(number) != error:
            continue
        status = _status(detail)
        counts[status] += 1
        first.setdefault(status, detail)
    if not counts:
        return None, log.first_error()
    status = counts.most_common(1)[0][0]
    return status, first[status]


def _status(detail: str) -> int | None:
    match = _STATUS.match(detail)
    if match is None:
        return 400 if _PERMANENT.search(detail) else None
    return int(match[1]) if match[1] else _GRPC.get(match[2])
