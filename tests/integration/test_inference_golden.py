"""The load client against a server whose timing is known and whose faults are told: nothing is lost, and everything has its class."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from tests.fakes.golden_triton import SERVER_TIMES, Golden

from plumbline.harness.inference.load.model_wires import causal_lm, encoder
from plumbline.harness.inference.server import control
from plumbline.loadclient import load_generator
from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.request_log import RequestLog
from plumbline.loadclient.transport import Settings, Target
from plumbline.loadclient.wire import Tensor, Wire

# What a message may take from the server's hands to the client's clock on a busy machine; typically a hundredth of it.
WORST_S = 0.1
STREAM, UNARY = causal_lm("golden", text=False), encoder("golden", "embedding", 16)


def load_of(n: int, rate: float, tokens: int = 8, **given: Any) -> PhaseLoad:
    arrivals = np.round(np.arange(n) / rate, 6)
    fields = {"duration_s": n / rate, "arrivals_s": arrivals, "after": np.full(n, -1, np.int32), **given}
    return PhaseLoad("steady", input_tokens=np.full(n, 5, np.int32), output_tokens=np.full(n, tokens, np.int32), **fields)


def bodies_of(load: PhaseLoad, wire: Wire = STREAM, ids: int = 5) -> list[bytes]:
    def int32(name: str, values: list[int]) -> Tensor:
        return Tensor(name, "INT32", np.array(values, np.int32))

    if wire.method == "unary":
        return [wire.body(i, [int32("IDS", [i] * ids)]) for i in range(load.n)]
    return [wire.body(i, [int32("PROMPT_IDS", [i] * ids), int32("MAX_TOKENS", [int(load.output_tokens[i])])]) for i in range(load.n)]


def drive(golden: Golden, load: PhaseLoad, timeout_s: float = 20.0, wire: Wire = STREAM, ids: int = 5, **given: Any) -> RequestLog:
    target = Target(golden.address, wire, given.pop("running", golden.running))
    return load_generator.drive(load, bodies_of(load, wire, ids), target, timeout_s=timeout_s, **given)


def test_no_token_is_seen_before_it_was_sent_and_every_request_is_counted() -> None:
    load = load_of(100, rate=100, tokens=3)
    with Golden(first_s=0.005, gap_s=0.002) as golden:
        log = drive(golden, load)
    assert sorted(golden.records) == list(range(100))
    assert log.finished == golden.succeeded == 100
    for i, record in golden.records.items():
        assert (record.input_tokens, record.wanted) == (5, 3)
        assert log.scheduled[i] <= log.dispatched[i] <= record.received - log.began
        assert all(seen >= sent - log.began for seen, sent in zip(log.tokens(i), record.sent, strict=True))
    assert np.all(log.server_s == SERVER_TIMES)
    assert len(log.cpu_s) == 1
    assert log.cpu_s[0] > 0


def test_unary_answers_are_one_token_each() -> None:
    load = load_of(50, rate=200, tokens=1)
    with Golden(first_s=0.003, faults={7: "empty", 9: "abort"}) as golden:
        log = drive(golden, load, wire=UNARY)
    assert log.errors() == {"server_error": 1, "wrong_output": 1}
    assert "VECTOR" in log.details[7] and log.details[7].endswith("expected 64")
    assert log.details[9].startswith("INTERNAL")
    assert np.all(log.received[log.ok] == 1)
    assert np.all(log.server_s[log.ok] == SERVER_TIMES)
    assert np.all(log.first_token[log.ok] == log.last_token[log.ok])


@pytest.mark.full
def test_a_server_that_cannot_keep_up_shows_its_queue() -> None:
    """Served in 20 ms one after the other but due every 10 ms: each waits longer than the one before. A client that waited for
    answers before it sent the next would report 20 ms for all."""
    load = load_of(60, rate=100, tokens=1)
    with Golden(first_s=0.02, at_once=1) as golden:
        log = drive(golden, load)
    latencies = log.latencies("scheduled", "last_token")
    truth = np.array([golden.records[i].sent[-1] - log.began - s for i, s in enumerate(load.arrivals_s)])
    assert np.all(latencies >= truth)
    assert np.median(latencies - truth) < WORST_S
    assert np.median(latencies) > 10 * 0.02
    assert log.elapsed_s > load.duration_s


@pytest.mark.parametrize(
    ("fault", "error", "detail"),
    [
        ("error", "server_error", "told to fail"),
        ("abort", "server_error", "INTERNAL: told to abort"),
        ("empty", "wrong_output", "0 bytes of TOKEN; expected 4"),
        ("short", "wrong_output", "5 tokens; expected 8"),
        ("shuffled", "wrong_output", "token 0 has index 1"),
        ("unfinished", "server_error", "without a final response"),
        pytest.param("hang", "timeout", "0 of 8 tokens within 3s", marks=pytest.mark.full),
        ("drop", "unreachable", "UNAVAILABLE: told to drop"),
    ],
)
def test_failures_have_a_class_and_touch_no_other_request(fault: str, error: str, detail: str) -> None:
    load = load_of(20, rate=200)
    faults = dict.fromkeys((3, 7, 11, 15, 19), fault)
    with Golden(first_s=0.01, faults=faults) as golden:
        log = drive(golden, load, timeout_s=3.0 if fault == "hang" else 20.0)
    assert log.errors() == {error: 5}
    assert all(detail in log.details[i] for i in faults), log.first_error()
    assert log.finished == 15


def test_a_tokenizer_that_is_not_the_declared_one() -> None:
    wire = Wire("stream", "golden", {"TOKEN": 4, "INDEX": 4}, {"INPUT_TOKENS": 4})
    with Golden(faults={1: "mismatch"}) as golden:
        log = drive(golden, load_of(3, rate=100), wire=wire)
    assert log.errors() == {"wrong_output": 1}
    assert set(log.details) == {1} and log.details[1].startswith("tokenizer mismatch") and "6" in log.details[1] and "5" in log.details[1]


def test_a_request_that_is_given_up_is_cancelled_at_the_server() -> None:
    with Golden(faults={0: "hang"}) as golden:
        drive(golden, load_of(2, rate=1.5), timeout_s=2.0)
    assert golden.records[0].cancelled
    assert not golden.records[1].cancelled


def test_a_server_that_dies_ends_the_phase_at_once_and_loses_no_request() -> None:
    load = load_of(2000, rate=50)
    with Golden(first_s=0.01, die_after=10) as golden:
        began = time.monotonic()
        log = drive(golden, load)
    assert time.monotonic() - began < load.duration_s / 2
    assert log.n == 2000
    assert log.finished <= 10
    errors = log.errors()
    assert sum(errors.values()) == 2000 - log.finished
    assert errors["not_sent"] > 1000
    assert errors["unreachable"] >= 1


@pytest.mark.full
def test_a_server_that_comes_back_is_connected_to_again() -> None:
    """Killed in the middle and started again at its address: who comes in between is turned away, who comes later is served."""
    load = load_of(1500, rate=50, tokens=2)  # how long a start takes is the machine's to say: the load goes on until it was seen
    with ExitStack() as stack:
        first = stack.enter_context(Golden(first_s=0.005))
        port = int(first.address.rpartition(":")[2])
        started: list[Golden] = []

        def again() -> None:
            first.process.kill()
            first.process.wait()
            time.sleep(0.2)
            started.append(stack.enter_context(Golden(first_s=0.005, port=port)))

        outage = threading.Thread(target=again)

        def tick(ended: int, requests: int) -> None:
            if ended and outage.ident is None:  # the load is under way
                outage.start()

        def stop(log: RequestLog) -> bool:
            failed = np.flatnonzero(log.error)
            return bool(started) and len(failed) > 0 and bool(np.isfinite(log.ended[failed[-1] + 1 :]).sum() >= 20)

        log = drive(first, load, running=lambda: True, timeout_s=20.0, tick=tick, stop=stop)
        outage.join()
    assert set(log.errors()) == {"unreachable"}
    failed = np.flatnonzero(log.error)
    assert np.array_equal(failed, np.arange(failed[0], failed[-1] + 1)), "one outage, and everything after it was served"
    assert failed[0] > 0
    assert failed[-1] < log.n - 20
    assert np.isfinite(log.dispatched[log.due]).all()
    assert log.finished == log.n - len(failed)


def test_a_server_that_is_not_there() -> None:
    with Golden() as golden:
        pass
    log = drive(golden, load_of(3, 10), running=lambda: True, timeout_s=0.5)
    assert log.errors() == {"not_sent": 3}
    assert golden.address in log.first_error()


def test_prompts_and_answers_larger_than_any_window_go_through() -> None:
    """A megabyte each way and request: many frames, and more than the server's flow control lets through at once."""
    load = load_of(8, rate=100, tokens=1)
    with Golden(vector=1 << 20) as golden:
        wire = encoder("golden", "embedding", 1 << 18)
        log = drive(golden, load, wire=wire, ids=1 << 18)
    assert log.finished == 8, log.first_error()
    assert all(record.input_tokens == 1 << 18 for record in golden.records.values())


