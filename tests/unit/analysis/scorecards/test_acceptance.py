"""The acceptance rule, each outcome reached and each left."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plumbline.analysis.scorecards.acceptance import judge
from plumbline.analysis.trial_sample import MetricValue, TrialSample
from plumbline.declarations import Criterion
from plumbline.metrics import METRICS


def trials(*values: float | None, metric: str = "request_scheduled_latency", statistic: str = "p95") -> list[TrialSample]:
    known = METRICS[metric]
    return [
        TrialSample(
            f"t{i}",
            "a",
            "inference",
            "w",
            1,
            "missing" if value is None else "valid",
            "02:00",
            i,
            None,
            () if value is None else (MetricValue("steady", metric, statistic, value, known.unit, known.direction, 90),),
        )
        for i, value in enumerate(values)
    ]


LIMIT = Criterion.model_validate("p95 request_scheduled_latency <= 900ms in steady")


@pytest.mark.parametrize(
    ("values", "outcome"),
    [
        ((0.5, 0.6, 0.9), "pass"),
        ((0.5, 0.6, 0.91), "mixed"),
        ((0.5, 0.91, 0.95), "fail"),
        ((0.5, None), "pass"),
        ((0.5, None, None), "insufficient"),
        ((0.95, None, None), "insufficient"),
        ((None,), "insufficient"),
        ((), "insufficient"),
    ],
)
def test_the_rule(values: tuple[float | None, ...], outcome: str) -> None:
    assert judge(LIMIT, trials(*values)).outcome == outcome


def test_margin_and_worst_are_on_the_right_side() -> None:
    judged = judge(LIMIT, trials(0.45, 0.45, 0.99))
    assert judged.text == "p95 request_scheduled_latency <= 900ms in steady"
    assert (judged.value, judged.worst, judged.met, judged.n) == (0.45, 0.99, 2, 3)
    assert judged.margin == pytest.approx(0.5)
    assert judged.explanation == "the median meets it, 1 of 3 repeats do not"
    goodput = Criterion.model_validate("goodput >= 4/s in steady")
    low = judge(goodput, trials(3.0, 5.0, 3.0, metric="goodput", statistic="value"))
    assert (low.outcome, low.worst) == ("fail", 3.0)
    assert low.margin == pytest.approx(-0.25)


def test_an_invalid_trial_never_decides() -> None:
    good, bad = trials(0.5, 5.0)
    assert judge(LIMIT, [good, replace(bad, status="invalid")]).outcome == "pass"


def test_a_limit_of_zero_has_no_margin() -> None:
    nothing = Criterion.model_validate("error_rate <= 0% in steady")
    judged = judge(nothing, trials(0.0, metric="error_rate", statistic="value"))
    assert (judged.outcome, judged.margin) == ("pass", None)


def measured(n: int, *rows: tuple[float | None, float | None, float | None], metric: str, statistic: str) -> list[TrialSample]:
    """One repeat of n requests for each (value, ci_low, ci_high)."""
    known = METRICS[metric]
    return [
        replace(
            trial, status="valid", metrics=(MetricValue("steady", metric, statistic, value, known.unit, known.direction, n, low, high),)
        )
        for trial, (value, low, high) in zip(trials(*(0.0 for _ in rows)), rows, strict=True)
    ]


P99 = Criterion.model_validate("p99 time_to_first_token <= 2s in steady")
TTFT = {"metric": "time_to_first_token", "statistic": "p99"}
GOOD = Criterion.model_validate("goodput_ratio >= 99% in steady")
SHARE = {"metric": "goodput_ratio", "statistic": "value"}


def test_a_tail_of_too_few_requests_is_insufficient_and_says_how_many_it_takes() -> None:
    judged = judge(P99, measured(41, (None, None, None), (None, None, None), **TTFT))
    assert (judged.outcome, judged.n) == ("insufficient", 0)
    assert judged.explanation == (
        "no usable trial measured it (2 planned); p99 needs at least 100 requests for a value and 368 for a 95 % interval; 41 were measured"
    )


def test_a_tail_with_a_value_but_without_an_interval_is_judged_and_says_so() -> None:
    judged = judge(P99, measured(120, (1.0, None, None), (1.2, None, None), **TTFT))
    assert judged.outcome == "pass"
    assert judged.explanation == (
        "all 2 repeats meet it; p99 has no 95 % interval below 368 observations, which 2 of 2 did not have (the smallest 120)"
    )


def test_a_limit_inside_an_interval_is_told_and_one_outside_is_not() -> None:
    judged = judge(P99, measured(400, (1.9, 1.7, 2.1), (1.8, 1.7, 1.9), **TTFT))
    assert judged.outcome == "pass"
    assert judged.explanation == "all 2 repeats meet it; the limit lies within the 95 % interval of 1 of 2 (the widest: 1.70 s … 2.10 s)"
    assert judge(P99, measured(400, (1.8, 1.7, 1.9), **TTFT)).explanation == "the one repeat meets it"
    alone = judge(P99, measured(400, (1.9, 1.7, 2.1), **TTFT))
    assert alone.explanation == "the one repeat meets it; the limit lies within its 95 % interval (1.70 s … 2.10 s)"


def test_a_tail_that_failed_requests_reach_fails_and_has_no_value() -> None:
    judged = judge(P99, measured(400, (None, None, None), (None, None, None), (1.0, 0.9, 1.1), **TTFT))
    assert (judged.outcome, judged.value, judged.worst, judged.margin, judged.met, judged.n) == ("fail", None, None, None, 1, 3)
    assert "in 2 of 3 so many requests failed that p99 was never reached" in judged.explanation
    mixed = judge(P99, measured(400, (None, None, None), (1.0, 0.9, 1.1), (1.0, 0.9, 1.1), **TTFT))
    assert (mixed.outcome, mixed.value, mixed.worst) == ("mixed", 1.0, None)


def test_a_number_that_is_absent_for_another_reason_is_not_a_fail() -> None:
    queue = Criterion.model_validate("queue_time <= 1s in steady")
    assert judge(queue, measured(400, (None, None, None), metric="queue_time", statistic="mean")).outcome == "insufficient"


@pytest.mark.parametrize(
    ("n", "value", "low", "high", "outcome", "said"),
    [
        (41, 1.0, 0.914, 1.0, "insufficient", "needs at least 100 requests to allow for one that misses it"),
        (41, 0.5, 0.355, 0.645, "fail", "the one repeat does not meet it"),
        (120, 1.0, 0.969, 1.0, "pass", "within its 95 % interval (96.9 % … 100 %); about 381 requests would tell at this share"),
        (500, 0.996, 0.9854, 0.9989, "pass", "about 425 requests would tell at this share"),
        (20_000, 0.996, 0.995, 0.9968, "pass", "the one repeat meets it"),
    ],
    ids=["few", "few but clearly not", "all of many", "nearly all", "proven"],
)
def test_a_share_of_the_requests(n: int, value: float, low: float, high: float, outcome: str, said: str) -> None:
    judged = judge(GOOD, measured(n, (value, low, high), **SHARE))
    assert judged.outcome == outcome
    assert judged.explanation.endswith(said) if n != 41 else said in judged.explanation
