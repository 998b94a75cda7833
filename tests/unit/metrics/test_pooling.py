"""Intervals that do not promise more than their repeats can hold."""

from __future__ import annotations

import numpy as np
import pytest

from plumbline.metrics.pooling import pool


@pytest.mark.parametrize(("n", "k", "coverage"), [(2, 1, 0.5), (5, 1, 0.9375), (6, 1, 0.96875), (9, 2, 0.9609), (20, 6, 0.9586)])
def test_the_interval_is_the_textbook_order_statistic(n: int, k: int, coverage: float) -> None:
    pooled = pool([float(v) for v in range(1, n + 1)])
    assert (pooled.low, pooled.high) == (k, n + 1 - k)
    assert pooled.coverage == pytest.approx(coverage, abs=1e-4)


def test_the_interval_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    pooled = [pool(list(rng.lognormal(size=9))) for _ in range(2000)]
    covered = np.mean([p.low <= 1.0 <= p.high for p in pooled if p.low is not None and p.high is not None])
    assert covered == pytest.approx(0.9609, abs=0.02)


def test_one_repeat_has_no_interval_and_none_is_an_error() -> None:
    assert pool([3.0]) == pool((3.0,))
    assert pool([3.0]).low is None
    with pytest.raises(ValueError, match="nothing to pool"):
        pool([])


def test_repeats_that_stopped_on_one_step_keep_the_bracket_of_their_search() -> None:
    pooled = pool([135.0, 135.0, 135.0], [(135.0, 162.0), (135.0, 161.0), (135.0, 162.0)])
    assert (pooled.low, pooled.value, pooled.high) == (135.0, 135.0, 162.0)
    assert pool([135.0], [(135.0, 162.0)]).high == 162.0
    assert pool([100.0, 180.0], [(100.0, 120.0), (180.0, 190.0)]).high == 180.0
