"""Arrival processes against what is known of them: rates, spread of gaps, exact positions, windows."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from plumbline.declarations.workloads.load import Arrivals, Tokens
from plumbline.harness.inference.load.schedule import Overload, arrival_times, lengths, replay_times
from plumbline.loadclient.phase_load import Seconds


def drawn(declared: dict[str, Any], duration_s: float, overload: Overload | None = None, seed: int = 3) -> Seconds:
    arrivals = Arrivals.model_validate_json(json.dumps(declared))
    return arrival_times(arrivals, duration_s, np.random.Generator(np.random.PCG64(seed)), overload)


ON_OFF = {"on_off": {"on": {"rate": "80/s", "duration": "3s"}, "off": {"rate": "5/s", "duration": "7s"}}}
OPEN: list[dict[str, Any]] = [
    {"constant": {"rate": "20/s"}},
    {"poisson": {"rate": "20/s"}},
    {"gamma": {"rate": "20/s", "cv": 2}},
    ON_OFF,
    {"ramp": {"start": "1/s", "end": "40/s"}},
    {"ramp": {"start": "40/s", "end": "1/s"}},
    {"ramp": {"start": "20/s", "end": "20/s"}},
]


@pytest.mark.parametrize("declared", OPEN, ids=lambda declared: next(iter(declared)))
@pytest.mark.parametrize("overload", [None, Overload(100.0, 200.0, 3.0)], ids=["plain", "overload"])
def test_times_rise_within_the_phase_in_whole_microseconds_and_come_as_often_as_declared(
    declared: dict[str, Any], overload: Overload | None
) -> None:
    times = drawn(declared, 400.0, overload)
    expected = Arrivals.model_validate_json(json.dumps(declared)).expected
    n = expected(400.0) + (2.0 * (expected(200.0) - expected(100.0)) if overload and "ramp" not in declared else 0)
    if overload and "ramp" in declared:
        ramp = declared["ramp"]
        start, end = (float(ramp[k].removesuffix("/s")) for k in ("start", "end"))
        n += 2.0 * 100.0 * (start + (end - start) * 150.0 / 400.0)
    assert np.all(np.diff(times) >= 0) and times[0] >= 0 and times[-1] < 400
    assert np.array_equal(times, np.rint(times * 1e6) / 1e6)
    assert len(times) == pytest.approx(n, abs=5 * 2 * n**0.5), "five standard deviations, of gaps with a coefficient of variation of 2"


@pytest.mark.parametrize("cv", [0.2, 1.0, 3.0])
def test_gamma_gaps_have_the_declared_variation(cv: float) -> None:
    gaps = np.diff(drawn({"gamma": {"rate": "50/s", "cv": cv}}, 2000.0))
    assert gaps.mean() == pytest.approx(0.02, rel=0.05)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.06)


def test_on_and_off_alternate_from_on() -> None:
    into = drawn(ON_OFF, 1000.0) % 10.0
    on, off = np.count_nonzero(into < 3), np.count_nonzero(into >= 3)
    assert on == pytest.approx(100 * 3 * 80, rel=0.04)
    assert off == pytest.approx(100 * 7 * 5, rel=0.1)


def test_within_a_stretch_on_off_arrivals_are_poisson() -> None:
    times = drawn(ON_OFF, 1000.0)
    gaps = np.diff(times)[(times[:-1] % 10 < 2.5)]
    assert gaps.std() / gaps.mean() == pytest.approx(1.0, abs=0.05)


def test_a_ramp_rises_evenly() -> None:
    times = drawn({"ramp": {"start": "10/s", "end": "90/s"}}, 400.0)
    found, _ = np.histogram(times, bins=4, range=(0, 400))
    assert found.tolist() == pytest.approx([2000, 4000, 6000, 8000], rel=0.08)


def test_a_flat_ramp_is_poisson() -> None:
    gaps = np.diff(drawn({"ramp": {"start": "50/s", "end": "50/s"}}, 400.0))
    assert gaps.std() / gaps.mean() == pytest.approx(1.0, abs=0.05)


def test_overload_multiplies_the_rate_within_its_window_and_nowhere_else() -> None:
    times = drawn({"constant": {"rate": "10/s"}}, 10.0, Overload(4.0, 6.0, 3.0))
    counts = [int(np.count_nonzero((times >= a) & (times < b))) for a, b in ((0, 4), (4, 6), (6, 10))]
    assert counts == [40, 60, 40]
    assert np.diff(times[times < 4]).tolist() == pytest.approx([0.1] * 39)
    assert np.diff(times[(times >= 4) & (times < 6)]).tolist() == pytest.approx([0.1 / 3] * 59, abs=2e-6)


def test_before_an_overload_the_same_requests_come_as_without_it() -> None:
    with_, without = drawn({"poisson": {"rate": "30/s"}}, 20.0, Overload(8.0, 12.0, 4.0)), drawn({"poisson": {"rate": "30/s"}}, 20.0)
    assert with_[with_ < 8].tolist() == without[without < 8].tolist()


def test_a_trace_is_replayed_faster_while_overloaded() -> None:
    recorded = np.array([0.0, 4.0, 5.0, 8.0, 9.0, 30.0])
    assert replay_times(recorded, Overload(4.0, 6.0, 2.0), 10.0).tolist() == [0.0, 4.0, 4.5, 6.0, 7.0, float("inf")]
    assert replay_times(recorded, None, 10.0) is recorded


def test_what_is_no_open_process_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^closed .*poisson"):
        drawn({"closed": {"users": 2, "requests": 4}}, 10.0)


def test_mixed_lengths_have_their_shares() -> None:
    tokens = Tokens.model_validate_json(
        json.dumps(
            {"mixed": [{"share": "25%", "constant": 512}, {"share": "75%", "uniform": {"min": 8, "max": 12}}]},
        )
    )
    found = lengths(tokens, 20_000, np.random.Generator(np.random.PCG64(1)))
    assert found.dtype == np.int32
    assert np.count_nonzero(found == 512) / 20_000 == pytest.approx(0.25, abs=0.02)
    assert set(np.unique(found)) == {8, 9, 10, 11, 12, 512}
    assert (tokens.shortest, tokens.longest) == (8, 512)
