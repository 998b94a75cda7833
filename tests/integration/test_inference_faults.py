"""Faults in a real tritonserver under load: what the client counts is what the server's model wrote down, and the way back is timed."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.integration.test_inference import measure, nothing_is_left, servers, short_trial

from plumbline.harness.inference.models import journal
from plumbline.harness.measurement import Measurement, TrialFailed

__all__ = ["nothing_is_left"]

STEADY = {"name": "steady", "arrivals": {"constant": {"rate": "10/s"}}, "duration": "1s"}
# Limits that a busy machine keeps, and a server that is away does not.
LENIENT = {"slo": {"time_to_first_token": "1s"}, "request_timeout": "10s"}


def faulty(workdir: Path, inject: str, duration: str = "10s", **more: Any) -> tuple[Measurement, dict[str, Any]]:
    fault = {"name": "fault", "arrivals": {"poisson": {"rate": "20/s"}}, "duration": duration, "inject": inject, "at": "1s", **more}
    result = measure(short_trial(phases=[STEADY, fault], **LENIENT), workdir)
    return result, json.loads(next(e.path for e in result.evidence if e.kind == "fault").read_text())


def value(result: Measurement, phase: str, metric: str) -> float | None:
    return next(r.value for r in result.metrics if (r.phase, r.metric, r.statistic) == (phase, metric, "value"))


def moments(result: Measurement) -> dict[str, float]:
    return {event.name: event.monotonic_s or 0.0 for event in result.events}


@pytest.mark.full
def test_a_fault_after_the_last_request_is_no_fault(tmp_path: Path) -> None:
    arrivals = {"on_off": {"on": {"rate": "20/s", "duration": "1s"}, "off": {"rate": "0.001/s", "duration": "60s"}}}
    with pytest.raises(TrialFailed, match=r"server_kill.*4s") as failed:
        faulty(tmp_path, "server_kill", arrivals=arrivals, at="4s")
    assert failed.value.failure_class == "bad_declaration"
    assert "fault" not in [item.kind for item in failed.value.partial.evidence]


@pytest.mark.full
@pytest.mark.fault("the server killed under load", ends="valid, with time to recover", keeps="every request, answered or lost, counted")
def test_killed_under_load_what_failed_is_what_the_server_never_answered(tmp_path: Path) -> None:
    result, fault = faulty(tmp_path, "server_kill", duration="16s")

    # The truth: the files that both incarnations of the model wrote, one before and one after the kill; the first inference, the steady
    # phase and its requests by two clients again included.
    before, after = journal.read(tmp_path / "models" / "chat" / "1", {})
    rows = pq.read_table(next(e.path for e in result.evidence if e.kind == "requests")).to_pylist()
    rows = [row for row in rows if row["phase"] == "fault"]
    checked = next(row.n for row in result.metrics if row.metric == "client_agreement")
    answered = sorted([*before.finished[1 + 10 + 2 * checked :], *after.finished])
    assert [row["number"] for row in rows if row["status"] == "ok"] == answered
    failed = [row for row in rows if row["status"] != "ok"]
    assert len(failed) == fault["failed"] == fault["lost"] == len(rows) - len(answered) > 0
    assert len(before.started) >= len(before.finished), "those under way when it was killed were begun"
    assert fault["server_never_finished"] == len(failed)
    assert [j for j in result.judgements if j.reason.code == "counts_differ"] == []

    took = value(result, "fault", "time_to_recover")
    ready = value(result, "fault", "time_to_ready")
    assert took is not None
    assert ready is not None
    assert took > ready * 0.9, "nothing is answered before the server is ready again"
    assert value(result, "fault", "requests_lost") == len(failed)
    error_rate = value(result, "fault", "error_rate")
    assert error_rate is not None
    assert error_rate > 0
    assert value(result, "recovery", "error_rate") == 0
    assert value(result, "recovery", "goodput_ratio") == pytest.approx(1, abs=0.05)
    at = moments(result)
    assert at["fault_started"] < at["fault_injected"] < at["server_restarted"] < at["recovered"] < at["fault_ended"]


@pytest.mark.full
def test_an_overload_is_in_the_schedule_and_loses_nothing(tmp_path: Path) -> None:
    result, fault = faulty(tmp_path, "overload", duration="6s", lasts="1s", factor=3)
    assert fault["failed"] == 0
    assert (fault["began_s"], fault["ended_s"]) == (1.0, 2.0)
    assert value(result, "fault", "requests_lost") == 0
    assert fault["requests"] > 6 * 20, "three times the rate for a second"


@pytest.mark.full
@pytest.mark.fault("the server does not come back after a kill", ends="server_error", keeps="the phases before; every request")
def test_a_server_that_does_not_come_back_fails_the_trial(tmp_path: Path) -> None:
    """Its model is damaged while it runs; the kill then cannot be recovered from."""
    fault = {"name": "fault", "arrivals": {"constant": {"rate": "10/s"}}, "duration": "20s", "inject": "server_kill", "at": "1s"}

    def damage(phase: str) -> None:
        if phase == "steady":
            (tmp_path / "models" / "chat" / "1" / "transformer.py").write_text("raise RuntimeError('a damaged model')\n")

    with pytest.raises(TrialFailed) as caught:
        measure(short_trial(phases=[STEADY | {"duration": "3s"}, fault], **LENIENT), tmp_path, damage)
    assert caught.value.failure_class == "server_error"
    assert "server_kill" in caught.value.detail and "a damaged model" in caught.value.detail
    assert any(r.phase == "steady" for r in caught.value.partial.metrics)
    rows = pq.read_table(next(e.path for e in caught.value.partial.evidence if e.kind == "requests")).to_pylist()
    assert {row["phase"] for row in rows} == {"steady", "fault"}
    assert servers() == []


@pytest.mark.full
@pytest.mark.fault("the trial interrupted while its server is down", ends="interrupted", keeps="no process is left")
def test_an_interrupt_while_the_server_is_away_leaves_nothing(tmp_path: Path) -> None:
    fault = {"name": "fault", "arrivals": {"constant": {"rate": "10/s"}}, "duration": "60s", "inject": "server_kill", "at": "1s"}
    interrupted: list[float] = []

    def interrupt(phase: str) -> None:
        if phase == "fault" and not interrupted:
            interrupted.append(time.monotonic())
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()  # reported a second into the phase: the kill is just done

    with pytest.raises(TrialFailed) as caught:
        measure(short_trial(phases=[STEADY, fault], **LENIENT), tmp_path, interrupt)
    assert caught.value.failure_class == "interrupted"
    assert time.monotonic() - interrupted[0] < 40, "far less than the phase and the start that was under way"
    assert servers() == []