def test_a_closed_loop_follows_its_answers() -> None:
    """Three users of 20 ms a request: each sends when its answer has come, and nobody before."""
    n, users = 60, 3
    after = np.arange(n, dtype=np.int32) - users
    after[:users] = -1
    load = load_of(n, rate=50, tokens=1, arrivals_s=np.zeros(n), after=after, duration_s=10.0, closed=True)
    with Golden(first_s=0.02) as golden:
        log = drive(golden, load)
    assert log.finished == log.n == n
    assert np.array_equal(log.scheduled[users:], log.ended[:-users])
    assert np.all(log.dispatched[users:] >= log.ended[:-users])
    times = [(record.received, 1) for record in golden.records.values()] + [(r.sent[-1], -1) for r in golden.records.values()]
    assert np.cumsum([step for _, step in sorted(times)]).max() <= users
    assert log.elapsed_s < load.duration_s


def test_a_conversation_pauses_goes_on_after_a_failure_and_ends_with_the_phase() -> None:
    after = np.array([-1, 0, 1, 2], np.int32)
    load = load_of(4, rate=10, tokens=1, arrivals_s=np.array([0.0, 0.1, 0.1, 60.0]), after=after, duration_s=20.0)
    with Golden(faults={1: "abort"}) as golden:
        log = drive(golden, load)
    assert list(log.due) == [True, True, True, False]
    assert log.errors() == {"server_error": 1}
    assert log.scheduled[1:3] == pytest.approx(log.ended[0:2] + 0.1)
    assert sorted(golden.records) == [0, 1, 2]


