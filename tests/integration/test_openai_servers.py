"""The load client against servers that speak OpenAI's protocol each in its own way: what was measured of them, and what is said of it."""

from __future__ import annotations

import gzip
import zlib
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from typing import Any

import numpy as np
import pytest
from tests.fakes.scripted_http import DONE, STREAM, Answer, Scripted, counted, event, said
from tests.integration.test_inference_hosted import endpoint_at

from plumbline.harness.inference.analysis.metrics import metrics_of
from plumbline.harness.inference.endpoint import Endpoint, classify_failure
from plumbline.harness.inference.server.under_test import ExternalServer
from plumbline.loadclient import load_generator
from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.prompt import Prompt
from plumbline.loadclient.request_log import RequestLog
from plumbline.results import MetricRow

TEXT = {"input_tokens": {"constant": 20}, "output_tokens": {"constant": 40}, "text": True, "seed": 1}
KEY = "sk-planted-81c2"
LATE_S = 0.4
"""What a busy machine may add to a moment."""


def endpoint(server: Scripted, key: str | None = None, **launcher: Any) -> Endpoint:
    made = endpoint_at(server.url + "/v1", "openai_chat", key, exact=False, requests=TEXT)
    return Endpoint(made.launcher.model_validate({**made.launcher.model_dump(), **launcher}), made.workload, key)


def drive(made: Endpoint, n: int = 1, every_s: float = 0.0, sent: int = 20, asked: int = 400, timeout_s: float = 20.0) -> RequestLog:
    lengths = (np.full(n, value, np.int32) for value in (sent, asked, -1))
    load = PhaseLoad("steady", max(1.0, n * every_s), np.arange(n) * every_s, *lengths)
    bodies = [made.body(i, Prompt(np.zeros(1, np.int32), "hello"), asked) for i in range(n)]
    return load_generator.drive(load, bodies, made.target(), timeout_s=timeout_s)


def reasons(made: Endpoint, log: RequestLog) -> dict[str, str]:
    return {judgement.reason.code: judgement.level for judgement in ExternalServer(made).judgements(log)}


def row(made: Endpoint, log: RequestLog, metric: str, statistic: str = "value") -> MetricRow:
    return next(r for r in metrics_of(log, made.workload.slo, None) if (r.metric, r.statistic) == (metric, statistic))


def test_keep_alives_are_no_first_token() -> None:
    stream = [
        said("", role="assistant"),
        0.5,
        said(""),
        0.5,
        said("ab cd ef"),
        0.3,
        said(" gh ij kl", finish_reason="length"),
        counted(20, 4),
        DONE,
    ]
    with Scripted([Answer(stream)]) as server:
        made = endpoint(server)
        log = drive(made)
    assert log.errors() == {}, log.first_error()
    assert 0.95 <= log.first_token[0] - log.dispatched[0] < 1.0 + LATE_S
    assert 0.25 / 3 <= log.time_per_output_token[0] < (0.3 + LATE_S) / 3
    assert reasons(made, log) == {}


def test_an_answer_in_one_piece_has_no_pace_and_the_trial_says_so() -> None:
    whole = said("a b") + said(" c d") + counted(20, 4) + DONE
    with Scripted([Answer([whole.replace(b"\n", b"\r\n")])]) as server:
        made = endpoint(server)
        log = drive(made, 2)
    assert np.isnan(log.time_per_output_token).all() and not len(log.gaps())
    assert reasons(made, log) == {"pace_unmeasured": "degraded"}
    for metric in ("time_per_output_token", "inter_token_latency", "output_token_throughput_per_user"):
        assert row(made, log, metric, "mean").value is None
        assert "4 tokens came at once" in str(row(made, log, metric, "mean").reason)
    assert row(made, log, "output_token_throughput").n == 8


def test_hidden_thoughts_are_paid_for_and_have_no_pace() -> None:
    usage = {"prompt_tokens": 20, "completion_tokens": 300, "completion_tokens_details": {"reasoning_tokens": 298}}
    with Scripted([Answer([0.2, said("Yes"), 0.05, said("."), event({"choices": [], "usage": usage}), DONE])]) as server:
        made = endpoint(server)
        log = drive(made)
    assert (log.received[0], log.written[0], np.isnan(log.time_per_output_token[0])) == (2, 300, True)
    assert reasons(made, log) == {"pace_unmeasured": "degraded"}
    assert "2 of 300 tokens were sent" in str(row(made, log, "inter_token_latency", "p50").reason)
    assert row(made, log, "output_token_throughput").n == 300
    assert row(made, log, "time_to_first_content_token", "mean").value == row(made, log, "time_to_first_token", "mean").value


