"""Faster in every probe and slower at the work: called out, and no certainty is given."""

from __future__ import annotations

import pytest
from tests.data.plain_rows import plain_row

from plumbline.analysis.decisions.contradiction import contradictions
from plumbline.analysis.decisions.decide import decide
from plumbline.analysis.trial_sample import TrialSample
from plumbline.declarations import Preference
from plumbline.words.decisions import note_text


def trial(provider: str, repeat: int, matmul: float, memory: float | None, rate: float) -> TrialSample:
    metrics = [
        plain_row("environment", "matmul_tflops", "max", matmul, "FLOP/s", "higher_is_better", 3),
        plain_row("sweep", "highest_sustained_rate", "value", rate, "1/s", "higher_is_better", 8),
    ]
    if memory is not None:
        metrics.append(plain_row("environment", "memory_bandwidth", "max", memory, "bytes/s", "higher_is_better", 3))
    return TrialSample(f"{provider}{repeat}", provider, "inference", "chat", 1, "valid", "02:00", repeat, None, tuple(metrics))


def of(two: tuple[float, float | None, float]) -> list[TrialSample]:
    return [trial(name, k, *numbers) for k in range(3) for name, numbers in (("one", (1e11, 1e10, 260.0)), ("two", two))]


@pytest.mark.parametrize(
    ("two", "called"),
    [
        ((2e11, 2e10, 130.0), True),
        ((2e11, None, 130.0), True),
        ((2e11, 1.4e10, 130.0), False),
        ((2e11, 2e10, 261.0), False),
        ((1.4e11, 2e10, 130.0), False),
    ],
)
def test_only_what_every_probe_contradicts(two: tuple[float, float | None, float], called: bool) -> None:
    found = contradictions(("one", "two"), of(two))
    assert [(c.faster, c.slower) for c in found] == ([("two", "one")] if called else [])


def test_a_provider_without_the_work_is_no_contradiction() -> None:
    assert contradictions(("one", "two"), [t for t in of((2e11, 2e10, 130.0)) if t.provider == "two"]) == ()
    assert contradictions((), ()) == ()


def test_the_decision_says_it_and_gives_no_certainty() -> None:
    preference = Preference.model_validate({"workloads": ("chat",), "weights": {"highest_sustained_rate": 1}})
    decision = decide("team", "inference", preference, of((2e11, 2e10, 130.0)), draws=200)
    assert decision.first_name == "one" and {r.probability_first for r in decision.ranking} == {None}
    assert "two is at least 2.0 times as fast as one in every probe" in note_text(decision.note)
    plain = decide("team", "inference", preference, of((2e11, 2e10, 300.0)), draws=200)
    assert plain.first is not None and plain.first.probability_first is not None and "probe" not in note_text(plain.note)
