"""The load client's own HTTP/2 against a library's: whatever a server may do is understood, and what it may not do has a class."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from tests.fakes.http2_server import Http2Server, Way

from plumbline.loadclient import kserve_grpc, load_generator
from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.request_log import RequestLog
from plumbline.loadclient.transport import Settings, Target
from plumbline.loadclient.wire import Tensor, Wire

WIRE = Wire("unary", "m", {"VECTOR": 64}, index=None)


def drive(server: Http2Server, n: int, *, rate: float = 200.0, size: int = 64, timeout_s: float = 10.0, **given: Any) -> RequestLog:
    one = np.ones(n, np.int32)
    load = PhaseLoad("steady", n / rate, np.arange(n) / rate, one, one, np.full(n, -1, np.int32))
    if given.pop("one_user", False):  # who sends the next request when the answer has come
        load = PhaseLoad("steady", 60.0, np.full(n, 1 / rate), one, one, np.arange(n, dtype=np.int32) - 1, closed=True)
    bodies = [WIRE.body(i, [Tensor("IN", "UINT8", np.zeros(size, np.uint8))]) for i in range(n)]
    target = Target(server.address, WIRE, lambda: True, headers=given.pop("headers", {}))
    log = load_generator.drive(load, bodies, target, timeout_s=timeout_s, **given)
    assert not server.errors, "the client broke the protocol"
    return log


@pytest.mark.parametrize("way", ["plain", "in_pieces", "padded", "pinged"])
def test_every_right_way_to_answer(way: Way) -> None:
    with Http2Server(ways=dict.fromkeys(range(0, 30, 2), way)) as server:
        log = drive(server, 30)
    assert log.finished == 30, log.first_error()
    assert (len(server.pongs) == 15) == (way == "pinged")


@pytest.mark.parametrize(
    ("way", "error", "detail"),
    [
        ("long_trailers", "server_error", "INTERNAL: so long "),
        ("reset", "server_error", "the server reset the stream: INTERNAL_ERROR"),
        ("refused", "unreachable", "the server reset the stream: REFUSED_STREAM"),
        ("http_503", "unreachable", "HTTP status 503 where gRPC was expected"),
        ("no_trailers", "server_error", "the stream ended without a status"),
        ("unfinished", "wrong_output", "the stream ended 20 bytes into a message"),
        ("compressed", "wrong_output", "a compressed message"),
        ("no_message", "server_error", "without a final response"),
        ("two_messages", "wrong_output", "2 tokens; expected 1"),
        ("garbage", "wrong_output", "not a ModelInferResponse"),
        ("silent", "timeout", "0 of 1 tokens within 2s"),
    ],
)
def test_every_wrong_way_has_its_class_and_touches_no_other_request(way: Way, error: str, detail: str) -> None:
    with Http2Server(ways={4: way, 11: way}) as server:
        log = drive(server, 20, timeout_s=2.0 if way == "silent" else 10.0)
    assert log.errors() == {error: 2}
    assert all(detail in log.details[number] for number in (4, 11)), log.details
    assert np.isfinite(log.ended).all()
    assert server.resets == [], "no unary request is cancelled"


def test_a_server_that_breaks_the_protocol_is_left_and_connected_to_again() -> None:
    with Http2Server(ways={4: "broken_frame"}) as server:
        log = drive(server, 40, rate=40)
    assert log.errors().keys() == {"unreachable"}
    assert str(1 << 20) in log.details[4], "the size of the frame"
    assert log.finished >= 20, "what was not under way"
    assert server.connections == kserve_grpc.GrpcTransport.first + 1


def test_a_server_that_says_goodbye_loses_no_request() -> None:
    """Nothing is under way when it does: what it no longer answers then is another test's."""
    with Http2Server(ways={4: "goaway", 9: "goaway", 14: "goaway"}) as server:
        log = drive(server, 30, rate=100, one_user=True)
    assert log.finished == 30, log.details
    assert server.connections >= 4


def test_what_waits_for_room_is_not_sent_where_the_server_says_goodbye() -> None:
    """The request under way is turned away, and goes to another connection before those that wait."""
    with Http2Server(most_streams=1, delay_s=0.2, ways={0: "turned_away"}) as server:
        log = drive(server, 60, rate=2000)
    assert log.finished == 60 and set(log.details) == {0}, log.details


def test_streams_above_the_last_one_are_sent_again_and_their_time_goes_on() -> None:
    """All are under way when the server says goodbye with the fifth; it answers those up to it, and has not looked at the others."""
    with Http2Server(delay_s=0.3, ways={4: "answer_as_last"}) as server:
        log = drive(server, 20, rate=2000)
    assert log.finished == 20, log.details
    assert set(log.details) == set(range(5, 20))
    assert server.connections >= 2
    waited = log.latencies("scheduled", "first_token")
    assert waited[:5].min() >= 0.3
    # The goodbye comes 0.3 s after the fifth request; the last one is scheduled up to 10 ms after that.
    both_ways = 0.6 - 20 / 2000
    assert waited[5:].min() >= both_ways, "from the scheduled arrival"
    assert (log.last_token - log.dispatched)[5:].min() >= both_ways, "from the first sending"
    assert log.dispatch_delays().max() < 0.3, "the goodbye is not the client's delay"


