"""A stored decision, and JSON, say their reasons in words: no value that only `words` can read leaves the program."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest
from pydantic_core import to_jsonable_python
from tests.data.decision_trials import preference, repeats

from plumbline.analysis.cost.interruptions import EndlessRun, Restarts
from plumbline.analysis.cost.unit_costs import Cost
from plumbline.analysis.decisions.cheapest import Missed
from plumbline.analysis.decisions.contradiction import Contradiction
from plumbline.analysis.decisions.decide import decide
from plumbline.analysis.decisions.decision import ClosedGate, Decision
from plumbline.analysis.scorecards.comparison_class import CostIncludes, ExpectedRestarts
from plumbline.analysis.scorecards.criteria import CriterionBasis, judge
from plumbline.analysis.trial_sample import InterruptionRate
from plumbline.declarations import Criterion
from plumbline.words.costs import cost_data, trial_data
from plumbline.words.criteria import verdict_data
from plumbline.words.decision_record import decision_in_words

RATE = InterruptionRate(0.05, "dispatch log")
AGAINST = Contradiction("chat", "a", "b", ("matmul_tflops",), 2.0, "highest_sustained_rate", 0.5)


def live() -> Decision:
    full = {"time_to_first_token": 0.1, "cost_per_1k_requests": 1.0}
    a, b = ([replace(t, restarts=RATE, includes=("egress", "support")) for t in repeats(name, full, full)] for name in ("a", "b"))
    slow = repeats("c", {"time_to_first_token": 9.0, "cost_per_1k_requests": 1.0})
    found = decide("t", "inference", preference({"cost_per_1k_requests": 1.0}, "p50 time_to_first_token <= 1s in steady"), [*a, *b, *slow])
    return replace(found, note=(AGAINST, "Only so far."))


def values_in(of: Any) -> set[type]:
    """The types of all values in it."""
    if is_dataclass(of):
        return {type(of)}.union(*(values_in(getattr(of, each.name)) for each in fields(of)))
    if isinstance(of, dict):
        return set[type]().union(*map(values_in, of.values()))
    return set[type]().union(*map(values_in, of)) if isinstance(of, list | tuple) else {type(of)}


FACTS = {ClosedGate, Contradiction, CostIncludes, CriterionBasis, ExpectedRestarts, InterruptionRate, Missed, Restarts}


def test_a_decision_is_stored_in_words() -> None:
    decision = live()
    assert values_in(decision) & FACTS == {ClosedGate, Contradiction, CostIncludes, ExpectedRestarts, InterruptionRate}
    worded = decision_in_words(decision)
    assert not values_in(worded) & FACTS
    said = json.loads(json.dumps(to_jsonable_python(worded)))
    assert said["note"].startswith("a is at least 2.0 times as fast as b in every probe (matmul tflops)") and said["note"].endswith(
        " Only so far."
    )
    texts = {each["code"]: each["text"] for each in said["comparison"]["limitations"]}
    assert texts["cost_includes"] == "Cost includes, beside the hours, egress and support (all)"
    assert texts["expected_restarts"].endswith("0.05 interruptions an hour (dispatch log): a, b")
    assert [each["why_not"] for each in said["ranking"]] == [[], [], ['gate "p50 time_to_first_token <= 1s in steady" on chat is not met']]


@pytest.mark.parametrize(
    "data",
    [
        verdict_data(judge(Criterion.model_validate("p95 time_to_first_token <= 1s in steady"), [])),
        cost_data(Cost("cost_per_1m_trained_tokens", None, None, reason=EndlessRun(RATE))),
        trial_data(replace(repeats("a", {})[0], restarts=RATE, includes=("egress", "support"))),
    ],
    ids=["criterion", "cost", "trial"],
)
def test_json_of_a_criterion_a_cost_and_a_trial_is_in_words(data: dict[str, Any]) -> None:
    assert not values_in(data) & (FACTS | {EndlessRun})
    assert "basis" not in data or data["basis"] is None
