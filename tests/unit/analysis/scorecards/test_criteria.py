"""The acceptance rule, each outcome reached and each left."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.data.plain_rows import plain_row
from tests.golden import Golden

from plumbline.analysis.scorecards.criteria import judge
from plumbline.analysis.trial_sample import TrialSample
from plumbline.declarations import Criterion
from plumbline.metrics import METRICS
from plumbline.words.criteria import explanation_text


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
            () if value is None else (plain_row("steady", metric, statistic, value, known.unit, known.direction, 90),),
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
    assert judged.text == LIMIT.text
    assert (judged.value, judged.worst, judged.met, judged.n) == (0.45, 0.99, 2, 3)
    assert judged.margin == pytest.approx(0.5)
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
        replace(trial, status="valid", metrics=(plain_row("steady", metric, statistic, value, known.unit, known.direction, n, low, high),))
        for trial, (value, low, high) in zip(trials(*(0.0 for _ in rows)), rows, strict=True)
    ]


P99 = Criterion.model_validate("p99 time_to_first_token <= 2s in steady")
TTFT = {"metric": "time_to_first_token", "statistic": "p99"}
GOOD = Criterion.model_validate("goodput_ratio >= 99% in steady")
SHARE = {"metric": "goodput_ratio", "statistic": "value"}


def test_a_tail_of_too_few_requests_is_insufficient_and_says_how_many_it_takes(golden: Golden) -> None:
    judged = judge(P99, measured(41, (None, None, None), (None, None, None), **TTFT))
    assert (judged.outcome, judged.n) == ("insufficient", 0)
    golden("analysis.too_few_requests", explanation_text(judged.basis))


def test_a_tail_without_an_interval_and_a_limit_inside_one_are_judged_and_noted(golden: Golden) -> None:
    judged = (
        judge(P99, measured(120, (1.0, None, None), (1.2, None, None), **TTFT)),
        judge(P99, measured(400, (1.9, 1.7, 2.1), (1.8, 1.7, 1.9), **TTFT)),
        judge(P99, measured(400, (1.8, 1.7, 1.9), **TTFT)),
        judge(P99, measured(400, (1.9, 1.7, 2.1), **TTFT)),
        judge(P99, measured(400, (None, None, None), (1.0, 0.9, 1.1), (1.0, 0.9, 1.1), **TTFT)),
    )
    assert [each.outcome for each in judged] == ["pass", "pass", "pass", "pass", "mixed"]
    golden("analysis.acceptance", "\n".join(explanation_text(each.basis) for each in judged))


def test_a_tail_that_failed_requests_reach_fails_and_has_no_value() -> None:
    judged = judge(P99, measured(400, (None, None, None), (None, None, None), (1.0, 0.9, 1.1), **TTFT))
    assert (judged.outcome, judged.value, judged.worst, judged.margin, judged.met, judged.n) == ("fail", None, None, None, 1, 3)
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
        (120, 1.0, 0.969, 1.0, "pass", "within its 95 % interval (96.9 % … 100 %); about 381 requests would settle it at this share"),
        (500, 0.996, 0.9854, 0.9989, "pass", "about 425 requests would settle it at this share"),
        (20_000, 0.996, 0.995, 0.9968, "pass", "the one repeat meets it"),
    ],
    ids=["few", "few but clearly not", "all of many", "nearly all", "proven"],
)
def test_a_share_of_the_requests(n: int, value: float, low: float, high: float, outcome: str, said: str) -> None:
    judged = judge(GOOD, measured(n, (value, low, high), **SHARE))
    assert judged.outcome == outcome
    assert explanation_text(judged.basis).endswith(said) if n != 41 else said in explanation_text(judged.basis)
