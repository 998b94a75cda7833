"""The first line of a decision: who is first, how sure, and who is cheaper."""

from __future__ import annotations

import pytest

from plumbline.analysis.decisions.cheapest import Cheapest, Setup
from plumbline.analysis.decisions.decision import Decision, Ranked
from plumbline.analysis.decisions.savings import CostAnswer, savings_of
from plumbline.declarations.alerts import RentedVolume
from plumbline.words.decisions import answer_sentence


def setup(provider: str, cost: float, meets: bool = True) -> Setup:
    return Setup(provider, meets, cost, None, None, None, 3, None, (), (), ())


def costs(workload: str, *setups: Setup) -> Cheapest:
    return Cheapest("inference", workload, "cost_per_1m_output_tokens", (), setups, "")


@pytest.mark.parametrize(
    ("cheapest", "cheaper"),
    [
        ((costs("chat", setup("aurora", 0.88), setup("cirrus", 1.0)),), "; aurora is 12 % cheaper"),
        ((costs("chat", setup("cirrus", 0.88), setup("aurora", 1.0)),), ""),
        ((costs("chat", setup("aurora", 0.996), setup("cirrus", 1.0)),), ""),
        # Who does not meet the requirements is no answer, whatever the cost.
        ((costs("chat", setup("cirrus", 1.0), setup("aurora", 0.5, meets=False)),), ""),
        (
            (costs("chat", setup("aurora", 0.9), setup("cirrus", 1.0)), costs("code", setup("cirrus", 1.0))),
            "; aurora is 10 % cheaper on chat",
        ),
        ((), ""),
    ],
)
def test_the_first_line_names_who_is_cheaper(cheapest: tuple[Cheapest, ...], cheaper: str) -> None:
    ranking = (Ranked("cirrus", True, 1.0, 0.92), Ranked("aurora", True, 0.9, 0.08))
    decision = Decision("product", "inference", ("chat",), ranking=ranking)
    assert answer_sentence(decision, cheapest) == f"cirrus, 92 % sure{cheaper}"


def test_without_an_eligible_provider_nobody_is_cheaper() -> None:
    decision = Decision("product", "inference", ("chat",), ranking=(Ranked("cirrus", False, None, None),))
    assert answer_sentence(decision, (costs("chat", setup("aurora", 0.5)),)) == "no eligible provider"


def answer(workload: str, current: str | None) -> CostAnswer:
    return CostAnswer("product", "inference", workload, {"cirrus": 1.0, "aurora": 0.88}, "aurora", 0.9, lambda *_: 2.0, current)


def test_savings_count_from_a_declared_place_alone() -> None:
    nowhere = savings_of([answer("chat", None)], ())
    assert (nowhere.moves, nowhere.placed, nowhere.of) == ((), 0, 1)
    elsewhere = savings_of([answer("chat", "borealis")], ())
    assert (elsewhere.moves, elsewhere.placed) == ((), 0), "without a cost there nothing is known of a saving"
    (move,) = savings_of([answer("chat", "cirrus")], ()).moves
    assert (move.provider, move.to, move.usd, round(move.saving, 2)) == ("cirrus", "aurora", 0.0, 0.12)
    at_the_cheapest = savings_of([answer("chat", "aurora")], ())
    assert (at_the_cheapest.moves, at_the_cheapest.placed) == ((), 1)


def test_a_declared_place_adds_what_no_volume_covers() -> None:
    volume = RentedVolume.model_validate({"provider": "cirrus", "workload": "chat", "time_per_month": "100h"})
    found = savings_of([answer("chat", "cirrus"), answer("code", "cirrus"), answer("embed", None)], (volume,))
    assert [(move.workload, move.usd > 0) for move in found.moves] == [("chat", True), ("code", False)]
    assert (found.placed, found.of) == (2, 3)
