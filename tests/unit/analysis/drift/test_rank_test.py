from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from plumbline.analysis.drift import rank_test


def enumerated_p(baseline: list[float], candidate: list[float]) -> float:
    """Two-sided p by walking through every arrangement: the definition."""
    pooled = stats.rankdata(baseline + candidate)
    seen = pooled[len(baseline) :].sum()
    sums = [sum(pooled[list(chosen)]) for chosen in combinations(range(len(pooled)), len(candidate))]
    low = sum(s <= seen + 1e-9 for s in sums) / len(sums)
    high = sum(s >= seen - 1e-9 for s in sums) / len(sums)
    return min(1.0, 2 * min(low, high))


@pytest.mark.parametrize("seed", range(6))
def test_one_block_equals_the_enumeration_ties_included(seed: int) -> None:
    rng = np.random.default_rng(seed)
    baseline, candidate = list(rng.integers(0, 6, 5).astype(float)), list(rng.integers(1, 8, 4).astype(float))
    assert rank_test.two_sided_p([(np.array(baseline), np.array(candidate))]) == pytest.approx(enumerated_p(baseline, candidate))


def test_one_block_without_ties_equals_scipy() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(0, 1, 7), rng.normal(0.8, 1, 6)
    assert rank_test.two_sided_p([(a, b)]) == pytest.approx(stats.mannwhitneyu(b, a, method="exact").pvalue)


def test_blocks_are_shuffled_apart() -> None:
    # Two slots with very different levels: pooled they would hide the shift, apart every candidate beats every baseline value.
    blocks = [(np.array([1.0, 1.1]), np.array([1.2, 1.3])), (np.array([9.0, 9.1]), np.array([9.2, 9.3]))]
    assert rank_test.two_sided_p(blocks) == pytest.approx(2 / 36)
    assert rank_test.smallest_p([(2, 2), (2, 2)]) == pytest.approx(2 / 36)


def test_two_against_two_can_never_be_significant() -> None:
    assert rank_test.smallest_p([(2, 2)]) == pytest.approx(1 / 3)


def test_the_normal_limit_is_close_where_counting_is_too_long() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.normal(0, 1, 400), rng.normal(0.15, 1, 400)
    assert rank_test.two_sided_p([(a, b)]) == pytest.approx(stats.mannwhitneyu(b, a, method="asymptotic").pvalue, rel=1e-3)
    k = rank_test.interval_rank([(400, 400)], 0.95)
    assert k is not None and 70000 < k < 80000


@pytest.mark.parametrize(
    ("sizes", "k"), [([(2, 2)], None), ([(3, 3)], None), ([(4, 4)], 1), ([(5, 5)], 3), ([(8, 2)], 1), ([(2, 2)] * 3, 2)]
)
def test_interval_rank_is_the_textbook_one(sizes: list[tuple[int, int]], k: int | None) -> None:
    assert rank_test.interval_rank(sizes, 0.95) == k
