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
from plumbline.analysis.decisions.winner_change import Scatter, explain_change, interval_half, scatter_of

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


def test_the_same_first_is_no_change() -> None:
    assert explain_change(stored(BEFORE, SAME), stored(BEFORE, SAME)) is None


def test_half_an_interval_is_relative_and_needs_two_repeats() -> None:
    assert scatter_of("time_to_first_token", [0.1]) is None
    assert scatter_of("time_to_first_token", [0.1, 0.2]) == pytest.approx(math.log(2) / 2)
    assert interval_half("time_to_first_token", 1.0, None, None) is None
