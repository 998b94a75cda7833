"""The HTTP transport of a target: its paths, its headers, and who reads its answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plumbline.harness.inference.arrivals import PhaseLoad
from plumbline.harness.inference.client.target import Target
from plumbline.harness.inference.endpoint.answers import Answer, GenerateAnswer, InferAnswer, OpenAiAnswer
from plumbline.harness.inference.endpoint.http1 import Headers, Http1
from plumbline.harness.inference.endpoint.requests import prefix
from plumbline.harness.inference.endpoint.talk import address_of, tls_context
from plumbline.harness.inference.wire import INPUT_TOKENS

_HEADER_LENGTH = b"inference-header-content-length"


def path_of(target: Target) -> str:
    """The path that requests are posted to."""
    own = {
        "openai": "/completions",
        "openai_chat": "/chat/completions",
        "kserve_http": f"/v2/models/{target.wire.model}/{'generate_stream' if target.wire.method == 'stream' else 'infer'}",
    }
    return target.path + own[target.protocol]


def http_transport(target: Target, load: PhaseLoad, bodies: Sequence[bytes] | Mapping[int, bytes]) -> Http1:
    """The transport of one phase's load over HTTP/1.1; `bodies[i]` is request i, as `endpoint.requests` makes it."""

    def answer_of(number: int, headers: Headers) -> Answer:
        if target.protocol != "kserve_http":
            sent = int(load.input_tokens[number]) if INPUT_TOKENS in target.wire.last else None
            return OpenAiAnswer(int(load.output_tokens[number]), target.exact, sent)
        if target.wire.method == "stream":
            return GenerateAnswer(target.wire, int(load.output_tokens[number]), int(load.input_tokens[number]))
        length = headers.get(_HEADER_LENGTH, b"")
        return InferAnswer(target.wire, int(length) if length.isdigit() else None)

    return Http1(
        address_of(target.address),
        tls_context() if target.tls else None,
        prefix(target.address, path_of(target), target.headers),
        bodies,
        answer_of,
        ready=int((load.after < 0).sum()) if load.closed else 0,
        secret=target.headers.get("Authorization", "").rpartition(" ")[2] or None,
    )
