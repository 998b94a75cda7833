"""What would change a decision, drawn: also when the one that would be first is not among those listed."""

from __future__ import annotations

from dataclasses import replace

from tests.data.decision_trials import preference, repeats

from plumbline.analysis.decisions.decide import decide
from plumbline.analysis.decisions.sensitivity import PriceFlip, PriceSwing, weight_sensitivity
from plumbline.presentation.charts.decisions import price_swings_chart, weight_swings_chart

WANTED = preference({"time_to_first_token": 0.9, "cost_per_1k_requests": 0.1})
# Many are near the first; the cheapest by far ranks last, and would be first by its cost alone.
TRIALS = [
    trial
    for n in range(14)
    for trial in repeats(
        f"near-{n:02d}", *({"time_to_first_token": 0.1 + n / 1000 + r / 10_000, "cost_per_1k_requests": 1.0} for r in (0, 1))
    )
] + repeats("cheap", *({"time_to_first_token": 3.0 + r / 1000, "cost_per_1k_requests": 0.01} for r in (0, 1)))


def test_who_would_be_first_is_drawn_though_it_is_not_listed() -> None:
    decision = decide("product", "inference", WANTED, TRIALS)
    swings = weight_sensitivity("product", "inference", WANTED, TRIALS)
    assert {f.first for s in swings for f in (s.below, s.above) if f is not None} == {"cheap"}
    listed = replace(decision, ranking=decision.ranking[:12])
    assert "cheap" not in {r.provider for r in listed.ranking}
    drawn = weight_swings_chart(listed, swings)
    assert drawn is not None
    assert "then cheap" in {part.get("name") for part in drawn.data}
    swing = PriceSwing("near-00", 2.0, None, PriceFlip(1.5, 3.0, "cheap"))
    drawn = price_swings_chart(listed, (swing,))
    assert drawn is not None
    assert "then cheap" in {part.get("name") for part in drawn.data}
