"""The acceptance rule, each outcome reached and each left."""

from __future__ import annotations

import pytest

from plumbline.declarations import METRICS, Criterion
from plumbline.scorecards import Number, TrialNumbers, judge


def trials(*values: float | None, metric: str = "request_scheduled_latency", statistic: str = "p95") -> list[TrialNumbers]:
    known = METRICS[metric]
    return [
        TrialNumbers(
            f"t{i}",
            "a",
            "inference",
            "w",
            1,
            "missing" if value is None else "valid",
            "02:00",
            i,
            None,
            () if value is None else (Number("steady", metric, statistic, value, known.unit, known.direction, 90),),
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
    from dataclasses import replace

    good, bad = trials(0.5, 5.0)
    assert judge(LIMIT, [good, replace(bad, status="invalid")]).outcome == "pass"


def test_a_limit_of_zero_has_no_margin() -> None:
    nothing = Criterion.model_validate("error_rate <= 0% in steady")
    judged = judge(nothing, trials(0.0, metric="error_rate", statistic="value"))
    assert (judged.outcome, judged.margin) == ("pass", None)
