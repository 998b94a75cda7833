"""The review's own error rates, measured on seeded noise: how often it cries wolf, and what it finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from plumbline.analysis.drift.compare import compare

LEVELS = {
    "time_to_first_token": 0.08,
    "inter_token_latency": 0.01,
    "request_latency": 0.4,
    "request_scheduled_latency": 0.5,
    "request_throughput": 6.0,
    "output_token_throughput": 90.0,
    "goodput": 5.8,
    "step_time": 0.2,
}
WORSE_UP = {"time_to_first_token", "inter_token_latency", "request_latency", "request_scheduled_latency", "step_time"}


def stepped(size: float) -> dict[str, float]:
    return {m: level * (1 + size) if m in WORSE_UP else level / (1 + size) for m, level in LEVELS.items()}


@pytest.mark.parametrize("cv", [pytest.param(0.01, marks=pytest.mark.full), 0.05])
def test_two_hundred_a_a_comparisons_raise_almost_nothing(cv: float, noisy: Any, rules: Any, limits: Any) -> None:
    rng = np.random.default_rng(20261101)
    alarms, small = 0, 0
    for i in range(200):
        n = 2 + i % 4
        found = compare([noisy(rng, "b", n, cv, LEVELS)], noisy(rng, "c", n, cv, LEVELS), rules=rules, limits=limits)
        alarms += bool(found.drifted)
        small += bool(found.drifted) and n == 2
    # 5 % of the comparisons is what the declared false discovery rate allows when nothing is different at all.
    assert alarms <= 10
    assert small == 0


def test_campaigns_that_scatter_among_themselves_do_not_alarm_once_the_baseline_shows_it(noisy: Any, rules: Any, limits: Any) -> None:
    rng = np.random.default_rng(7)
    alarms = 0
    for _ in range(60):
        baseline = [noisy(rng, f"b{k}", 5, 0.01, LEVELS, tau=0.02) for k in range(5)]
        alarms += bool(compare(baseline, noisy(rng, "c", 5, 0.01, LEVELS, tau=0.02), rules=rules, limits=limits).drifted)
    # Eight independently wandering metrics at 5 % each, less what the practical thresholds hold back.
    assert alarms <= 9


@pytest.mark.parametrize(("size", "cv"), [(0.10, 0.01), (0.50, 0.01), (0.50, 0.05)])
def test_steps_are_found_with_five_repeats(size: float, cv: float, noisy: Any, rules: Any, limits: Any) -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        found = compare([noisy(rng, "b", 5, cv, LEVELS)], noisy(rng, "c", 5, cv, stepped(size)), rules=rules, limits=limits)
        assert found.verdict == "regressed"
        assert next(r for r in found.rows if r.metric == "step_time").verdict == "regressed"


def test_two_repeats_never_accuse_however_large_the_step(noisy: Any, rules: Any, limits: Any) -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        found = compare([noisy(rng, "b", 2, 0.01, LEVELS)], noisy(rng, "c", 2, 0.01, stepped(3.0)), rules=rules, limits=limits)
        assert found.verdict == "suspected" and not found.drifted
