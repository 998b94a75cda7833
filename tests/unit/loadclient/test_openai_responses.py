"""What OpenAI's streams mean: tokens and their moments, or what is wrong, whose words it is, and what is unusual."""

from __future__ import annotations

import json
from typing import Any

import pytest

from plumbline.loadclient.event_stream import InvalidResponse
from plumbline.loadclient.http_responses import CompletedResponse, spread
from plumbline.loadclient.openai_responses import OpenAiResponse, usage_counts
from plumbline.loadclient.request_log import Remark


def event(data: Any) -> bytes:
    return f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


def said(*texts: str) -> list[Any]:
    return [{"choices": [{"index": 0, "text": text}]} for text in texts]


def counted(tokens: int, prompt: int = 5) -> dict[str, Any]:
    return {"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": tokens}}


def read(answer: OpenAiResponse, *events: Any) -> CompletedResponse:
    """One event a second."""
    for at, data in enumerate(events):
        answer.feed(data if isinstance(data, bytes) else event(data), float(at))
    return answer.complete()


def failure(*events: Any, asked: int = 9, content_type: str = "text/event-stream") -> tuple[str, str]:
    with pytest.raises(InvalidResponse) as raised:
        read(OpenAiResponse(asked, False, content_type=content_type), *events)
    return raised.value.error, raised.value.detail


def chat(*deltas: dict[str, Any], finish: str = "stop") -> list[Any]:
    return [
        *({"choices": [{"index": 0, "delta": delta}]} for delta in deltas),
        {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
    ]


def test_each_event_with_text_is_a_token() -> None:
    assert read(OpenAiResponse(3, True), *said("a", "b", "c"), counted(3), "[DONE]") == CompletedResponse([0, 1, 2], usage=(5, -1, 3, -1))


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
    assert read(OpenAiResponse(2, True), *chunks, {"choices": [], "usage": usage}, "[DONE]") == CompletedResponse(
        [0, 1], usage=(9, 6, 2, -1), remark=Remark(True, 1.0, 0, "")
    )
    usage["prompt_tokens_details"] = None  # type: ignore[assignment]
    assert read(OpenAiResponse(2, True), *chunks, {"choices": [], "usage": usage}, "[DONE]").usage == (9, -1, 2, -1)


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
        ([counted(2), "[DONE]"], True, "server_error", "no event with text, although 2 tokens were counted"),
        (["{no", "[DONE]"], True, "server_error", "not JSON"),
        (["[1]", "[DONE]"], True, "server_error", "not a JSON object"),
        ([{"object": "error", "message": "no", "code": 500}], True, "server_error", "error 500 in the stream: no"),
        ([{"error": {"message": "slow", "code": "429"}}], True, "rate_limited", "error 429 in the stream: slow"),
        ([{"error": {"message": "no\nmemory"}}], True, "server_error", "error in the stream: no memory"),
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


def test_keep_alives_in_the_form_of_empty_chunks_are_no_tokens() -> None:
    empty = {"content": ""}
    stream = [*chat({"role": "assistant", "content": ""}, empty, empty, {"content": "a b"}, {"content": "c"}, empty), counted(3), "[DONE]"]
    assert read(OpenAiResponse(9, False), *stream).token_at == [3, 3, 4]
    paused = [*said("abcd", "", "", "efgh"), counted(6), "[DONE]"]
    assert read(OpenAiResponse(9, False), *paused).token_at == [0, 0, 0, 3, 3, 3], "two pauses do not make six tokens"


def test_each_form_of_content_is_tokens() -> None:
    call = {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": ""}}]}
    more = {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}
    answer = read(OpenAiResponse(9, False), *chat(call, more, finish="tool_calls"), counted(7), "[DONE]")
    assert answer.token_at == [0, 0, 0, 0, 1, 1, 1]
    assert answer.remark == Remark(False, 0.0, 0, "answered by a tool call, not text: f")
    for delta, note in (
        ({"function_call": {"name": "g", "arguments": "{"}}, "answered by a tool call, not text: g{"),
        ({"refusal": "I cannot"}, "answered by a refusal, not text: I cannot"),
    ):
        answer = read(OpenAiResponse(9, False), *chat(delta), counted(2), "[DONE]")
        assert answer.token_at == [0, 0] and answer.remark is not None and answer.remark.note == note
    for delta in ({"content": [{"type": "text", "text": "hi"}]}, {"audio": {"transcript": "hi"}}, {"audio": {"data": "UklGRg=="}}):
        assert read(OpenAiResponse(9, False), *chat(delta), counted(2), "[DONE]") == CompletedResponse([0, 0], usage=(5, -1, 2, -1))
    assert failure(*chat({"annotations": [{"type": "url_citation"}]}), "[DONE]")[1].startswith("the answer is empty")


@pytest.mark.parametrize(
    "thought",
    [
        {"reasoning_content": "hm"},
        {"reasoning": "hm", "reasoning_content": "hm", "content": None},
        {"reasoning_details": [{"type": "reasoning.text", "text": "hm"}]},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]},
    ],
)
def test_thoughts_come_before_the_first_content(thought: dict[str, Any]) -> None:
    answer = read(OpenAiResponse(9, False), *chat(thought, thought, {"content": "yes"}), counted(3), "[DONE]")
    assert answer.token_at == [0, 1, 2] and answer.remark == Remark(True, 2.0, 0, "")
    silent = read(OpenAiResponse(9, False), *chat(thought, finish="length"), counted(1), "[DONE]")
    assert silent.token_at == [0] and silent.remark == Remark(True, None, 0, "")


