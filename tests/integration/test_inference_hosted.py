"""The load client against a hosted model over HTTP whose timing is known and whose faults are told."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.fakes.certificates import self_signed
from tests.fakes.golden_triton import Golden
from tests.fakes.openai_server import SERVER_TIMES, Hosted, Plan
from tests.fakes.trials import a_trial, local_provider

from plumbline.declarations import EndpointLauncher, InferenceWorkload, Provider, Trial
from plumbline.harness.inference.analysis.metrics import round_trip_rows
from plumbline.harness.inference.endpoint import Endpoint, cached_token_rows, classify_failure, token_count_source
from plumbline.harness.inference.load import model_wires
from plumbline.harness.inference.server.under_test import ExternalServer
from plumbline.loadclient import load_generator, round_trip
from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.prompt import Prompt
from plumbline.loadclient.request_log import RequestLog
from plumbline.loadclient.transport import Target

# What a message may take from the server's hands to the client's clock on a busy machine; typically a hundredth of it.
WORST_S = 0.1
KEY = "sk-planted-4f1d9c"
ENCODER = {"architecture": "encoder", "task": "embedding", "layers": 1, "width": 16, "heads": 2, "vocabulary": 256, "context": 64}
TEXT = {"input_tokens": {"constant": 5}, "output_tokens": {"constant": 4}, "text": True, "seed": 1}
ONE_TOKEN = {"input_tokens": {"constant": 5}, "output_tokens": {"constant": 1}, "seed": 1}


def trial_on(url: str, protocol: str, *, exact: bool = True, model_name: str = "golden", **declare: Any) -> Trial:
    endpoint = {"kind": "endpoint", "url": url, "protocol": protocol, "model": model_name, "exact_output": exact}
    data = json.loads(local_provider().model_dump_json())
    provider = Provider.model_validate_json(json.dumps({**data, "name": "hosted", "launcher": endpoint}))
    return a_trial("inference", provider, {"server": {"backend": "external"}, **declare})


def endpoint_at(url: str, protocol: str = "openai", key: str | None = None, **declare: Any) -> Endpoint:
    trial = trial_on(url, protocol, **declare)
    assert isinstance(trial.provider.launcher, EndpointLauncher)
    assert isinstance(trial.workload, InferenceWorkload)
    return Endpoint(trial.provider.launcher, trial.workload, key)


def load_of(n: int, rate: float, tokens: int = 8) -> PhaseLoad:
    lengths = [np.full(n, length, np.int32) for length in (5, tokens, -1)]
    return PhaseLoad("steady", n / rate, np.round(np.arange(n) / rate, 6), *lengths)


def drive(endpoint: Endpoint, load: PhaseLoad, timeout_s: float = 20.0, text: str | None = None) -> RequestLog:
    prompts = [Prompt(np.arange(5, dtype=np.int32) + i, text) for i in range(load.n)]
    bodies = [endpoint.body(i, prompt, int(load.output_tokens[i])) for i, prompt in enumerate(prompts)]
    return load_generator.drive(load, bodies, endpoint.target(), timeout_s=timeout_s)


def path_of(protocol: str) -> str:
    return "/v1" if protocol.startswith("openai") else ""


@pytest.mark.parametrize("protocol", ["openai", "openai_chat", "kserve_http"])
@pytest.mark.parametrize("torn", [pytest.param(False, marks=pytest.mark.full), True])
def test_every_token_has_its_moment(protocol: str, torn: bool) -> None:
    with Hosted(Plan(first_s=0.02, gap_s=0.01, torn=torn)) as hosted:
        declare = {"requests": TEXT} if protocol == "openai_chat" else {}
        endpoint = endpoint_at(hosted.url + path_of(protocol), protocol, **declare)
        log = drive(endpoint, load_of(20, rate=100, tokens=4), text="hello" if protocol == "openai_chat" else None)
    assert log.errors() == {}, log.first_error()
    assert len(hosted.records) == 20
    late = []
    for i, record in enumerate(hosted.records):
        assert log.scheduled[i] <= log.dispatched[i] <= record.received - log.began
        late += [seen + log.began - sent for seen, sent in zip(log.tokens(i), record.sent, strict=True)]
    assert min(late) > 0
    assert np.median(late) < WORST_S
    assert np.all(log.received == 4)
    if protocol == "kserve_http":
        assert np.all(log.server_s == SERVER_TIMES)
    asked = hosted.records[3].asked
    if protocol == "openai":
        assert (asked["prompt"], asked["max_tokens"], asked["min_tokens"], asked["ignore_eos"]) == ([3, 4, 5, 6, 7], 4, 4, True)
    elif protocol == "openai_chat":
        assert asked["messages"] == [{"role": "user", "content": "hello"}]
    else:
        assert asked == {"PROMPT_IDS": [3, 4, 5, 6, 7], "MAX_TOKENS": 4}


def test_tensors_go_and_come_as_bytes() -> None:
    with Hosted(Plan(first_s=0.005, faults={3: "short"})) as hosted:
        log = drive(endpoint_at(hosted.url, "kserve_http", model=ENCODER, requests=ONE_TOKEN), load_of(10, rate=50, tokens=1))
    assert log.errors() == {"wrong_output": 1}
    assert "VECTOR" in log.details[3] and log.details[3].endswith("expected 64")
    assert hosted.records[0].asked["inputs"] == [
        {"name": "IDS", "shape": [1, 5], "datatype": "INT32", "parameters": {"binary_data_size": 20}}
    ]


def test_a_grpc_endpoint_is_the_same_load() -> None:
    with Golden(first_s=0.003) as golden:
        endpoint = endpoint_at(f"grpc://{golden.address}", "kserve_grpc")
        log = drive(endpoint, load_of(10, rate=100))
        assert endpoint.facts()["endpoint.server"] == "golden 1.2.3"
    assert log.errors() == {}, log.first_error()
    assert log.finished == 10


FAULTS = {
    1: ("cut", "server_error", "the connection was closed in the middle of the answer"),
    2: ("early_cut", "unreachable", "the connection was closed before an answer came"),
    3: ("short", "wrong_output", "7 tokens; expected 8"),
    4: ("bad_json", "server_error", "not JSON"),
    5: ("error_event", "server_error", "error in the stream: out of memory"),
    6: (500, "server_error", "HTTP 500: no"),
    7: (429, "rate_limited", "HTTP 429: no"),
    8: (503, "unreachable", "HTTP 503: no"),
    9: ("no_done", "server_error", "the stream ended without [DONE]"),
    10: ("not_http", "server_error", "not HTTP/1.1"),
    11: ("hang", "timeout", "0 of 8 tokens within 4s"),
    14: ("limit_event", "rate_limited", "error 429 in the stream: slow down"),
    15: ("abort", "server_error", "finish_reason abort"),
}


def test_every_fault_has_its_class_and_harms_no_other_request() -> None:
    plan = Plan(first_s=0.005, faults={n: fault for n, (fault, _, _) in FAULTS.items()} | {12: "close", 13: "by_end"})  # type: ignore[misc]
    with Hosted(plan) as hosted:
        log = drive(endpoint_at(hosted.url + "/v1"), load_of(20, rate=40), timeout_s=4.0)
    named = {i: (error, detail) for i, (_, error, detail) in FAULTS.items()}
    assert set(np.flatnonzero(log.error)) == set(named)
    for i, (error, detail) in named.items():
        assert log.errors()[error]
        assert detail in log.details[i], (i, log.details[i])
    assert np.all(log.received[[0, 12, 13, 16, 19]] == 8)
    assert log.received[1] == 4  # what came before the cut is kept


@pytest.mark.parametrize("protocol", ["openai", "openai_chat"])
def test_golden_times_of_natural_lengths_with_several_tokens_an_event(protocol: str) -> None:
    """The model ends some answers early, in the middle of an event's tokens; the truth is the server's own record."""
    lengths = {0: 1, 1: 3, 2: 5, 3: 7}
    with Hosted(Plan(first_s=0.03, gap_s=0.02, per_event=3, lengths=lengths, null_error=True, cached=4)) as hosted:
        declare = {"requests": TEXT} if protocol == "openai_chat" else {}
        endpoint = endpoint_at(hosted.url + "/v1", protocol, exact=False, **declare)
        log = drive(endpoint, load_of(6, rate=20, tokens=8), text="hello" if protocol == "openai_chat" else None)
    assert log.errors() == {}, log.first_error()
    assert log.received.tolist() == [1, 3, 5, 7, 8, 8]
    for i, record in enumerate(hosted.records):
        first, last = record.sent[0] - log.began, record.sent[-1] - log.began
        assert first < log.first_token[i] < first + WORST_S
        assert last < log.last_token[i] < last + WORST_S
    tpot = log.time_per_output_token
    assert np.isnan(tpot[0]) and np.isnan(tpot[1]), "one token has none, and three tokens of one event, which arrived together"
    assert np.allclose(tpot[2:], [0.06 / 4, 0.12 / 6, 0.12 / 7, 0.12 / 7], atol=WORST_S / 4)
    assert np.median(log.gaps()) == 0, "why TPOT leads"
    prompt = 5 if protocol == "openai" else 11
    assert log.usage.tolist() == [[prompt, 4, n, -1] for n in (1, 3, 5, 7, 8, 8)]
    assert token_count_source([log]) == "usage"
    assert [row.value for row in cached_token_rows(log)] == [pytest.approx(4 / prompt)]
    assert ExternalServer(endpoint).judgements(log) == []


def test_natural_lengths_without_usage_are_not_silently_counted_by_events() -> None:
    with Hosted(Plan(gap_s=0.01, usage=False, per_event=2)) as hosted:
        endpoint = endpoint_at(hosted.url + "/v1", exact=False)
        log = drive(endpoint, load_of(3, rate=50, tokens=8))
    assert log.errors() == {}, log.first_error()
    assert log.received.tolist() == [4, 4, 4]
    assert token_count_source([log]) == "events"
    assert (log.usage == -1).all()
    assert [j.reason.code for j in ExternalServer(endpoint).judgements(log)] == ["tokens_not_counted"]


def test_refusals_in_the_middle_are_counted_with_the_servers_wait_and_not_sent_again() -> None:
    refused = [5, 6, 7]
    with Hosted(Plan(first_s=0.005, gap_s=0.005, faults=dict.fromkeys(refused, 429), retry_after="2")) as hosted:
        endpoint = endpoint_at(hosted.url + "/v1")
        log = drive(endpoint, load_of(12, rate=40))
    assert log.errors() == {"rate_limited": 3}
    assert np.flatnonzero(log.error).tolist() == refused
    assert all("asks to wait 2 s" in log.details[i] for i in refused)
    assert len(hosted.records) == 12, "no request is sent again"
    assert np.isinf(log.latencies("scheduled", "last_token")[refused]).all()
    assert (log.dispatch_delays() < WORST_S).all(), "the wait does not hold up later requests"
    assert [j.reason.code for j in ExternalServer(endpoint).judgements(log)] == ["rate_limited"]


def test_without_usage_events_are_tokens() -> None:
    with Hosted(Plan(usage=False, per_event=2)) as hosted:
        log = drive(endpoint_at(hosted.url + "/v1"), load_of(3, rate=50, tokens=8))
    assert log.errors() == {"wrong_output": 3}
    failure_class, detail = classify_failure(log)
    assert failure_class == "bad_declaration"
    assert "wrong_output" in detail and "exact_output" in detail, "what came, and the field that allows it"


def test_a_shorter_answer_is_accepted_where_it_was_declared() -> None:
    with Hosted(Plan(faults={0: "short"})) as hosted:
        log = drive(endpoint_at(hosted.url + "/v1", exact=False), load_of(2, rate=50))
    assert log.errors() == {}, log.first_error()
    assert log.received.tolist() == [7, 8]
    assert "ignore_eos" not in hosted.records[0].asked


@pytest.mark.parametrize(
    ("status", "expected", "said"),
    [
        (401, "bad_declaration", "refuses the key"),
        (403, "bad_declaration", "refuses the key"),
        (404, "bad_declaration", "rejects the request"),
        (422, "bad_declaration", "rejects the request"),
        (307, "bad_declaration", "redirects (HTTP 307 to https://elsewhere.example.com/v1, which is not followed"),
        (429, "quota_exceeded", "expected lower rates"),
        (500, "server_error", "HTTP 500"),
        (502, "unreachable", "HTTP 502"),
    ],
)
def test_an_endpoint_that_answers_nothing_says_whose_turn_it_is(status: int, expected: str, said: str) -> None:
    with Hosted(Plan(status=status)) as hosted:
        log = drive(endpoint_at(hosted.url + "/v1"), load_of(3, rate=50))
    failure_class, detail = classify_failure(log)
    assert failure_class == expected
    assert said in detail
    assert len(hosted.records) == 3  # nothing is followed or tried again


def test_nobody_there_is_unreachable() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        log = drive(endpoint_at(f"http://127.0.0.1:{taken.getsockname()[1]}/v1"), load_of(2, rate=50), timeout_s=0.5)
    failure_class, detail = classify_failure(log)
    assert failure_class == "unreachable"
    assert "launcher.url" in detail, "it says what to look at"


def test_a_key_is_sent_and_never_told() -> None:
    with Hosted(Plan(key=KEY)) as hosted:
        endpoint = endpoint_at(hosted.url + "/v1", key=KEY)
        assert drive(endpoint, load_of(2, rate=50)).finished == 2
        wrong = endpoint_at(hosted.url + "/v1", key="sk-wrong-7e")
        log = drive(wrong, load_of(2, rate=50))
        facts = endpoint.facts()
    assert "Bearer ***" in log.details[0]
    assert facts["endpoint.server"] == "hosted/1.2.3"
    assert KEY not in repr([endpoint, endpoint.target(), facts])
    assert KEY.encode() not in endpoint.body(0, Prompt(np.arange(3, dtype=np.int32)), 4)
    assert [r.authorization for r in hosted.records[:2]] == [f"Bearer {KEY}"] * 2


@pytest.mark.full
def test_a_certificate_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = self_signed(tmp_path, "localhost")
    with Hosted(Plan(certificate=str(certificate))) as hosted:
        endpoint = endpoint_at(hosted.url + "/v1")
        unknown = drive(endpoint, load_of(2, rate=50), timeout_s=3.0)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        log = drive(endpoint, load_of(5, rate=50))
        other = endpoint_at(hosted.url.replace("localhost", "127.0.0.1") + "/v1")
        misnamed = drive(other, load_of(2, rate=50), timeout_s=3.0)
    assert log.errors() == {}, log.first_error()
    for refused in (unknown, misnamed):
        assert classify_failure(refused)[0] == "unreachable"
        assert "certificate" in refused.first_error()


def test_connections_are_kept_from_request_to_request() -> None:
    """Four users, who wait for their answers: what is there is enough, however slow the machine is."""
    n, users = 200, 4
    after = np.arange(n, dtype=np.int32) - users
    after[:users] = -1
    lengths = [np.full(n, length, np.int32) for length in (5, 1)]
    load = PhaseLoad("steady", 60.0, np.zeros(n), *lengths, after, closed=True)
    with Hosted() as hosted:
        endpoint = endpoint_at(hosted.url + "/v1")
        log = drive(endpoint, load)
    assert log.errors() == {}, log.first_error()
    assert len({r.connection for r in hosted.records}) < n / 2
    assert len(hosted.records) == n


def alone_after_a_pause(n: int) -> PhaseLoad:
    """One user, whose connections are idle for more than a second."""
    lengths = [np.full(n, length, np.int32) for length in (5, 4)]
    return PhaseLoad("steady", 60.0, np.full(n, 1.2), *lengths, np.arange(n, dtype=np.int32) - 1, closed=True)


@pytest.mark.full
def test_a_request_that_crosses_the_close_of_an_idle_connection_is_sent_again_once() -> None:
    with Hosted(Plan(faults={1: "early_cut"})) as hosted:
        log = drive(endpoint_at(hosted.url + "/v1"), alone_after_a_pause(2))
    assert log.errors() == {}, log.details
    assert set(log.details) == {1}
    assert len(hosted.records) == 3
    with Hosted(Plan(faults={0: "early_cut", 1: "early_cut"})) as hosted:
        log = drive(endpoint_at(hosted.url + "/v1"), alone_after_a_pause(1))
    assert log.errors() == {"unreachable": 1}
    assert len(hosted.records) == 2


RESPONSES = model_wires.causal_lm("chat", False)


@pytest.mark.parametrize("protocol", ["openai", "kserve_http", "kserve_grpc"])
def test_the_way_there_is_measured_apart(protocol: str) -> None:
    def trips(address: str) -> round_trip.RoundTrips:
        return round_trip.measure_round_trip(Target(address, RESPONSES, lambda: True, protocol, path=path_of(protocol)))

    if protocol == "kserve_grpc":
        with Golden(first_s=0.0) as golden:
            measured = [trips(golden.address), trips(golden.address)]
    else:
        with Hosted() as hosted:
            measured = [trips(hosted.address), trips(hosted.address)]
            assert hosted.records == []
    assert all(len(m.connect_s) == len(m.request_s) == 20 for m in measured)
    rows = {(row.metric, row.statistic): row for row in round_trip_rows("steady", measured)}
    assert {key[0] for key in rows} == {"network_round_trip_time", "protocol_round_trip_time"}
    assert all(row.value is not None and 0 < row.value < 2.0 and row.n == 40 for row in rows.values())
    assert all((row.value or 0) < WORST_S for (_, statistic), row in rows.items() if statistic == "p50")


def test_a_way_that_leads_nowhere_has_no_round_trips() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nowhere = round_trip.measure_round_trip(Target(f"127.0.0.1:{taken.getsockname()[1]}", RESPONSES, lambda: True), n=3)
    assert nowhere == round_trip.RoundTrips((), ())
    assert all(row.value is None and row.n == 0 for row in round_trip_rows("steady", [nowhere]))
