"""Statistics of step times."""

from __future__ import annotations

import numpy as np
import pytest

from plumbline.harness.training.analysis.records import clear_trend, median_interval, steady_from


def test_too_few_values_have_no_interval() -> None:
    assert median_interval([]) is None
    assert median_interval([1.0] * 5) is None
    assert median_interval([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]) == (1.0, 6.0)


@pytest.mark.parametrize("n", [6, 20, 121, 1500])
def test_the_interval_covers_the_true_median_as_often_as_it_says(n: int) -> None:
    random = np.random.default_rng(1)
    hits, rounds = 0, 400
    for _ in range(rounds):
        interval = median_interval(random.lognormal(size=n).tolist())
        assert interval is not None
        hits += interval[0] <= 1.0 <= interval[1]
    assert 0.925 <= hits / rounds <= 0.999


def test_the_interval_is_no_wider_than_needed() -> None:
    # For n = 100 the textbook ranks are 40 and 61.
    assert median_interval([float(i) for i in range(1, 101)]) == (40.0, 61.0)


def test_a_trend_fires_on_throttling_and_on_a_late_warm_up() -> None:
    noise = np.random.default_rng(2).normal(1.0, 0.02, size=120)
    slower, faster = noise.copy(), noise.copy()
    slower[80:] *= 1.12
    faster[:45] *= 1.3
    assert clear_trend(slower.tolist()) == pytest.approx(0.12, abs=0.02)
    assert clear_trend(faster.tolist()) == pytest.approx(1 / 1.3 - 1, abs=0.03)


def test_no_trend_in_noise_bursts_small_changes_or_few_values() -> None:
    random = np.random.default_rng(3)
    noise = random.normal(1.0, 0.05, size=120)
    assert clear_trend(noise.tolist()) is None
    burst = noise.copy()
    burst[90:100] *= 4
    assert clear_trend(burst.tolist()) is None
    assert clear_trend([1.0] * 60 + [1.03] * 60) is None
    assert clear_trend([1.0] * 20 + [2.0] * 20) is None
    false_alarms = sum(clear_trend(random.lognormal(sigma=0.3, size=90).tolist()) is not None for _ in range(300))
    assert false_alarms < 9


def test_a_warm_up_is_left_out_to_its_end() -> None:
    random = np.random.default_rng(4)
    noise = random.normal(1.0, 0.03, size=120)
    decaying = noise * (1 + np.exp(-np.arange(120) / 10))
    assert 20 <= steady_from(decaying.tolist()) <= 60
    stepped = noise.copy()
    stepped[:22] *= 1.3
    assert 20 <= steady_from(stepped.tolist()) <= 30
    assert steady_from((1 / stepped).tolist()) == steady_from(stepped.tolist()), "a first stretch that was faster is left out too"


def test_a_late_change_leaves_little() -> None:
    noise = np.random.default_rng(5).normal(1.0, 0.03, size=120)
    noise[80:] *= 1.2
    assert 75 <= steady_from(noise.tolist()) <= 90


def test_noise_bursts_small_changes_and_few_values_leave_nothing_out() -> None:
    random = np.random.default_rng(6)
    noise = random.normal(1.0, 0.03, size=120)
    assert steady_from(noise.tolist()) == 0
    burst = noise.copy()
    burst[60:70] *= 4
    assert steady_from(burst.tolist()) == 0
    assert steady_from([1.03] * 40 + [1.0] * 60) == 0
    assert steady_from([2.0] * 20 + [1.0] * 20) == 0
    assert steady_from([]) == 0
    rough = [steady_from(random.lognormal(sigma=0.3, size=300).tolist()) for _ in range(100)]
    assert sum(rough) / len(rough) < 6, "of very uneven steps a few are lost"
