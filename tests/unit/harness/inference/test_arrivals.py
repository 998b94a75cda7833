from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from tests.fakes.trials import a_trial

from plumbline.declarations import InferenceWorkload
from plumbline.harness.inference.arrivals import schedule_of


def workload(phases: list[dict[str, Any]] | None = None, **requests: Any) -> InferenceWorkload:
    data = json.loads(a_trial("inference").workload.model_dump_json()) | {"acceptance": []}
    data["requests"] |= requests
    if phases is not None:
        data["phases"] = phases
    return InferenceWorkload.model_validate_json(json.dumps(data))


def steady(arrivals: dict[str, Any], duration: str) -> list[dict[str, Any]]:
    return [{"name": "steady", "arrivals": arrivals, "duration": duration}]


def test_the_same_workload_gives_the_same_bytes() -> None:
    one, two = schedule_of(workload()), schedule_of(workload())
    assert one.sha256 == two.sha256
    assert one.n == sum(p.n for p in one.phases) > 0
    assert [p.name for p in one.phases] == ["warmup", "steady", "stress"]


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"output_tokens": {"constant": 15}},
        {"input_tokens": {"constant": 24}},
    ],
)
def test_the_hash_covers_what_is_asked(change: dict[str, Any]) -> None:
    assert schedule_of(workload(**change)).sha256 != schedule_of(workload()).sha256


def test_the_hash_covers_arrivals_and_durations() -> None:
    hashes = {
        schedule_of(workload(steady(arrivals, duration))).sha256
        for arrivals, duration in (
            ({"constant": {"rate": "10/s"}}, "2s"),
            ({"constant": {"rate": "10/s"}}, "1.95s"),
            ({"poisson": {"rate": "10/s"}}, "2s"),
        )
    }
    assert len(hashes) == 3


def test_the_hash_is_the_same_on_every_machine() -> None:
    """Known bytes: a change of numpy or of this code that moves an arrival makes old schedules irreproducible, and must be noticed."""
    known = workload(steady({"poisson": {"rate": "50/s"}}, "10s"), seed=1, input_tokens={"uniform": {"min": 1, "max": 9}})
    assert schedule_of(known).sha256 == "c27723d3e7e0480cb4794cd547c114e4f0eb1e85f8669d55bc7dcf8a7eab40ab"


def test_constant_arrivals() -> None:
    phase = schedule_of(workload(steady({"constant": {"rate": "4/s"}}, "2s"))).phases[0]
    assert phase.arrivals_s.tolist() == [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75]


def test_poisson_arrivals_have_the_rate_and_the_gaps_of_a_poisson_process() -> None:
    phase = schedule_of(workload(steady({"poisson": {"rate": "100/s"}}, "200s"))).phases[0]
    times = phase.arrivals_s
    assert phase.n == pytest.approx(20_000, rel=0.03)
    assert np.all(np.diff(times) >= 0)
    assert times[0] >= 0 and times[-1] < 200
    gaps = np.diff(times)
    assert gaps.std() / gaps.mean() == pytest.approx(1.0, abs=0.05), "exponential gaps have a coefficient of variation of one"
    assert np.all(times == np.rint(times * 1e6) / 1e6), "whole microseconds"


def test_phases_differ_although_the_seed_is_one() -> None:
    phases = [{"name": n, "arrivals": {"poisson": {"rate": "20/s"}}, "duration": "5s"} for n in ("warmup", "steady")]
    one, two = schedule_of(workload(phases)).phases
    assert one.arrivals_s.tolist() != two.arrivals_s.tolist()


@pytest.mark.parametrize(
    ("tokens", "low", "high", "mean"),
    [
        ({"constant": 24}, 24, 24, 24.0),
        ({"uniform": {"min": 8, "max": 12}}, 8, 12, 10.0),
        ({"normal": {"mean": 24, "stddev": 6, "min": 8, "max": 48}}, 8, 48, 24.0),
        ({"normal": {"mean": 10, "stddev": 1000, "min": 8, "max": 12}}, 8, 12, 10.0),
    ],
)
def test_lengths(tokens: dict[str, Any], low: int, high: int, mean: float) -> None:
    drawn = schedule_of(workload(steady({"constant": {"rate": "100/s"}}, "30s"), input_tokens=tokens)).phases[0].input_tokens
    assert drawn.dtype == np.int32
    assert (drawn.min(), drawn.max()) == (low, high) or tokens.get("normal", {}).get("stddev") == 6
    assert low <= drawn.min() <= drawn.max() <= high
    assert drawn.mean() == pytest.approx(mean, rel=0.05)


def test_a_phase_without_any_arrival_is_refused() -> None:
    for seed in range(200):
        try:
            schedule_of(workload(steady({"poisson": {"rate": "1/s"}}, "1s"), seed=seed))
        except ValueError as error:
            assert str(error) == (
                f"phases[0] steady: the seed {seed} draws no arrival in 1s; expected a longer phase, a higher rate or another requests.seed"
            )
            return
    pytest.fail("a Poisson process of mean one is empty for about a third of all seeds")


def test_planning_needs_no_client_and_no_torch() -> None:
    code = (
        "import sys, plumbline.harness.inference.arrivals as a; print([m for m in ('torch', 'tritonclient', 'grpc') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