def test_a_request_is_sent_again_once() -> None:
    with Http2Server(ways=dict.fromkeys(range(4), "always_turned_away")) as server:
        log = drive(server, 8, rate=100, one_user=True)
    assert log.errors() == {"unreachable": 4}
    assert np.flatnonzero(log.error).tolist() == [0, 1, 2, 3]
    assert np.isfinite(log.ended).all()


def test_a_request_that_finds_no_other_connection_ends_in_time() -> None:
    with Http2Server(delay_s=0.1, ways={0: "turned_away"}, most_connections=1) as server:
        log = drive(server, 3, rate=1000, timeout_s=1.5)
    assert log.errors().keys() <= {"unreachable", "timeout"} and log.finished == 0
    assert np.isfinite(log.ended).all()
    assert server.connections == 1


@pytest.mark.full
def test_a_client_that_stood_still_sends_nothing_that_it_has_given_up() -> None:
    stood: list[float] = []

    def stop(log: RequestLog) -> bool:
        if not stood and np.isfinite(log.ended).any():
            stood.append(1.0)
            time.sleep(1.0)
        return False

    with Http2Server() as server:
        log = drive(server, 400, rate=200, timeout_s=0.2, stop=stop)
    assert np.isfinite(log.ended).all()
    given_up = [number for number in range(400) if log.error_of(number) == "not_sent"]
    assert given_up
    assert not server.received.keys() & set(given_up)
    assert log.errors().get("timeout", 0) < len(given_up), "the server is not blamed for it"


def test_no_more_streams_than_the_server_allows() -> None:
    """Answers that take 0.2 s, two at a time on each connection: more connections are opened, and once there are enough of them the
    waiting counts."""
    with Http2Server(most_streams=2, delay_s=0.2) as server:
        log = drive(server, 120, rate=2000)
    assert log.finished == 120, log.details
    assert server.most_open == 2
    assert 2 < server.connections <= kserve_grpc.GrpcTransport.most
    assert log.dispatch_delays().max() > 0.05


@pytest.mark.parametrize("size", [1_000, 100_000])
def test_no_more_bytes_than_the_server_gives_credit_for(size: int) -> None:
    """The library ends the connection if a byte too many comes."""
    with Http2Server(window=1000) as server:
        log = drive(server, 6, size=size)
    assert log.finished == 6, log.details
    assert server.received == dict.fromkeys(range(6), size)


@pytest.mark.full
def test_a_request_that_is_given_up_half_sent_is_sent_to_its_end() -> None:
    """A unary request is not cancelled; a server that waited for the rest of its message would keep its stream until the connection ends."""
    with Http2Server(window=1000, credit_after_s=0.1) as server:
        log = drive(server, 8, rate=4, size=5_000, timeout_s=0.2)
    assert log.error_of(0) == "timeout", log.details
    assert server.received[0] == 5_000
    assert server.resets == []


def test_what_waited_for_room_beyond_its_timeout_is_not_sent() -> None:
    """The answer that makes room is read before the timers are looked at, after the client stood still."""
    stood: list[float] = []

    def stop(log: RequestLog) -> bool:
        if not stood and np.isfinite(log.ended[0]):
            stood.append(max(0.0, log.began + 1.3 - time.monotonic()))
            time.sleep(stood[0])
        return False

    with Http2Server(delay_s=0.3) as server:
        log = drive(server, 20, rate=1e6, timeout_s=1.0, stop=stop, settings=Settings(in_flight_cap=1))
    not_sent = [number for number in range(20) if log.error_of(number) == "not_sent"]
    assert stood
    assert len(not_sent) >= 15, log.errors()
    assert not server.received.keys() & set(not_sent)
    assert not np.isfinite(log.dispatched[not_sent]).any()
    sent = np.isfinite(log.dispatched)
    assert log.dispatched[sent].max() < 1.25, "nothing was sent once it had waited longer than its timeout"


def test_headers_that_a_gateway_wants() -> None:
    with Http2Server() as server:
        log = drive(server, 5, headers={"Authorization": "Bearer " + "x" * 300})
    assert log.finished == 5
    assert {headers["authorization"] for headers in server.headers} == {"Bearer " + "x" * 300}
    assert {headers[":path"] for headers in server.headers} == {"/inference.GRPCInferenceService/ModelInfer"}
    assert "x" * 300 not in repr(Target("a:1", WIRE, lambda: True, headers={"authorization": "x" * 300}))


def test_a_connection_whose_stream_numbers_are_used_up_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    init = kserve_grpc.GrpcConnection.__init__
    # Two thousand million streams are more than a test can wait for.
    monkeypatch.setattr(kserve_grpc.GrpcConnection, "__init__", lambda *args, **given: init(*args, **given, first_stream=2**31 - 9))
    with Http2Server() as server:
        log = drive(server, 40, rate=100)
    assert log.finished == 40, log.details
    assert server.connections >= 8


def test_a_client_without_any_room_says_that_it_did_not_send() -> None:
    with Http2Server(ways=dict.fromkeys(range(20), "silent")) as server:
        log = drive(server, 20, rate=1e6, timeout_s=1.0, settings=Settings(in_flight_cap=5))
    assert log.errors() == {"timeout": 5, "not_sent": 15}
    assert log.capped == 15
