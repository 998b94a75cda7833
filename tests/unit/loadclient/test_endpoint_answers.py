"""What bodies of KServe mean: tokens and their moments, or what is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from plumbline.harness.inference.load.model_wires import causal_lm, encoder
from plumbline.loadclient.event_stream import InvalidResponse
from plumbline.loadclient.http_responses import CompletedResponse, GenerateResponse, InferResponse
from plumbline.loadclient.wire import Wire


def event(data: Any) -> bytes:
    return f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


def read(answer: Any, *events: Any) -> CompletedResponse:
    """One event a second."""
    for at, data in enumerate(events):
        answer.feed(event(data), float(at))
    outcome = answer.complete()
    assert isinstance(outcome, CompletedResponse)
    return outcome


LM = causal_lm("m", text=True)


def token(index: int, **more: Any) -> dict[str, Any]:
    return {"TOKEN": 1, "INDEX": index, "TEXT": "a", **more}


def test_a_generated_stream_is_checked_as_over_grpc() -> None:
    last = token(1, SERVER_TIMES=[1, 2, 3, 4, 5], INPUT_TOKENS=7)
    assert read(GenerateResponse(LM, 2, 7), token(0), last) == CompletedResponse([0, 1], [1.0, 2.0, 3.0, 4.0, 5.0])
    for events, detail in (
        ([token(0), token(2)], "token 1 has index 2"),
        ([token(0), {"TOKEN": 1, "INDEX": 1}], "token 1 has no TEXT"),
        ([token(0)], "1 tokens; expected 2"),
        ([token(0), token(1)], "the last token has no SERVER_TIMES"),
        ([token(0), token(1, SERVER_TIMES=[0] * 5, INPUT_TOKENS=8)], "tokenizer mismatch: the server made 8 tokens of a prompt of 7"),
    ):
        with pytest.raises(InvalidResponse, match=detail) as raised:
            read(GenerateResponse(LM, 2, 7), *events)
        assert raised.value.error == "wrong_output"


def body(**sizes: int) -> tuple[bytes, int]:
    outputs = [{"name": name, "parameters": {"binary_data_size": size}} for name, size in sizes.items()]
    header = json.dumps({"outputs": outputs}).encode()
    return header + bytes(sum(sizes.values())), len(header)


def test_sizes_of_tensors_are_checked_also_if_the_body_ends_early() -> None:
    wire: Wire = encoder("m", "embedding", 4)
    whole, length = body(VECTOR=16, SERVER_TIMES=40)
    answer = InferResponse(wire, length)
    answer.feed(whole[:20], 1.0)
    answer.feed(whole[20:], 2.0)
    assert answer.complete() == CompletedResponse([2.0], [0.0] * 5)
    cut = InferResponse(wire, length)
    cut.feed(whole[:-8], 1.0)
    with pytest.raises(InvalidResponse, match=r"\b32 .*SERVER_TIMES.*\b40$"):
        cut.complete()
    empty = InferResponse(wire, None)
    empty.feed(b'{"outputs": []}', 1.0)
    with pytest.raises(InvalidResponse, match=r"\b0 .*VECTOR.*\b16$"):
        empty.complete()
