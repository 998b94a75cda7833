"""From which probability on a ranking names a winner, and how every surface says who is first and how sure."""

from __future__ import annotations

import pytest

from plumbline.analysis.decisions.certainty import contenders, first_sentence, leaders_of, name_first, with_certainty
from plumbline.analysis.decisions.decision import Decision, Ranked


@pytest.mark.parametrize(
    ("probabilities", "count"),
    [
        ([0.88, 0.12], 1),
        ([0.5, 0.5], 1),
        ([0.49, 0.48, 0.03], 2),
        ([0.1] * 10, 9),
        ([0.4, 0.3, 0.2, 0.1], 3),
        ([None], 1),
        ([None, None], 1),
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
        (ranked(0.82, 0.18), "a", "a, 82 % sure"),
        (ranked(0.999, 0.001), "a", "a, > 99 % sure"),
        (ranked(0.5, 0.5), "a", "a, 50 % sure"),
        (ranked(0.49, 0.45, 0.06), "no clear winner among 2", "no clear winner among 2, a leads with 49 %"),
        (ranked(None, None), "a", "a, probability unknown"),
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
    assert (with_certainty("a", 0.824), with_certainty("a", None)) == ("a (82 % sure)", "a")