def test_a_cut_prompt_is_not_what_the_server_is_paid_for() -> None:
    with Scripted([Answer([said("a"), said(" b"), counted(2051, 2), DONE])]) as server:
        made = endpoint(server)
        log = drive(made, 2, sent=7900)
        short = drive(made, 2, sent=2000)
    assert reasons(made, log)["prompt_cut"] == "invalid"
    assert row(made, log, "input_token_throughput").n == 2 * 2051
    assert "prompt_cut" not in reasons(made, short), "another tokenizer makes more tokens"


def test_failed_answers_deliver_nothing() -> None:
    broken = event({"error": {"message": "gone", "code": 500}})
    with Scripted([Answer([said("a"), said("b"), said("c"), broken, DONE]), Answer([said("a"), counted(20, 1), DONE])]) as server:
        made = endpoint(server)
        log = drive(made, 2, 0.3)
    assert log.errors() == {"server_error": 1} and log.received.tolist() == [3, 1]
    assert row(made, log, "output_token_throughput").n == 1


@pytest.mark.parametrize("coding", ["gzip", "deflate", "bare deflate"])
@pytest.mark.parametrize("members", [True, False])
def test_a_compressed_stream_is_read(coding: str, members: bool) -> None:
    def bare(data: bytes) -> bytes:
        packing = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        return packing.compress(data) + packing.flush()

    pack = {"gzip": gzip.compress, "deflate": zlib.compress, "bare deflate": bare}[coding]
    pieces = [said("Größe"), said(" 𝛼"), counted(20, 2), DONE]
    data = [pack(piece) for piece in pieces] if members else [pack(b"".join(pieces))]
    torn = [part for piece in data for part in (piece[: len(piece) // 2], piece[len(piece) // 2 :])]
    with Scripted([Answer(torn, headers={**STREAM, "Content-Encoding": coding.split()[-1]})]) as server:
        log = drive(endpoint(server))
    assert log.errors() == {}, log.first_error()
    assert log.received[0] == 2


@pytest.mark.parametrize(("coding", "body"), [("br", b"\x0b\x02\x80abc\x03"), ("gzip", b"no gzip")])
def test_a_body_that_cannot_be_unpacked_is_the_servers_error(coding: str, body: bytes) -> None:
    with Scripted([Answer([body], headers={**STREAM, "Content-Encoding": coding})]) as server:
        log = drive(endpoint(server))
    assert log.errors() == {"server_error": 1} and f"Content-Encoding {coding}" in log.details[0]


def test_a_character_may_be_torn_apart_and_the_last_chunk_left_out() -> None:
    whole = said("a𝛼b") + said("é")
    with Scripted([Answer([whole[:45], whole[45:46], whole[46:], counted(20, 2) + DONE], cut=True)]) as server:
        log = drive(endpoint(server))
    assert log.errors() == {} and log.received[0] == 2, log.first_error()
    with Scripted([Answer([whole, said("", finish_reason="stop")], cut=True)]) as server:
        log = drive(endpoint(server))
    assert "closed in the middle of the answer" in log.details[0]


@pytest.mark.parametrize(
    ("status", "headers", "body", "error", "detail"),
    [
        (502, {"Content-Type": "text/html"}, b"<html><h1>502 Bad Gateway</h1><hr>nginx</html>", "unreachable", "HTTP 502: 502 Bad Gateway nginx"),
        (429, {"retry-after-ms": "1338"}, b'{"error": {"message": "Slow down", "type": "tokens"}}', "rate_limited", "HTTP 429, the server asks to wait 1.338 s: Slow down"),
        (503, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, b"", "unreachable", "HTTP 503, the server asks to wait until 2015-10-21 07:28:00 UTC, which has passed"),
        (422, {"Content-Encoding": "gzip"}, gzip.compress(b'{"detail": [{"loc": ["body", "x"], "msg": "no"}, {"loc": ["y"], "msg": "nor"}]}', mtime=0), "server_error", "HTTP 422: body.x: no; y: nor"),
        (500, {}, b'data: {"error": "boom"}\n\n', "server_error", "HTTP 500: boom"),
    ],
)  # fmt: skip
def test_a_refusal_is_said_in_one_line(status: int, headers: dict[str, str], body: bytes, error: str, detail: str) -> None:
    with Scripted([Answer([body] if body else [], status, headers)]) as server:
        log = drive(endpoint(server))
    assert log.errors() == {error: 1} and log.details[0] == detail


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"detail": [{"loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted"}]}', "launcher.stream_options: false"),
        (
            b'{"error": {"message": "Use \'max_completion_tokens\' instead of max_tokens."}}',
            "launcher.max_tokens_field: max_completion_tokens",
        ),
        (b'{"error": {"message": "Missing required query parameter: api-version"}}', "launcher.query: {api-version:"),
    ],
)
def test_what_can_be_declared_otherwise_is_named(body: bytes, expected: str) -> None:
    with Scripted([Answer([body], 400, {})]) as server:
        failure_class, detail = classify_failure(drive(endpoint(server)))
    assert failure_class == "bad_declaration" and expected in detail


