"""Possible values: each metric of the catalogue has a range, and intervals must be intervals."""

from __future__ import annotations

import pytest

from plumbline.metrics import METRICS
from plumbline.quality.attempt_rows import interval_is_valid
from plumbline.results import metric_row


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_has_a_range_in_words(metric: str) -> None:
    possible = METRICS[metric].possible(METRICS[metric].statistic)
    assert possible.low < possible.high
    assert possible.low >= 0 or METRICS[metric].unit == "1", "only a plain number can be below nothing"
    assert "and at most" in str(possible)


@pytest.mark.parametrize(
    ("metric", "statistic", "zero_is_possible"),
    [
        ("step_time", "median", False),
        ("step_time", "stddev", True),
        ("step_time", "cv", True),
        ("queue_time", "mean", True),
        ("time_to_ready", "value", False),
        ("request_throughput", "value", True),
        ("delivery_time", "mean", True),
        ("goodput", "value", True),
        ("error_rate", "value", True),
    ],
)
def test_zero(metric: str, statistic: str, zero_is_possible: bool) -> None:
    assert METRICS[metric].possible(statistic).above is not zero_is_possible


def test_a_ratio_ends_at_one_but_a_cv_does_not() -> None:
    assert METRICS["error_rate"].possible("value").high == 1.0
    assert METRICS["error_rate"].possible("cv").high > 1.0
    assert METRICS["final_loss"].possible("value").high > 1.0


@pytest.mark.parametrize(
    ("ends", "holds"),
    [((None, None), True), ((0.9, 1.1), True), ((1.0, 1.0), True), ((1.1, 0.9), False), ((1.05, 1.1), False), ((0.9, None), False)],
)
def test_an_interval_is_around_its_value(ends: tuple[float | None, float | None], holds: bool) -> None:
    given = metric_row("step_time", 1.0, 5).model_copy(update={"ci_low": ends[0], "ci_high": ends[1]})
    assert interval_is_valid(given) is holds


def test_an_interval_around_nothing_is_none() -> None:
    assert not interval_is_valid(metric_row("step_time", None, 0).model_copy(update={"ci_low": 0.1, "ci_high": 0.2}))


def test_what_a_range_holds() -> None:
    time, ratio = METRICS["time_to_first_token"].possible("p50"), METRICS["error_rate"].possible("value")
    assert 0.1 in time and 0.0 not in time and -0.1 not in time and 1e9 not in time
    assert 0.0 in ratio and 1.0 in ratio and 1.01 not in ratio
