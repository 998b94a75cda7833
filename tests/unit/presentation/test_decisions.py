"""Why the first choice is not always the cheapest."""

from __future__ import annotations

from datetime import date

from tests.data.decision_trials import preference, repeats
from tests.golden import Golden

from plumbline.analysis.decisions.current_results import CurrentResults, TeamDecision
from plumbline.analysis.decisions.decide import decide
from plumbline.presentation.decisions import first_against_cheapest


def decided(fast_cost: float, cheap_latency: float) -> TeamDecision:
    trials = [
        *repeats("fast", *({"time_to_first_token": 0.1, "cost_per_1k_requests": fast_cost * k} for k in (1, 1.01))),
        *repeats("cheap", *({"time_to_first_token": cheap_latency, "cost_per_1k_requests": 1.0 * k} for k in (1, 1.01))),
    ]
    wanted = preference({"time_to_first_token": 0.5, "cost_per_1k_requests": 0.5})
    current = CurrentResults(
        trials=tuple(trials), providers={}, campaigns={}, simulated=frozenset(), day=date(2026, 11, 1), purchase="on_demand"
    )
    return TeamDecision(decide("t", "inference", wanted, trials), wanted, current)


def test_first_and_cheapest_differ_for_reasons_that_have_weights(golden: Golden) -> None:
    (sentence,) = first_against_cheapest(decided(1.2, 0.2))
    golden("presentation.first_against_cheapest", sentence)
    assert first_against_cheapest(decided(0.9, 0.2)) == ()
