"""How far a weight must move: exact crossings, held against a fine grid of reweighted decisions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data.decision_trials import METRIC_NAMES, field, preference, raw_weights, repeats, trials_of, value_functions, weighted

from plumbline.analysis.decisions.decide import decide
from plumbline.analysis.decisions.sensitivity import WeightFlip, WeightSwing, weight_sensitivity
from plumbline.declarations import with_weights


def test_a_crossing_worked_by_hand() -> None:
    trials = [
        *repeats("quick", {"time_to_first_token": 0.1, "output_token_throughput": 50}),
        *repeats("wide", {"time_to_first_token": 0.4, "output_token_throughput": 100}),
    ]
    wanted = preference({"time_to_first_token": 0.5, "output_token_throughput": 0.5})
    # Log2 scores at a weight x of the latency: quick 0·x - 1·(1 - x), wide -2·x: alike at x = 1/3.
    assert weight_sensitivity("t", "inference", wanted, trials) == (
        WeightSwing("time_to_first_token", 0.5, WeightFlip(pytest.approx(1 / 3), "wide"), None),
        WeightSwing("output_token_throughput", 0.5, None, WeightFlip(pytest.approx(2 / 3), "wide")),
    )


def test_who_is_best_at_everything_stays_first() -> None:
    trials = [
        *repeats("best", {"time_to_first_token": 0.1, "output_token_throughput": 100}),
        *repeats("other", {"time_to_first_token": 0.4, "output_token_throughput": 50}),
    ]
    found = weight_sensitivity("t", "inference", preference({"time_to_first_token": 0.5, "output_token_throughput": 0.5}), trials)
    assert [(s.below, s.above) for s in found] == [(None, None), (None, None)]
    alone = weight_sensitivity("t", "inference", preference({"time_to_first_token": 1.0}), trials)
    assert [(s.weight, s.below, s.above) for s in alone] == [(1.0, None, None)]


def test_without_a_choice_there_is_nothing_to_swing() -> None:
    wanted = preference({"time_to_first_token": 1.0})
    assert weight_sensitivity("t", "inference", wanted, repeats("only", {"time_to_first_token": 0.1})) == ()
    assert weight_sensitivity("t", "inference", wanted, []) == ()


@settings(max_examples=60, deadline=None)
@given(field, raw_weights, value_functions, st.sampled_from(METRIC_NAMES))
def test_on_a_grid_nobody_else_is_first_before_the_crossing_and_the_one_it_names_is_after(
    measured: list[list[dict[str, float]]], raw: list[float], values: dict[str, object], metric: str
) -> None:
    trials, wanted = trials_of(measured), preference(weighted(raw), values=values)
    first = decide("t", "inference", wanted, trials, draws=0).ranking[0].provider
    swing = next(s for s in weight_sensitivity("t", "inference", wanted, trials) if s.metric == metric)

    def lead(weight: float, provider: str) -> float:
        """Log of how far a provider is ahead of the best other one at this weight."""
        import math

        scores = {
            r.provider: r.score or 0.0 for r in decide("t", "inference", with_weights(wanted, {metric: weight}), trials, draws=0).ranking
        }
        return math.log(scores[provider] / max(s for p, s in scores.items() if p != provider))

    low = swing.below.weight if swing.below else 0.0
    high = swing.above.weight if swing.above else 1.0
    assert low <= swing.weight <= high
    for i in range(1, 12):
        assert lead(low + (high - low) * i / 12, first) >= -1e-9
    for flip, beyond in ((swing.below, -1e-4), (swing.above, 1e-4)):
        if flip is not None and 0 < flip.weight + beyond < 1:
            assert lead(flip.weight + beyond, first) < 1e-9
            assert lead(flip.weight, flip.first) == pytest.approx(0.0, abs=1e-6)