def test_a_request_is_what_was_declared() -> None:
    declared = {
        "key_header": "api-key",
        "headers": {"x-priority": "5", "x-tenant": ("a", "b", "c")},
        "query": {"api-version": "2024-10-21"},
        "max_tokens_field": "max_completion_tokens",
        "stream_options": False,
    }
    with Scripted([Answer([said("a"), DONE])]) as server:
        made = endpoint(server, KEY, **declared)
        log = drive(made, 5, 0.05, asked=7)
        facts = made.facts()
    assert log.errors() == {}, log.first_error()
    asked = [head for head in server.heads if head.startswith("POST")]
    assert all(head.startswith("POST /v1/chat/completions?api-version=2024-10-21 HTTP/1.1\r\n") for head in asked)
    assert all(f"\r\napi-key: {KEY}\r\n" in head and "\r\nx-priority: 5\r\n" in head and "Authorization" not in head for head in asked)
    assert sorted(next(line for line in head.split("\r\n") if line.startswith("x-tenant")) for head in asked) == [
        "x-tenant: a", "x-tenant: a", "x-tenant: b", "x-tenant: b", "x-tenant: c"
    ]  # fmt: skip
    body = next(body for body in server.bodies if body)
    assert body["max_completion_tokens"] == 7 and not {"max_tokens", "stream_options"} & set(body)
    assert facts["endpoint.headers"] == "x-priority: 5; x-tenant: a, b, c" and KEY not in repr([facts, made, made.target()])


def test_a_key_that_is_quoted_is_hidden_wherever_it_was_sent() -> None:
    with Scripted([Answer([f"no such key {KEY}".encode()], 401, {})]) as server:
        log = drive(endpoint(server, KEY, key_header="x-api-key"))
    assert log.details[0] == "HTTP 401: no such key ***"


@pytest.mark.parametrize("header", ["seconds", "milliseconds", "date"])
def test_a_declared_wait_is_obeyed_and_counts(header: str) -> None:
    until = format_datetime(datetime.now(timezone.utc) + timedelta(seconds=3), usegmt=True)
    headers = {"seconds": {"Retry-After": "1"}, "milliseconds": {"retry-after-ms": "1000"}, "date": {"Retry-After": until}}[header]
    answers = [Answer([b"slow"], 429, headers), Answer([said("a"), counted(20, 1), DONE])]
    with Scripted(answers) as server:
        made = endpoint(server, retry_after="wait")
        log = drive(made)
    assert log.errors() == {}, log.first_error()
    assert log.details[0].startswith("sent again after a wait: HTTP 429") and len(server.bodies) == 2
    assert log.first_token[0] - log.scheduled[0] >= (1.0 if header != "date" else 0.5)
    assert log.dispatched[0] - log.scheduled[0] < LATE_S, "the first sending counts"
    assert reasons(made, log) == {"rate_limited": "degraded"}
    with Scripted([Answer([b"slow"], 429, {"Retry-After": "30"})]) as server:
        log = drive(endpoint(server, retry_after="wait"), timeout_s=3.0)
    assert log.errors() == {"rate_limited": 1}, "its time would be over by then"


def test_a_second_try_goes_to_a_new_connection() -> None:
    with Scripted([Answer([said("a"), counted(20, 1), DONE])], idle_s=1.0) as server:
        log = drive(endpoint(server), 4, 1.3)
    assert server.crossed, "every connection from before was as old as the first"
    assert log.errors() == {}, log.details
