from __future__ import annotations

import numpy as np
import pytest

from plumbline.harness.inference.phases.growth import Growth, growth_of, pooled_growth

AT = np.arange(0, 60, 0.1)


def test_a_server_that_is_offered_a_tenth_too_much_falls_a_tenth_of_a_second_behind_each_second() -> None:
    growth = growth_of(AT, 1.0 + 0.1 * AT, 60.0)
    assert growth is not None
    assert growth.slope == pytest.approx(0.1)
    assert growth.sure()


def test_a_steady_latency_does_not_grow_nor_does_one_that_falls() -> None:
    noise = np.random.default_rng(1).exponential(0.2, len(AT))
    steady, falling = growth_of(AT, 1.0 + noise, 60.0), growth_of(AT, 9.0 - 0.1 * AT, 60.0)
    assert steady is not None and falling is not None
    assert abs(steady.slope) < 0.005 and not steady.sure()
    assert falling.slope == pytest.approx(-0.1) and not falling.sure()


def test_equal_latencies_have_no_order() -> None:
    assert growth_of(AT, np.full(len(AT), 0.02), 60.0) == Growth(0.0, 0.0)
    assert growth_of(AT, 0.02 + 1e-12 * AT, 60.0) is not None


def test_the_filling_of_an_empty_server_and_single_slow_requests_are_no_growth() -> None:
    latency = np.where(AT < 5.0, AT / 5, 5.0)
    latency[[100, 400, 599]] = 500.0
    growth = growth_of(AT, latency, 60.0)
    assert growth == Growth(0.0, 0.0)


def test_windows_that_resemble_their_neighbours_prove_less() -> None:
    wave = growth_of(AT, 2.0 + np.sin(AT / 12) + 0.01 * AT, 60.0)
    noise = growth_of(AT, 2.0 + np.random.default_rng(2).normal(0, 0.05, len(AT)) + 0.01 * AT, 60.0)
    assert wave is not None and noise is not None
    assert noise.sure() and not wave.sure()


@pytest.mark.parametrize("n", [0, 1, 44])
def test_too_few_requests_say_nothing(n: int) -> None:
    assert growth_of(AT[:n], AT[:n], 60.0) is None


def test_runs_at_one_rate_add_up() -> None:
    assert pooled_growth([]) is None
    assert pooled_growth([Growth(0.02, 1.2), Growth(0.04, 1.2)]) == Growth(0.03, pytest.approx(1.2 * 2**0.5))
