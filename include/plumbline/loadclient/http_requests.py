"""Requests over HTTP, serialized before the load starts: sending is then two writes.

A request is a prefix that all of a phase share (request line, host, key) and a body of its own, which begins with the headers that only it
has. So bodies hold no key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from plumbline.loadclient.prompt import Prompt
from plumbline.loadclient.wire import Tensor

NO_HEADERS: Mapping[str, str] = {}


def request_prefix(authority: str, path: str, headers: Mapping[str, str]) -> bytes:
    """`authority` is host:port, `path` the whole path."""
    lines = [f"POST {path} HTTP/1.1", f"Host: {authority}", "User-Agent: plumbline", "Accept-Encoding: identity"]
    return "\r\n".join([*lines, *(f"{name}: {value}" for name, value in headers.items()), ""]).encode("ascii")


def completion_request(
    model: str,
    prompt: Prompt,
    output_tokens: int,
    *,
    chat: bool,
    exact: bool,
    limit: str = "max_tokens",
    stream_options: bool = True,
    headers: Mapping[str, str] = NO_HEADERS,
) -> bytes:
    """OpenAI's request for a stream of at most `output_tokens` tokens, or of exactly as many where the server supports that. `limit`: the field
    that holds the number; `stream_options`: asks for the usage; `headers`: of this request alone."""
    body: dict[str, Any] = {"model": model, limit: output_tokens, "temperature": 0, "stream": True}
    if stream_options:
        body["stream_options"] = {"include_usage": True}
    if exact:
        body |= {"min_tokens": output_tokens, "ignore_eos": True}
    if chat:
        body["messages"] = list(prompt.messages) if prompt.messages is not None else [{"role": "user", "content": prompt.text}]
    else:
        body["prompt"] = prompt.text if prompt.text is not None else prompt.ids.tolist()
    return _streamed(body, headers)


def generate_request(prompt: Prompt, output_tokens: int, headers: Mapping[str, str] = NO_HEADERS) -> bytes:
    """KServe's request for a stream of tokens, with the causal LM's inputs as JSON."""
    body: dict[str, Any] = {"PROMPT": prompt.text} if prompt.text is not None else {"PROMPT_IDS": prompt.ids.tolist()}
    return _streamed({**body, "MAX_TOKENS": output_tokens}, headers)


def infer_request(number: int, tensors: Sequence[Tensor], headers: Mapping[str, str] = NO_HEADERS) -> bytes:
    """KServe's request `number` with binary tensors both ways."""
    described = [
        {"name": t.name, "shape": list(t.values.shape), "datatype": t.datatype, "parameters": {"binary_data_size": len(t.data)}}
        for t in tensors
    ]
    header = _json({"id": str(number), "inputs": described, "parameters": {"binary_data_output": True}})
    payload = header + b"".join(t.data for t in tensors)
    return _body(payload, {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(len(header)), **headers})


def _streamed(body: Mapping[str, Any], headers: Mapping[str, str]) -> bytes:
    return _body(_json(body), {"Content-Type": "application/json", "Accept": "text/event-stream", **headers})


def _body(payload: bytes, headers: Mapping[str, str]) -> bytes:
    lines = [f"{name}: {value}\r\n" for name, value in {**headers, "Content-Length": str(len(payload))}.items()]
    return "".join([*lines, "\r\n"]).encode("ascii") + payload


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
