"""From which probability on a ranking names a winner, and how every surface says who is first and how sure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plumbline.analysis.decisions.certainty import contenders, is_clear, leaders_of, rivals_of
from plumbline.analysis.decisions.decision import Decision, Gate, Ranked
from plumbline.words.decisions import first_sentence, judge_choice, name_first, with_certainty


@pytest.mark.parametrize(
    ("probabilities", "count"),
    [
        ([0.88, 0.12], 1),
        ([0.5, 0.5], 1),
        ([0.49, 0.48, 0.03], 2),
        ([0.1] * 10, 9),
        ([0.4, 0.3, 0.2, 0.1], 3),
        ([None], 1),
        ([None, None], 2),
        ([], 0),
    ],
)
def test_below_one_half_the_first_place_is_shared(probabilities: list[float | None], count: int) -> None:
    assert contenders(probabilities) == count


def ranked(*chances: float | None) -> Decision:
    return Decision("t", "training", ("w",), ranking=tuple(Ranked(name, True, 1.0, p) for name, p in zip("abcde", chances, strict=False)))


@pytest.mark.parametrize(
    ("decision", "name", "sentence"),
    [
        (ranked(0.92, 0.08), "a", "a, 92 % sure"),
        (ranked(0.67, 0.33), "a", "a leads with 67 %, below the bar of 90 %"),
        (replace(ranked(0.67, 0.33), bar=0.6), "a", "a, 67 % sure"),
        (ranked(0.999, 0.001), "a", "a, > 99 % sure"),
        (ranked(0.5, 0.5), "a", "a leads with 50 %, below the bar of 90 %"),
        (ranked(0.49, 0.45, 0.06), "no clear winner among 2", "no clear winner among 2, a leads with 49 %"),
        (
            ranked(None, None),
            "no clear winner among 2",
            "no clear winner among 2, a scores highest; a probability needs two repeats of each",
        ),
        (ranked(0.9), "a", "a, the only eligible provider"),
        (Decision("t", "training", note="No provider ran this."), "no eligible provider", "No provider ran this"),
        (
            Decision("t", "training", ranking=(Ranked("a", False, why_not=("too slow",)),)),
            "no eligible provider",
            "no eligible provider: too slow",
        ),
        (Decision("t", "training"), "no eligible provider", "no eligible provider"),
    ],
)
def test_one_wording_says_who_is_first_and_how_sure(decision: Decision, name: str, sentence: str) -> None:
    assert (name_first(decision), first_sentence(decision)) == (name, sentence)
    assert len(leaders_of(decision)) == (0 if decision.first is None else 2 if "among 2" in name else 1)


def test_a_name_carries_its_certainty_where_it_is_known() -> None:
    assert [with_certainty("a", p) for p in (0.924, 0.824, None)] == ["a (92 % sure)", "a (82 %)", "a"]


def test_a_winner_is_clear_from_the_bar_of_its_team_and_against_somebody() -> None:
    assert [is_clear(ranked(*p)) for p in ((0.9, 0.1), (0.89, 0.11), (0.99,), (None, None), ())] == [True, False, False, False, False]
    assert is_clear(replace(ranked(0.6, 0.4), bar=0.6))


def test_a_choice_without_proof_says_what_would_decide_it() -> None:
    unsure, alone = judge_choice(ranked(0.67, 0.33)), judge_choice(ranked(0.99))
    assert (unsure.verdict, unsure.missing, unsure.decides) == (
        "not_shown",
        "below the bar of 90 %",
        "more repeats until one is first with 90 %",
    )
    assert (alone.verdict, alone.decides) == ("not_shown", "a second eligible provider")
    gate = Gate("w", "mtbf >= 10h", "s", 3600.0, 36000.0, passed=False)
    refused = Ranked("a", False, values=(1.0,), gates=(gate,), why_not=("gate is not met",))
    unmeasured = Ranked("b", False, values=(None,), why_not=("tokens_per_second was not measured",))
    perhaps = replace(refused, gates=(replace(gate, shown=False),))
    of = Decision("t", "training", ("w",))
    assert judge_choice(replace(of, ranking=(refused,))).tone == "bad"
    assert {judge_choice(replace(of, ranking=ranking)).verdict for ranking in ((refused, unmeasured), (unmeasured,), (perhaps,), ())} == {
        "not_shown"
    }


def test_rivals_are_those_whose_repeats_would_settle_it() -> None:
    assert [len(rivals_of(ranked(*p))) for p in ((0.67, 0.3, 0.03), (0.95, 0.05), (0.4, 0.3, 0.2, 0.1), (None, None, None), ())] == [
        2,
        2,
        3,
        3,
        0,
    ]
