"""What bodies mean: tokens and their moments, or what is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from plumbline.harness.inference.client.http_responses import (
    CompletedResponse,
    GenerateResponse,
    InferResponse,
    InvalidResponse,
    OpenAiResponse,
    spread,
)
from plumbline.harness.inference.load.wire import Wire, causal_lm, encoder


def event(data: Any) -> bytes:
    return f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


def said(*texts: str) -> list[Any]:
    return [{"choices": [{"index": 0, "text": text}]} for text in texts]


def counted(tokens: int, prompt: int = 5) -> dict[str, Any]:
    return {"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": tokens}}


def read(answer: Any, *events: Any) -> CompletedResponse:
    """One event a second."""
    for at, data in enumerate(events):
        answer.feed(event(data), float(at))
    outcome = answer.complete()
    assert isinstance(outcome, CompletedResponse)
    return outcome


def test_each_event_with_text_is_a_token() -> None:
    assert read(OpenAiResponse(3, True), *said("a", "b", "c"), counted(3), "[DONE]") == CompletedResponse([0, 1, 2], usage=(5, -1, 3))


def test_who_speaks_and_why_it_ended_are_no_tokens() -> None:
    chunks = [
        {"choices": [{"delta": {"role": "assistant", "content": ""}}]},
        {"choices": [{"delta": {"content": "a"}}]},
        {"choices": [{"delta": {"content": None, "reasoning_content": "b"}}]},
        {"choices": [{"delta": {}, "finish_reason": "length"}]},
    ]
    assert read(OpenAiResponse(2, True), *chunks, counted(2), "[DONE]").token_at == [1, 2]


def test_cached_tokens_and_thoughts_by_either_name() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 6}}
    chunks = [{"choices": [{"delta": {"reasoning": "a"}}], "error": None}, {"choices": [{"delta": {"content": "b"}}]}]
    assert read(OpenAiResponse(2, True), *chunks, {"choices": [], "usage": usage}, "[DONE]") == CompletedResponse([0, 1], usage=(9, 6, 2))
    usage["prompt_tokens_details"] = None  # type: ignore[assignment]
    assert read(OpenAiResponse(2, True), *chunks, {"choices": [], "usage": usage}, "[DONE]").usage == (9, -1, 2)


def test_an_empty_text_is_a_token_only_if_the_count_says_so() -> None:
    assert read(OpenAiResponse(3, True), *said("a", "", "c"), counted(3), "[DONE]").token_at == [0, 1, 2]
    assert read(OpenAiResponse(2, True), *said("a", "c", ""), counted(2), "[DONE]").token_at == [0, 1]


def test_tokens_of_one_event_arrived_together() -> None:
    assert read(OpenAiResponse(5, True), *said("a b c", "d e"), counted(5), "[DONE]").token_at == [0, 0, 0, 1, 1]
    assert spread([1.0], 3) == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("events", "exact", "error", "said_"),
    [
        ([*said("a", "b"), counted(2)], True, "server_error", "ended without [DONE], after 2 events"),
        ([*said("a"), counted(1), "[DONE]"], True, "wrong_output", "1 tokens; expected 2"),
        ([*said("a", "b", "c"), counted(3), "[DONE]"], False, "wrong_output", "3 tokens; expected 2"),
        ([*said("a", "b"), counted(1), "[DONE]"], False, "wrong_output", "2 events with text, although only 1 tokens were counted"),
        ([counted(2), "[DONE]"], True, "wrong_output", "no event with text"),
        (["{no", "[DONE]"], True, "server_error", "not JSON"),
        (["[1]", "[DONE]"], True, "server_error", "not a JSON object"),
        ([{"object": "error", "message": "no", "code": 500}], True, "server_error", "error in the stream: no"),
        ([{"error": {"message": "slow", "code": "429"}}], True, "rate_limited", "error in the stream: slow"),
        ([{"error": {"message": "too\nlong"}}], True, "server_error", "error in the stream: too long"),
    ],
)
def test_what_is_wrong_with_a_completion(events: list[Any], exact: bool, error: str, said_: str) -> None:
    with pytest.raises(InvalidResponse) as raised:
        read(OpenAiResponse(2, exact), *events)
    assert raised.value.error == error
    assert said_ in raised.value.detail


def test_a_prompt_of_ids_is_read_as_so_many_tokens() -> None:
    with pytest.raises(InvalidResponse, match=r"\b6 tokens.*\b5\b"):
        read(OpenAiResponse(1, True, 5), *said("a"), counted(1, prompt=6), "[DONE]")
    assert read(OpenAiResponse(1, True, 5), *said("a"), counted(1), "[DONE]").token_at == [0]


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
