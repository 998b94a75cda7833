"""What is asked over HTTP, made before the load starts: sending is then two writes.

A request is a prefix that all of a phase share (request line, host, key) and a body of its own, which begins with the headers that only it
has. So bodies hold no key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from plumbline.harness.inference.prompts import Prompt
from plumbline.harness.inference.wire import Tensor


def prefix(authority: str, path: str, headers: Mapping[str, str], method: str = "POST") -> bytes:
    """The first lines of each request; `authority` is host:port, `path` the whole path."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {authority}", "User-Agent: plumbline", "Accept-Encoding: identity"]
    return "\r\n".join([*lines, *(f"{name}: {value}" for name, value in headers.items()), ""]).encode("ascii")


def completion(model: str, prompt: Prompt, output_tokens: int, *, chat: bool, exact: bool) -> bytes:
    """OpenAI's request for a stream of at most `output_tokens` tokens, or, where the server knows how to be told, of exactly so many."""
    asked: dict[str, Any] = {"model": model, "max_tokens": output_tokens, "temperature": 0}
    asked |= {"stream": True, "stream_options": {"include_usage": True}}
    if exact:
        asked |= {"min_tokens": output_tokens, "ignore_eos": True}
    if chat:
        asked["messages"] = [{"role": "user", "content": prompt.text}]
    else:
        asked["prompt"] = prompt.text if prompt.text is not None else prompt.ids.tolist()
    return _streamed(asked)


def generate(prompt: Prompt, output_tokens: int) -> bytes:
    """KServe's request for a stream of tokens, with the causal LM's inputs as JSON."""
    asked: dict[str, Any] = {"PROMPT": prompt.text} if prompt.text is not None else {"PROMPT_IDS": prompt.ids.tolist()}
    return _streamed({**asked, "MAX_TOKENS": output_tokens})


def infer(number: int, tensors: Sequence[Tensor]) -> bytes:
    """KServe's request `number` with binary tensors both ways."""
    described = [
        {"name": t.name, "shape": list(t.shape), "datatype": t.datatype, "parameters": {"binary_data_size": len(t.data)}} for t in tensors
    ]
    header = _json({"id": str(number), "inputs": described, "parameters": {"binary_data_output": True}})
    payload = header + b"".join(t.data for t in tensors)
    return _body(payload, {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(len(header))})


def _streamed(asked: Mapping[str, Any]) -> bytes:
    return _body(_json(asked), {"Content-Type": "application/json", "Accept": "text/event-stream"})


def _body(payload: bytes, headers: Mapping[str, str]) -> bytes:
    lines = [f"{name}: {value}\r\n" for name, value in {**headers, "Content-Length": str(len(payload))}.items()]
    return "".join([*lines, "\r\n"]).encode("ascii") + payload


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
