from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from plumbline.metrics.quantiles import PERCENTILES, interval, percentile, rank, supported


@pytest.mark.parametrize(
    ("n", "q", "expected"), [(1, 0.5, 1), (2, 0.5, 1), (20, 0.95, 19), (100, 0.99, 99), (101, 0.99, 100), (90, 0.99, 90), (1000, 0.9, 900)]
)
def test_rank(n: int, q: float, expected: int) -> None:
    assert rank(n, q) == expected


def test_percentiles_are_observed_values_in_order() -> None:
    values = np.sort(np.random.default_rng(1).lognormal(size=997))
    found = [percentile(values, q) for q in PERCENTILES.values()]
    assert found == sorted(found)
    assert all(v in values for v in found)
    assert found == [float(np.quantile(values, q, method="inverted_cdf")) for q in PERCENTILES.values()]


def test_infinities_reach_only_the_percentiles_that_they_should() -> None:
    values = np.sort([*range(90), *[math.inf] * 10]).astype(float)
    assert percentile(values, 0.5) == 49
    assert percentile(values, 0.9) == 89
    assert percentile(values, 0.95) == math.inf


def test_nothing_has_no_percentile() -> None:
    assert math.isnan(percentile(np.empty(0), 0.5))
    assert interval(np.empty(0), 0.5) is None


@pytest.mark.parametrize(
    ("n", "q", "expected"), [(99, 0.99, False), (100, 0.99, True), (20, 0.95, True), (19, 0.95, False), (2, 0.5, True)]
)
def test_supported(n: int, q: float, expected: bool) -> None:
    assert supported(n, q) is expected


@pytest.mark.parametrize(("n", "q"), [(20, 0.5), (121, 0.95), (500, 0.99), (5000, 0.9)])
def test_the_interval_is_the_narrowest_that_the_binomial_allows(n: int, q: float) -> None:
    values = np.arange(1.0, n + 1)
    found = interval(values, q)
    assert found is not None
    low, high = (int(v) for v in found)  # value k is the k-th order statistic
    below = stats.binom(n, q)
    assert below.cdf(low - 1) <= 0.025 < below.cdf(low)
    assert below.cdf(high - 1) >= 0.975 > below.cdf(high - 2)


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(7)
    truth = float(stats.lognorm(1).ppf(0.9))
    hits = 0
    for _ in range(400):
        found = interval(np.sort(rng.lognormal(size=121)), 0.9)
        assert found is not None
        hits += found[0] <= truth <= found[1]
    assert hits / 400 >= 0.93


def test_too_few_values_have_no_interval() -> None:
    assert interval(np.arange(13.0), 0.99) is None
    assert interval(np.arange(367.0), 0.99) is None
    assert interval(np.arange(368.0), 0.99) is not None


def test_an_infinite_end_is_no_interval() -> None:
    assert interval(np.array([*range(50), *[math.inf] * 50]), 0.5) is None
