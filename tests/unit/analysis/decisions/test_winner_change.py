"""Why the first choice changed: the parts add up to the move of the lead, and each cause is found where it alone acts."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.data.decision_trials import preference, repeats

from plumbline.analysis.decisions.decide import rank
from plumbline.analysis.decisions.decision_record import DecisionDocument, PriceAtDecision
from plumbline.analysis.decisions.winner_change import Scatter, Why, explain_change, interval_half, scatter_of, why_moved

METRICS = ("time_to_first_token", "output_token_throughput", "cost_per_1k_requests")
EVEN = dict.fromkeys(METRICS, 1 / 3)
KEYS = [(provider, "chat", metric) for provider in "ab" for metric in METRICS]


def stored(
    numbers: dict[str, tuple[float, ...]], prices: dict[str, float | None], weights: dict[str, float] = EVEN, *gates: str
) -> DecisionDocument:
    """A decision with what the split reads."""
    trials = [t for name, own in numbers.items() for t in repeats(name, dict(zip(METRICS, own, strict=True)))]
    decision = rank("t", "inference", preference(weights, *gates), trials)
    return DecisionDocument(**vars(decision), prices={name: PriceAtDecision(usd) for name, usd in prices.items()})


SAME = {"a": 10.0, "b": 10.0}
BEFORE = {"a": (0.1, 100.0, 2.0), "b": (0.1, 100.0, 2.1)}
quiet: Scatter = dict.fromkeys(KEYS, 0.01)

positive = st.floats(0.5, 2.0)
three = st.tuples(positive, positive, positive)


@given(three, three, three, three, three, three, positive, positive, st.booleans())
def test_the_parts_add_up_to_the_move_of_the_lead(
    a0: Any, b0: Any, a1: Any, b1: Any, w0: Any, w1: Any, p0: float, p1: float, priced: bool
) -> None:
    weights = [{m: w / sum(own) for m, w in zip(METRICS, own, strict=True)} for own in (w0, w1)]
    before = stored({"a": a0, "b": b0}, {"a": p0, "b": p1 if priced else None}, weights[0])
    after = stored({"a": a1, "b": b1}, {"a": p1, "b": p0}, weights[1])
    found = explain_change(before, after, (quiet, quiet))
    firsts = [d.first_name for d in (before, after)]
    assert (found is None) == (firsts[0] == firsts[1])
    if found is not None:
        assert found.before is not None and found.after is not None
        scores = [{r.provider: r.score or 0.0 for r in d.ranking} for d in (before, after)]
        leads = [math.log(own[found.new] / own[found.old]) for own in scores]
        assert (found.before, found.after) == (pytest.approx(leads[0], abs=1e-9), pytest.approx(leads[1], abs=1e-9))
        assert sum(p.points for p in found.parts) == pytest.approx(found.after - found.before, abs=1e-7)


def causes(after: Any, before: Any = None, scatter: tuple[Scatter, Scatter] = (quiet, quiet)) -> dict[str, float]:
    found = explain_change(before or stored(BEFORE, SAME), after, scatter)
    assert found is not None and (found.new, found.old) == ("b", "a")
    return {p.cause: p.points for p in found.parts}


def test_a_price_that_falls_is_the_price_alone() -> None:
    found = causes(stored({"a": BEFORE["a"], "b": (0.1, 100.0, 1.68)}, {"a": 10.0, "b": 8.0}))
    assert found == {"price": pytest.approx(-math.log(0.8) / 3)}


def test_a_cost_that_falls_at_the_same_price_is_speed() -> None:
    assert set(causes(stored({"a": BEFORE["a"], "b": (0.1, 100.0, 1.68)}, SAME))) == {"speed"}


def test_a_change_inside_the_intervals_is_noise_and_without_intervals_is_unproven() -> None:
    after = stored({"a": BEFORE["a"], "b": (0.08, 100.0, 2.1)}, SAME)
    wide: Scatter = dict.fromkeys(KEYS, 0.3)
    assert set(causes(after, scatter=(wide, wide))) == {"noise"}
    found = explain_change(stored(BEFORE, SAME), after)
    assert found is not None and [p.cause for p in found.parts] == ["speed"]
    assert found.unproven == (("chat", "time_to_first_token"),)


def test_other_weights_are_the_declaration() -> None:
    fast_and_dear = {"a": (0.2, 100.0, 2.0), "b": (0.1, 100.0, 4.2)}
    before, after = (dict(zip(METRICS, own, strict=True)) for own in ((0.2, 0.2, 0.6), (0.6, 0.2, 0.2)))
    assert set(causes(stored(fast_and_dear, SAME, after), stored(fast_and_dear, SAME, before))) == {"weights"}


def test_a_cost_without_a_stored_price_is_one_part() -> None:
    assert set(causes(stored({"a": BEFORE["a"], "b": (0.1, 100.0, 1.68)}, {"a": 10.0, "b": None}))) == {"cost"}


def test_a_provider_that_was_not_eligible_has_no_lead_and_says_why() -> None:
    gated = stored({"a": BEFORE["a"], "b": (0.5, 100.0, 1.0)}, SAME, EVEN, "time_to_first_token <= 200ms in steady")
    found = explain_change(gated, stored({"a": BEFORE["a"], "b": (0.05, 100.0, 1.0)}, SAME))
    assert found is not None and found.before is None and found.parts == () and any("b, before" in text for text in found.unknown)


def shown(after: DecisionDocument, before: DecisionDocument | None = None, scatter: tuple[Scatter, Scatter] = (quiet, quiet)) -> Why:
    found = explain_change(before or stored(BEFORE, SAME), after, scatter)
    assert found is not None
    return why_moved(found)


def test_the_largest_part_is_named_with_whose_it_is_and_its_size() -> None:
    dearer = stored({"a": (0.1, 100.0, 3.0), "b": (0.098, 100.0, 2.1)}, {"a": 15.0, "b": 10.0})
    why = shown(dearer)
    assert why.largest is not None
    assert (why.largest.cause, why.largest.provider, why.largest.change) == ("price", "a", pytest.approx(0.5))
    assert why.move == pytest.approx(why.largest.points + math.log(0.1 / 0.098) / 3)
    faster = shown(stored({"a": BEFORE["a"], "b": (0.05, 100.0, 2.1)}, SAME)).largest
    assert faster is not None and (faster.cause, faster.provider, faster.metric) == ("speed", "b", METRICS[0])
    assert faster.change == pytest.approx(-0.5)
    delivers = shown(stored({"a": (0.1, 100.0, 2.5), "b": BEFORE["b"]}, SAME)).largest
    assert delivers is not None and (delivers.cause, delivers.provider, delivers.change) == ("speed", "a", pytest.approx(-0.2))


def test_one_price_over_several_workloads_is_one_part_and_of_three_parts_the_sum_is_the_move() -> None:
    after = stored({"a": (0.11, 90.0, 3.0), "b": BEFORE["b"]}, {"a": 14.0, "b": 10.0})
    why = shown(after)
    assert [p.provider for p in why.parts] == ["a"] * len(why.parts) and why.parts[0].cause == "price"
    assert sum(p.points for p in why.parts) == pytest.approx(why.move)


def test_what_noise_alone_moves_is_shown_to_have_moved_nothing() -> None:
    wide: Scatter = dict.fromkeys(KEYS, 0.3)
    why = shown(stored({"a": BEFORE["a"], "b": (0.08, 100.0, 2.1)}, SAME), scatter=(wide, wide))
    assert (why.shown, why.largest) == ("noise", None)
    # A price that fell by less than the noise moved the lead by, and without which the lead would have moved all the same.
    beside = shown(stored({"a": BEFORE["a"], "b": (0.08, 100.0, 2.09)}, {"a": 10.0, "b": 9.95}), scatter=(wide, wide))
    assert (beside.shown, beside.largest) == ("noise", None)


def test_two_parts_within_each_others_interval_are_not_distinguished() -> None:
    after = stored({"a": BEFORE["a"], "b": (0.08, 122.0, 2.1)}, SAME)
    near: Scatter = dict.fromkeys(KEYS, 0.05)
    assert shown(after, scatter=(near, near)).shown == "close" and shown(after, scatter=(near, near)).largest is None
    assert shown(stored({"a": BEFORE["a"], "b": (0.05, 122.0, 2.1)}, SAME)).shown == "part"


def test_a_part_without_an_interval_is_not_shown_unless_a_certain_one_suffices() -> None:
    nothing: tuple[Scatter, Scatter] = ({}, {})
    assert shown(stored({"a": BEFORE["a"], "b": (0.05, 100.0, 2.1)}, SAME), scatter=nothing).shown == "unproven"
    both = stored({"a": (0.1, 100.0, 4.0), "b": (0.09, 100.0, 2.1)}, {"a": 20.0, "b": 10.0})
    price = shown(both, scatter=nothing).largest
    assert price is not None and price.cause == "price", "it moves the choice alone"


def test_eligibility_comes_before_any_part() -> None:
    gated = stored({"a": BEFORE["a"], "b": (0.5, 100.0, 1.0)}, SAME, EVEN, "time_to_first_token <= 200ms in steady")
    why = shown(stored({"a": BEFORE["a"], "b": (0.05, 100.0, 1.0)}, SAME), gated)
    assert why.shown == "eligibility" and why.reasons and why.largest is None


def test_the_same_first_is_no_change() -> None:
    assert explain_change(stored(BEFORE, SAME), stored(BEFORE, SAME)) is None


def test_half_an_interval_is_relative_and_needs_two_repeats() -> None:
    assert scatter_of("time_to_first_token", [0.1]) is None
    assert scatter_of("time_to_first_token", [0.1, 0.2]) == pytest.approx(math.log(2) / 2)
    assert interval_half("time_to_first_token", 1.0, None, None) is None