@pytest.mark.parametrize(
    ("usage", "sent", "unsent"),
    [
        ({"completion_tokens": 300, "completion_tokens_details": {"reasoning_tokens": 298}}, 2, 298),
        ({"completion_tokens": 2, "completion_tokens_details": {"reasoning_tokens": 298}, "total_tokens": 305}, 2, 298),
        ({"completion_tokens": 2, "total_tokens": 305}, 2, 298),
        ({"completion_tokens": 300}, 4, 296),
        ({"completion_tokens": 3, "total_tokens": 8}, 3, 0),
        ({"completion_tokens": 2, "total_tokens": 10}, 2, 0),
        ({"completion_tokens": 2, "total_tokens": 9000}, 2, 0),
    ],
)
def test_tokens_that_were_only_counted_have_no_moment(usage: dict[str, Any], sent: int, unsent: int) -> None:
    answer = read(
        OpenAiResponse(400, False),
        *chat({"content": "Yes"}, {"content": "."}),
        {"choices": [], "usage": {"prompt_tokens": 5, **usage}},
        "[DONE]",
    )
    assert len(answer.token_at) == sent
    assert (answer.remark.unsent if answer.remark else 0) == unsent
    assert answer.usage is not None and answer.usage[2] == sent + unsent


@pytest.mark.parametrize(
    "usage", [{"completion_tokens": 0}, {"completion_tokens": 1}, {"completion_tokens": None}, {"completion_tokens": "2"}]
)
def test_a_count_below_what_came_is_no_count(usage: dict[str, Any]) -> None:
    answer = read(OpenAiResponse(9, False), *said("a", "b"), {"choices": [], "usage": {"prompt_tokens": 5, **usage}}, "[DONE]")
    assert answer == CompletedResponse([0, 1], usage=(5, -1, -1, -1))


def test_usage_is_read_wherever_it_is_and_by_either_name() -> None:
    for last in (
        {"choices": [{"delta": {}, "finish_reason": "stop", "usage": {"prompt_tokens": 5, "completion_tokens": 2}}]},
        {"choices": [{"delta": {}, "finish_reason": "stop"}], "x_groq": {"usage": {"input_tokens": 5, "output_tokens": 2.0}}},
    ):
        assert read(OpenAiResponse(9, False), *said("a", "b"), last).usage == (5, -1, 2, -1)
    assert usage_counts({"prompt_tokens": -1, "completion_tokens": True}) == (-1, -1, -1, -1)


def test_a_finish_reason_and_a_clean_end_are_an_end() -> None:
    assert read(OpenAiResponse(9, False), *chat({"content": "a"})).token_at == [0]
    assert failure({"choices": [{"delta": {"content": "a"}, "finish_reason": ""}]}) == (
        "server_error",
        "the stream ended without [DONE], after 1 events with text",
    )
    assert read(OpenAiResponse(9, False), *said("a"), b"data: [DONE]").token_at == [0], "its last empty line is left out"
    assert failure(*said("a"), {"choices": [{"delta": {}, "finish_reason": "insufficient_system_resource"}]})[0] == "server_error"


def test_a_whole_answer_at_the_end_is_not_said_twice() -> None:
    assert read(OpenAiResponse(9, False), *said("a", "b", "c", "abc"), counted(3), "[DONE]").token_at == [0, 1, 2]


def test_comments_sent_as_data_are_skipped_and_counted() -> None:
    for comment in (": PROCESSING", ":", "", "ping", "keep-alive", '"ping"', "null"):
        answer = read(OpenAiResponse(9, False), comment, comment, *said("a"), counted(1), "[DONE] ")
        assert answer.token_at == [2]
        assert answer.remark == Remark(False, 2.0, 0, "2 events skipped that are no JSON, as comments are")
    quiet = read(OpenAiResponse(9, False), b"event: ping\ndata: {}\n\n", b"\xef\xbb\xbf", b": x\n\n", *said("a"), counted(1), "[DONE]")
    assert quiet == CompletedResponse([3], usage=(5, -1, 1, -1))


