"""The search for the highest rate against a server whose capacity is known: it answers one request at a time, each in 20 ms."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.fakes.golden_triton import Golden
from tests.integration.test_inference_hosted import trial_on

from plumbline.harness.contention_monitor import ContentionMonitor
from plumbline.harness.inference import trial as inference_trial
from plumbline.harness.measurement import Measurement
from plumbline.results import MetricRow

CAPACITY = 50.0


def searched(
    workdir: Path,
    between: list[str],
    limits: dict[str, float] | None = None,
    residence_s: float = 1 / CAPACITY,
    servers: int = 1,
    steps: tuple[float, float] | None = None,
    tokens: int = 1,
    **search: Any,
) -> tuple[Measurement, dict[str, Any]]:
    sweep = {"goodput": "90%", "between": between, "probe": "3s", "tolerance": "25%", "at_most": 8} | search
    phases = [
        {"name": "steady", "arrivals": {"constant": {"rate": "10/s"}}, "duration": "1s"},
        {"name": "sweep", "search": sweep},
    ]
    requests = {"input_tokens": {"constant": 5}, "output_tokens": {"constant": tokens}, "seed": 1}
    slo = {"request_scheduled_latency": "250ms" if servers == 1 else f"{residence_s + 2}s"}
    reported: list[float] = []
    with Golden(first_s=residence_s, at_once=servers, steps=steps) as golden, ContentionMonitor(sorted(os.sched_getaffinity(0))) as watch:
        trial = trial_on(f"grpc://{golden.address}", "kserve_grpc", phases=phases, requests=requests, slo=slo, acceptance=[])
        if limits is not None:
            trial = trial.model_copy(update={"validity": trial.validity.model_copy(update=limits)})
        result = inference_trial.measure(trial, workdir, lambda phase, fraction, note="": reported.append(fraction), watch)
    assert reported == sorted(reported)
    assert reported[-1] <= 1
    return result, json.loads(next(e.path for e in result.evidence if e.kind == "search").read_text())


def highest(result: Measurement) -> MetricRow:
    """The rate: a golden server uses no hardware, so what it reached is no claim about any."""
    return next(r for r in reversed(result.metrics) if r.metric in ("highest_sustained_rate", "highest_rate_reached"))


def codes(result: Measurement) -> set[str]:
    return {j.reason.code for j in result.judgements}


@pytest.mark.full
def test_the_capacity_is_found(tmp_path: Path) -> None:
    result, search = searched(tmp_path, ["8/s", "400/s"])
    found = highest(result)
    assert search["ended"] == "between", search["told"]
    assert found.value is not None
    # In three seconds even a rate somewhat above the capacity meets a limit of 250 ms at 90 %; a busy machine has less of it.
    assert 0.25 * CAPACITY < found.value < 1.3 * CAPACITY
    assert found.ci_low is not None
    assert found.ci_high is not None
    assert found.ci_low <= found.value <= found.ci_high
    assert "search_open" not in codes(result)

    over = [probe for probe in search["probes"] if probe["rate"] > 2 * CAPACITY]
    assert over == [] or all(probe["hopeless"] for probe in over), "nobody waits for the end of what is lost"
    rows = pq.read_table(next(e.path for e in result.evidence if e.kind == "requests")).to_pylist()
    sweep = [row for row in rows if row["phase"] == "sweep"]
    assert {row["probe"] for row in sweep} == set(range(len(search["probes"])))
    goodput = next(r for r in result.metrics if (r.phase, r.metric) == ("sweep", "goodput_ratio"))
    assert goodput.value is not None
    assert goodput.value >= 0.9, "the phase's figures are those of a probe that held"


@pytest.mark.full
@pytest.mark.exclusive
@pytest.mark.parametrize(("residence_s", "servers"), [(0.1, 8), (1.0, 80), (5.0, 200)])
def test_the_rate_of_servers_with_a_residence_is_sustained(residence_s: float, servers: int, tmp_path: Path) -> None:
    """In real time what test_sustained_rate.py shows in virtual time: quick probes of 5 s pass 30 % of overload here, a confirming run does not."""
    sweep: dict[str, Any] = {"goodput": "95%", "probe": "5s", "confirm": "30s", "tolerance": "4%", "at_most": 90}
    result, search = searched(tmp_path, ["10/s", "640/s"], residence_s=residence_s, servers=servers, **sweep)
    found = highest(result)
    assert found.value is not None, search["told"]
    assert 0.95 <= found.value / (servers / residence_s) <= 1.05, search["told"]


@pytest.mark.full
@pytest.mark.exclusive
def test_a_server_that_steps_all_its_sequences_together_is_found_or_the_trial_is_degraded(tmp_path: Path) -> None:
    """A step of k sequences takes 4 ms + k ms: 8 of 8 tokens each are 83.3/s, and it fills for a multiple of its residence time."""
    base_s, each_s, slots, tokens = 0.004, 0.001, 8, 8
    capacity = slots / (tokens * (base_s + each_s * slots))
    sweep: dict[str, Any] = {"probe": "2s", "tolerance": "10%", "at_most": 12}
    result, search = searched(tmp_path, ["10/s", "640/s"], residence_s=0.1, servers=slots, steps=(base_s, each_s), tokens=tokens, **sweep)
    found = highest(result)
    assert found.value is not None or "search_open" in codes(result), search["told"]
    if "rate_uncertain" not in codes(result) and found.value is not None:
        assert 0.9 <= found.value / capacity <= 1.1, search["told"]
    assert any(probe["flow"] and probe["growth"] and probe["holds"] is False for probe in search["probes"]), (
        "an overloaded run was measured"
    )


@pytest.mark.full
def test_above_the_upper_end_and_below_the_lower_one_there_is_no_value(tmp_path: Path) -> None:
    (tmp_path / "up").mkdir()
    result, search = searched(tmp_path / "up", ["4/s", "8/s"], goodput="50%")
    assert (search["ended"], highest(result).value) == ("upper_end", None)
    assert "search_open" in codes(result)

    (tmp_path / "down").mkdir()
    result, search = searched(tmp_path / "down", ["200/s", "400/s"])
    assert (search["ended"], highest(result).value) == ("lower_end", None)
    assert any("200/s" in j.reason.detail for j in result.judgements)
    assert [probe["rate"] for probe in search["probes"]].count(200.0) == 2, "looked at twice"
    assert {r.metric for r in result.metrics if r.phase == "sweep"} == {"highest_sustained_rate", "response_bytes"}, (
        "nothing held: there are no figures of it"
    )


@pytest.mark.full
def test_a_client_that_was_the_limit_is_not_called_the_servers(tmp_path: Path) -> None:
    late = {"dispatch_delay_degraded": 1e-9, "dispatch_delay_invalid": 1e-9}  # as if every delay were too long
    result, search = searched(tmp_path, ["200/s", "400/s"], late)
    assert (search["ended"], highest(result).value) == ("client_limited", None)
    assert len(search["probes"]) == 2, "it had a second chance"
    assert "client_limited" in {j.reason.code for j in result.judgements}


@contextmanager
def busy_core() -> Iterator[None]:
    """A program that computes on one core and is no child of this process."""
    loop = "import time\nend = time.time() + 120\nwhile time.time() < end: pass"
    started = subprocess.run(["sh", "-c", '"$0" -c "$1" >/dev/null 2>&1 & echo $!', sys.executable, loop], capture_output=True, check=True)
    try:
        yield
    finally:
        os.kill(int(started.stdout), signal.SIGKILL)


@pytest.mark.full
@pytest.mark.exclusive
def test_what_a_sleeping_server_reaches_is_shown_and_claims_nothing(tmp_path: Path) -> None:
    """A golden server sleeps instead of computing: alone its hardware is idle, beside a busy core it is contended."""
    quick = {"probe": "3s", "tolerance": "50%", "at_most": 4}
    (tmp_path / "alone").mkdir()
    alone, _ = searched(tmp_path / "alone", ["16/s", "400/s"], **quick)
    (tmp_path / "beside").mkdir()
    with busy_core():
        beside, _ = searched(tmp_path / "beside", ["16/s", "400/s"], **quick)
    for result, word, other in ((alone, "it was idle", "others used"), (beside, "others used", "it was idle")):
        found = {r.metric: r for r in result.metrics if r.phase == "sweep"}
        assert found["highest_sustained_rate"].value is None and "was reached" in (found["highest_sustained_rate"].reason or "")
        assert found["highest_rate_reached"].value is not None
        (limit,) = result.limits
        assert (limit.limit, limit.judgement.verdict) == ("not_shown", "not_shown")
        assert word in limit.seen and other not in limit.seen
        assert "capacity_not_shown" in codes(result)
