"""Noise of slots and repeats: what many repeats teach is what is true, and few leave open what they must."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from plumbline.analysis.decisions.repeat_noise import Draws, RepeatScatter, _median_over_mean, draw


def drawn(score: NDArray[np.float64], slots: NDArray[np.intp], *peers: NDArray[np.float64]) -> Draws:
    scatters = [RepeatScatter(score, slots), *(RepeatScatter(peer, np.zeros(len(peer), dtype=np.intp)) for peer in peers)]
    return draw(scatters, [np.random.default_rng(i) for i in range(len(scatters))], np.random.default_rng(9), 8000)[0]


@pytest.mark.parametrize(("slot_noise", "own_noise"), [(0.0, 0.03), (0.03, 0.01), (0.06, 0.001)])
def test_with_many_slots_the_spread_is_the_true_one(slot_noise: float, own_noise: float) -> None:
    rng = np.random.default_rng(4)
    slots = np.repeat(np.arange(60), 3)
    score = slot_noise * rng.standard_normal(60)[slots] + own_noise * rng.standard_normal(180)
    found = drawn(score, slots)
    of_mean = np.sqrt((slot_noise**2 + own_noise**2 / 3) / 60)
    assert np.median(found.spread) == pytest.approx(of_mean * np.sqrt(np.pi / 2), rel=0.2)
    moved = found.scores(np.stack([score, -2 * score], axis=1))
    assert moved.std(axis=0) == pytest.approx([found.spread.mean(), 2 * found.spread.mean()], rel=0.1)
    assert np.corrcoef(moved.T)[0, 1] == pytest.approx(-1.0)


def test_two_repeats_that_agree_by_chance_are_judged_by_their_peers() -> None:
    lucky = np.array([1.0, 1.0001])
    slots = np.zeros(2, dtype=np.intp)
    noisy = [0.05 * np.random.default_rng(i).standard_normal(6) for i in range(3)]
    steady = [peer / 100 for peer in noisy]
    assert np.median(drawn(lucky, slots, *noisy).spread) > 5 * np.median(drawn(lucky, slots, *steady).spread)


def test_what_never_moves_is_taken_as_it_is() -> None:
    assert drawn(np.zeros(4), np.zeros(4, dtype=np.intp)).spread.max() == 0
    # Three equal numbers less their mean may not be 0 to the last bit; whether they are must not change what is thought of the others.
    slots, rounded, noisy = np.array([0, 0, 0]), np.array([0.0, 0.0, 3e-16]), np.array([0.0, 0.02, -0.02])
    assert drawn(rounded, slots).spread.max() == 0
    assert np.array_equal(drawn(noisy, slots, rounded).spread, drawn(noisy, slots, np.zeros(3)).spread)


@pytest.mark.parametrize("n", [2, 3, 4, 6, 9])
def test_a_median_scatters_more_than_a_mean(n: int) -> None:
    samples = np.random.default_rng(n).standard_normal((200_000, n))
    assert _median_over_mean(n) == pytest.approx(float(np.median(samples, axis=1).var() / samples.mean(axis=1).var()), rel=0.02)