def test_a_cap_on_requests_in_flight_holds_and_is_told() -> None:
    load = load_of(40, rate=1000, tokens=1)
    with Golden(first_s=0.2) as golden:
        log = drive(golden, load, settings=Settings(in_flight_cap=10))
    assert log.finished == 40
    assert log.capped >= 25
    times = [(log.dispatched[i], 1) for i in range(40)] + [(log.ended[i], -1) for i in range(40)]
    assert np.cumsum([step for _, step in sorted(times)]).max() == 10
    assert log.dispatch_delays().max() > 0.05


def test_what_is_not_sent_when_a_phase_is_stopped_was_not_due() -> None:
    load = load_of(500, rate=50, tokens=1)
    with Golden(first_s=0.05) as golden:
        log = drive(golden, load, stop=lambda log: int(np.isfinite(log.ended).sum()) >= 10)
    assert 10 <= log.n < 200
    assert log.finished == log.n == len(golden.records)


@pytest.mark.full
def test_a_client_that_is_held_up_says_so() -> None:
    load = load_of(100, rate=50)
    with Golden(first_s=0.001) as golden:
        log = drive(golden, load, tick=lambda ended, requests: time.sleep(0.4))
    assert log.finished == 100
    assert log.dispatch_delays().max() > 0.2
    assert log.latencies("scheduled", "last_token").max() > 0.2, "the delay is the client's fault, and the latency still counts it"


@pytest.mark.full
def test_progress_counts_what_has_ended() -> None:
    seen: list[tuple[int, int]] = []
    with Golden() as golden:
        drive(golden, load_of(30, rate=10, tokens=1), tick=lambda ended, requests: seen.append((ended, requests)))
    assert seen == sorted(seen)
    assert all(total == 30 for _, total in seen)
    assert 0 < seen[-1][0] <= 30  # the first look may come before any answer


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.full), signal.SIGTERM])
def test_a_signal_to_stop_ends_the_load_and_reaches_who_listens(number: signal.Signals) -> None:
    load = load_of(4000, rate=200)
    # As in a process of its own: other tests run parts of Airflow here, which take signals for themselves.
    before = signal.signal(number, signal.default_int_handler)
    with Golden() as golden, ExitStack() as stack:
        stack.callback(signal.signal, number, before)
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            drive(golden, load, tick=lambda ended, _: os.kill(os.getpid(), number) if ended else None)  # once the load is under way
        assert signal.getsignal(number) is signal.default_int_handler
    assert time.monotonic() - began < load.duration_s / 2
    assert 0 < len(golden.records) < 4000


def test_what_a_signal_left_undone_is_not_called_done() -> None:
    before = signal.signal(signal.SIGTERM, lambda *_: None)  # somebody who listens, and goes on
    try:
        with Golden(first_s=0.5) as golden:
            # A signal stops the sending and gives up what is under way; so the first of them comes when something has ended.
            log = drive(golden, load_of(400, rate=20), tick=lambda ended, _: os.kill(os.getpid(), signal.SIGTERM) if ended else None)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert 0 < log.finished < 400
    assert log.finished + log.errors()["cancelled"] + log.errors()["not_sent"] == 400


def test_control_calls() -> None:
    with Golden() as golden:
        assert control.is_ready(golden.address, "golden", within_s=60)
        assert not control.is_ready(golden.address, "another", within_s=0.1)
        assert control.server_version(golden.address) == "1.2.3"
        assert control.server_counters(golden.address, "golden").succeeded == 0
    assert not control.is_ready(golden.address, "golden", within_s=0.5)
