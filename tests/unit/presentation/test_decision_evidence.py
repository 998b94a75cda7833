"""What a ranking's numbers rest on, beside them: repeats, hours, and what limited them."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

from tests.data.decision_trials import preference, repeats

from plumbline.analysis.decisions.current_results import CurrentResults, TeamDecision
from plumbline.analysis.decisions.decide import decide
from plumbline.analysis.trial_sample import TrialSample
from plumbline.presentation.decisions import condition_texts, evidence_texts
from plumbline.results.limit import Limit

LATENCY = preference({"time_to_first_token": 1.0})


def measured(name: str, *values: float, slots: tuple[str, ...]) -> list[TrialSample]:
    return repeats(name, *({"time_to_first_token": v} for v in values), slots=slots)


def test_repeats_hours_and_limit_are_beside_each_provider_and_a_missing_limit_is_not_shown() -> None:
    limit = Limit.shown("sweep", "accelerator", "busy 97 % of the time")
    known = [replace(t, limits=(limit,)) for t in measured("a", 0.1, 0.11, slots=("02:00", "10:00"))]
    trials = (*known, *measured("b", 0.1, 0.12, slots=("02:00",)))
    current = CurrentResults(trials, {}, {}, frozenset(), date(2026, 11, 1))
    decided = TeamDecision(decide("t", "inference", LATENCY, trials), LATENCY, current)
    assert evidence_texts(decided) == {
        "a": "2 repeats, at 02:00 and 10:00 UTC, limit: the accelerator",
        "b": "2 repeats, at 02:00 UTC, limit: not shown",
    }
    assert condition_texts(decided)["b"] == "at 02:00 UTC, limit: not shown"
    unusable = tuple(replace(t, status="invalid") for t in trials)
    none = replace(decided, current=replace(current, trials=unusable))
    assert condition_texts(none) == evidence_texts(none) == {}, "nothing is said of what was not measured"
