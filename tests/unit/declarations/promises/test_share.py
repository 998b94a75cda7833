"""One rule for every promise: kept, broken, or not shown with the tries that are still needed."""

from __future__ import annotations

import pytest

from plumbline.declarations import Criterion
from plumbline.declarations.promises.judging.share import judge_share, tries_to_keep
from plumbline.declarations.promises.speed_floors import judge_speed
from plumbline.metrics.proportions import binomial_at_most, min_successes_to_prove, wilson_interval


@pytest.mark.parametrize(
    ("started", "tried", "promised", "verdict", "needed"),
    [
        (30, 31, 0.99, "not_shown", 563),  # P(at most 30 of 31 | 99 %) = 27 %
        (31, 31, 0.99, "not_shown", 381),
        (380, 380, 0.99, "not_shown", 381),
        (381, 381, 0.99, "kept", None),
        (562, 563, 0.99, "kept", None),
        (10, 11, 0.99, "not_shown", 563),
        (27, 31, 0.99, "broken", None),  # P(at most 27 of 31 | 99 %) = 0.03 %
        (0, 0, 0.99, "not_shown", 381),
        (72, 72, 0.95, "not_shown", 73),
        (73, 73, 0.95, "kept", None),
        (500, 500, 1.0, "not_shown", None),
        (499, 500, 1.0, "broken", None),
    ],
)
def test_shares_of_tries(started: int, tried: int, promised: float, verdict: str, needed: int | None) -> None:
    judged = judge_share(wilson_interval(started, tried), promised)
    assert (judged.verdict, judged.needed) == (verdict, needed)


@pytest.mark.parametrize("share", [0.92, 0.95, 0.99, 0.999])
def test_a_flawless_record_needs_what_wilson_says(share: float) -> None:
    assert tries_to_keep(share) == min_successes_to_prove(share)


@pytest.mark.parametrize(("share", "failures"), [(0.5, 0), (0.5, 3), (0.9, 0), (0.99, 4)])
def test_what_is_needed_is_enough_and_no_less(share: float, failures: int) -> None:
    needed = tries_to_keep(share, failures)
    assert needed is not None
    for n, shown in ((needed, True), (needed - 1, False)):
        both = (wilson_interval(n - failures, n).low or 0) >= share and binomial_at_most(failures, n, 1 - share) <= 0.025
        assert both is shown


def test_failures_of_an_unproven_cause_break_nothing_and_may_leave_a_promise_not_shown() -> None:
    for started, tried, verdict in ((27, 31, "broken"), (27, 27, "not_shown"), (400, 400, "not_shown"), (9000, 9000, "kept")):
        judged = judge_share(wilson_interval(started, tried), 0.99, unproven=40)
        assert (judged.verdict, judged.share.n, judged.unproven) == (verdict, tried, 40)


def test_without_a_promise_nothing_is_judged() -> None:
    assert judge_share(wilson_interval(0, 50), None).verdict == "not_promised"


@pytest.mark.parametrize(
    ("speeds", "verdict", "needed"),
    [
        ((9.0, 9.1, 9.2, 9.3, 9.4), "not_shown", 20),  # five cannot tell: 1/32 on one side
        ((9.0, 9.1, 9.2, 9.3, 9.4, 9.5), "broken", None),
        ((10.0, 11.0, 11.1, 11.2, 11.3, 11.4), "kept", None),
        ((9.9, 11.0, 11.1, 11.2, 11.3, 11.4), "not_shown", 9),
        ((), "not_shown", 6),
    ],
)
def test_a_speed_needs_an_interval_wholly_on_one_side(speeds: tuple[float, ...], verdict: str, needed: int | None) -> None:
    floor = Criterion.model_validate("tokens_per_second >= 10tokens/s in steady")
    judged = judge_speed("w", floor, [(f"t{i}", v) for i, v in enumerate(speeds)])
    assert (judged.reached.verdict, judged.reached.needed) == (verdict, needed)
    low, high = judged.measured.low, judged.measured.high
    if verdict == "broken":
        assert high is not None and high < floor.limit
    if verdict == "kept":
        assert low is not None and low >= floor.limit
