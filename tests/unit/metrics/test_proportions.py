"""What a sample can say, against published figures and against the definition."""

from __future__ import annotations

import pytest
from scipy import stats

from plumbline.declarations import Criterion
from plumbline.declarations.workloads.workload import insufficient_observations
from plumbline.metrics.proportions import (
    binomial_at_most,
    min_observations_for_interval,
    min_observations_for_quantile,
    min_successes_to_prove,
    sample_size_for_margin,
    wilson_interval,
)


def test_wilson_against_published_values() -> None:
    # Newcombe 1998, table I: 81 of 263 → 0.2553…0.3662; 0 of 20 → 0…0.1611.
    share = wilson_interval(81, 263)
    assert (share.low, share.high) == (pytest.approx(0.2553, abs=1e-4), pytest.approx(0.3662, abs=1e-4))
    none = wilson_interval(0, 20)
    assert (none.low, none.high) == (0.0, pytest.approx(0.1611, abs=1e-4))
    assert wilson_interval(20, 20).high == 1.0
    assert wilson_interval(0, 0).ratio is None
    with pytest.raises(ValueError, match=r"\b3\b.*\b2\b"):
        wilson_interval(3, 2)


def test_what_is_needed_to_prove_a_share_is_where_the_lower_bound_arrives() -> None:
    needed = min_successes_to_prove(0.99)
    assert (wilson_interval(needed, needed).low or 0) >= 0.99
    assert (wilson_interval(needed - 1, needed - 1).low or 0) < 0.99
    with pytest.raises(ValueError, match=r"^share 1;"):
        min_successes_to_prove(1.0)


@pytest.mark.parametrize(("q", "expected"), [(0.5, 2), (0.9, 10), (0.95, 20), (0.99, 100), (0.999, 1000)])
def test_a_value_needs_one_observation_beyond_it(q: float, expected: int) -> None:
    assert min_observations_for_quantile(q) == expected


@pytest.mark.parametrize("q", [0.5, 0.9, 0.95, 0.99, 0.1])
def test_an_interval_needs_the_extremes_to_enclose_the_quantile(q: float) -> None:
    def enclosed(n: int) -> bool:
        below = stats.binom(n, q)
        return below.cdf(0) <= 0.025 and below.sf(n - 1) <= 0.025

    n = min_observations_for_interval(q)
    assert enclosed(n)
    assert not enclosed(n - 1)


@pytest.mark.parametrize(("q", "expected"), [(0.90, 23_886), (0.95, 50_425), (0.99, 262_742)])
def test_a_margin_against_the_counts_that_mlperf_publishes(q: float, expected: int) -> None:
    assert sample_size_for_margin(q, (1 - q) / 20, confidence=0.99) == expected


@pytest.mark.parametrize(
    ("line", "n", "said"),
    [
        (
            "p99 time_to_first_token <= 2s in steady",
            41,
            "p99 needs at least 100 requests for a value and 368 for a 95 % interval; 41 were measured",
        ),
        ("p99 time_to_first_token <= 2s in steady", 100, None),
        ("p95 inter_token_latency <= 2s in steady", 19, "p95 needs at least 20 observations for a value"),
        (
            "goodput_ratio >= 99% in steady",
            99,
            "99 % needs at least 100 requests to allow for one that misses it, and 381 without any to be proven",
        ),
        ("goodput_ratio >= 99% in steady", 100, None),
        ("goodput_ratio >= 100% in steady", 1, None),
        ("error_rate <= 1% in steady", 50, "needs at least 100 requests"),
        ("error_rate <= 0% in steady", 5, None),
        ("goodput >= 5/s in steady", 5, None),
    ],
)
def test_too_few(line: str, n: int, said: str | None) -> None:
    found = insufficient_observations(Criterion.model_validate(line), n)
    assert (found is None) if said is None else (found is not None and said in found)


def test_a_binomial_tail_against_hand_and_at_size() -> None:
    assert binomial_at_most(10, 11, 0.99) == pytest.approx(1 - 0.99**11)
    assert binomial_at_most(0, 3, 0.5) == pytest.approx(0.125)
    assert (binomial_at_most(5, 5, 0.9), binomial_at_most(0, 4, 1.0), binomial_at_most(0, 4, 0.0)) == (1.0, 0.0, 1.0)
    assert binomial_at_most(5000, 10_000, 0.5) == pytest.approx(0.504, abs=1e-3)
