"""The cheapest setup that meets the requirement, and what the others miss."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.data.decision_trials import repeats
from tests.golden import Golden

from plumbline.analysis.cost.unit_costs import fitting_cost
from plumbline.analysis.decisions.cheapest import Requirements, cheapest
from plumbline.declarations import Criterion
from plumbline.words.decisions import note_text, setup_texts

GATE = Criterion.model_validate("error_rate <= 1% in steady")
PROMISE = Criterion.model_validate("p50 time_to_first_token <= 200ms in steady")
NEEDED = Requirements("inference", "chat", (GATE,), (PROMISE,))


def offers(name: str, usd: float, latency: float, errors: float = 0.0, spread: float = 0.02) -> list:  # type: ignore[type-arg]
    return repeats(
        name,
        *(
            {"cost_per_1k_requests": usd * (1 + s), "time_to_first_token": latency * (1 + s), "error_rate": errors}
            for s in (-spread, 0.0, spread)
        ),
    )


def test_the_cheapest_of_those_that_keep_every_promise() -> None:
    found = cheapest(
        NEEDED,
        "cost_per_1k_requests",
        [
            *offers("cheap-but-late", 1.0, 0.25),
            *offers("cheap-but-faulty", 1.0, 0.1, errors=0.02),
            *offers("good", 2.0, 0.1),
            *offers("dear", 3.0, 0.05),
        ],
    )
    assert [(s.provider, s.meets) for s in found.setups] == [
        ("good", True),
        ("dear", True),
        ("cheap-but-faulty", False),
        ("cheap-but-late", False),
    ]
    assert found.answer is not None
    assert (found.answer.cost, found.answer.low, found.answer.high, found.answer.n) == (2.0, pytest.approx(1.96), pytest.approx(2.04), 3)
    assert found.answer.probability_cheapest is not None
    assert 0.8 < found.answer.probability_cheapest < 1
    assert found.answer.trials == ("good.chat.r1", "good.chat.r2", "good.chat.r3")
    missed = {s.provider: [(m.text, m.value, m.limit, m.margin) for m in s.missed] for s in found.setups}
    assert missed["cheap-but-late"] == [(PROMISE.text, 0.25, 0.2, pytest.approx(-0.25))]
    assert missed["cheap-but-faulty"] == [(GATE.text, 0.02, 0.01, pytest.approx(-1.0))]
    assert found.requirements == (GATE.text, PROMISE.text)


def test_a_promise_that_one_repeat_breaks_is_not_kept_but_a_gate_is_judged_on_the_median() -> None:
    trials = offers("a", 1.0, 0.199)  # 195, 199 and 203 ms
    assert cheapest(NEEDED, "cost_per_1k_requests", trials).answer is None
    (missed,) = cheapest(NEEDED, "cost_per_1k_requests", trials).setups[0].missed
    assert (missed.text, missed.outcome) == (PROMISE.text, "mixed")
    as_gate = replace(NEEDED, gates=(PROMISE,), acceptance=())
    answer = cheapest(as_gate, "cost_per_1k_requests", trials)
    assert answer.answer is not None and answer.answer.provider == "a"


def test_what_was_not_measured_is_neither_free_nor_a_pass(golden: Golden) -> None:
    unpriced = repeats("unpriced", {"time_to_first_token": 0.1, "error_rate": 0.0})
    silent = repeats("silent", {"cost_per_1k_requests": 1.0, "error_rate": 0.0})
    found = cheapest(NEEDED, "cost_per_1k_requests", [*unpriced, *silent])
    assert found.answer is None
    assert {s.provider: (s.cost, [m.text for m in s.missed]) for s in found.setups} == {
        "unpriced": (None, []),
        "silent": (1.0, [PROMISE.text]),
    }
    notes = [
        note_text(found.note),
        note_text(cheapest(NEEDED, "cost_per_1k_requests", []).note),
        note_text(cheapest(NEEDED, "cost_per_1k_requests", offers("a", 1, 0.1)).note),
    ]
    golden("analysis.cheapest", "\n".join([*(f"{s.provider}: {why}" for s in found.setups for why in setup_texts(s)), *notes]))


def test_the_cost_that_fits_is_of_what_was_measured() -> None:
    requests = repeats("a", {"cost_per_1k_requests": 1.0})
    assert fitting_cost("inference", "chat", requests) == "cost_per_1k_requests"
    assert fitting_cost("inference", "chat", [*requests, *repeats("b", {"cost_per_good_request": 1e-3})]) == "cost_per_good_request"
    assert fitting_cost("training", "gpt", requests) == "cost_per_1m_trained_tokens"
    runs = [replace(trial, kind="training") for trial in repeats("a", {"cost_per_run": 1.0})]
    assert fitting_cost("training", "chat", runs) == "cost_per_run"
    assert fitting_cost("inference", "chat", repeats("a", {"cost_per_run": 1.0})) != "cost_per_run"