@pytest.mark.parametrize(
    ("error", "status", "error_class"),
    [
        ({"error": "quota exceeded"}, 429, "rate_limited"),
        ({"error": {"message": "no", "type": "GatewayTimeout", "code": 504}}, 504, "unreachable"),
        ({"error": {"message": "n_ctx", "type": "exceed_context_size_error", "code": 400}}, 400, "server_error"),
        ({"error": {"message": "no", "type": "invalid_request_error", "code": "model_not_found"}}, 404, "server_error"),
        ({"error": {"message": "no", "type": "invalid_request_error", "code": "invalid_api_key"}}, 401, "server_error"),
        ({"error": {"error": {"message": "slow", "type": "rate_limit_error"}}}, 429, "rate_limited"),
        ({"error": {"message": '{"error": {"message": "inner", "code": 503}}'}}, 503, "unreachable"),
        ({"error": "Model is overloaded", "error_type": "overloaded"}, 503, "unreachable"),
        (
            {"choices": [{"error": {"message": "gone", "code": 502}, "delta": {"content": ""}, "finish_reason": "error"}]},
            502,
            "unreachable",
        ),
        ({"throttlingException": {"message": "slow"}}, 429, "rate_limited"),
        ({"__type": "ValidationException", "message": "no"}, 400, "server_error"),
        ({"message": "slow", "statusCode": 429}, 429, "rate_limited"),
        ({"detail": "Not Found"}, 404, "server_error"),
        (b'event: error\ndata: {"message": "no", "code": 500}\n\n', 500, "server_error"),
        (b'error: {"message": "no", "code": 500}\n\n', 500, "server_error"),
        ({"error": True, "message": "model not found"}, 404, "server_error"),
        ({"success": False, "errors": [{"code": 7009, "message": "too many requests"}]}, 429, "rate_limited"),
        (b"event: error\r\ndata: request timed out\r\n\r\n", 504, "unreachable"),
    ],
)
def test_an_error_in_the_stream_is_what_its_status_would_be(error: Any, status: int, error_class: str) -> None:
    found, detail = failure(*said("a"), error)
    assert (found, detail.partition(":")[0]) == (error_class, f"error {status} in the stream")


def test_what_a_server_refuses_to_answer_is_its_own_answer() -> None:
    error = {"error": {"code": "content_filter", "message": "filtered", "status": 400}}
    assert failure(error) == ("server_error", "the server refused the content: filtered")
    assert failure("[DONE]") == ("server_error", "the answer is empty: no event with text")
    thought = {"prompt_tokens": 5, "completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 9}}
    found, detail = failure(*chat(finish="length"), {"choices": [], "usage": thought}, "[DONE]")
    assert found == "server_error" and "9 tokens were counted, 9 of them thoughts; finish_reason length" in detail
    with pytest.raises(InvalidResponse, match="answered by a tool call, not text: f; 3 tokens; expected 9") as raised:
        read(OpenAiResponse(9, True), *chat({"tool_calls": [{"function": {"name": "f"}}]}), counted(3), "[DONE]")
    assert raised.value.error == "server_error", "no declaration can change it"


@pytest.mark.parametrize(
    "chunk", [{"choices": [None]}, {"choices": {"a": 1}}, {"choices": [{"delta": "text"}]}, {"choices": [{"delta": {"tool_calls": [7]}}]}]
)
def test_an_event_of_a_form_that_nobody_expects_is_quoted(chunk: dict[str, Any]) -> None:
    error, detail = failure(chunk)
    assert error == "invalid_response" and detail.endswith(json.dumps(chunk))


def test_a_body_that_is_no_stream_is_read_as_what_it_is() -> None:
    whole = {"choices": [{"message": {"content": "Paris", "reasoning_content": "hm"}, "finish_reason": "stop"}]}
    body = json.dumps({**whole, "usage": {"prompt_tokens": 5, "completion_tokens": 3}}).encode()
    answer = read(OpenAiResponse(9, False, content_type="application/json"), body[:20], body[20:])
    assert answer == CompletedResponse([1, 1, 1], usage=(5, -1, 3, -1), remark=Remark(True, 1, 0, "did not stream (application/json)"))
    html = b"<html><head><title>Sign in</title><script>var a;</script></head></html>"
    assert failure(html, content_type="text/html") == ("server_error", "HTTP 200 with text/html, no event stream: Sign in")
    assert failure(b'{"error": {"message": "no", "code": 401}}')[1].startswith("error 401 in the stream: ")
    assert failure(b"no healthy upstream", content_type="text/plain")[1].endswith(": no healthy upstream")
    plain = failure(b"Internal Server Error")
    assert plain == ("server_error", "error 500 in the stream: HTTP 200 with text/event-stream, no event stream: Internal Server Error")
    assert read(OpenAiResponse(9, False, content_type="text/event-stream"), b"x-field: y\n", *said("a"), "[DONE]").token_at == [1]
    assert failure() == ("server_error", "the answer has an empty body")
    assert read(OpenAiResponse(9, False, content_type="application/json"), *said("a"), "[DONE]").token_at == [0], (
        "a stream under another label"
    )
