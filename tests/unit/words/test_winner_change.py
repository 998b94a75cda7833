"""Why a first choice moved, in one sentence."""

from __future__ import annotations

from datetime import date

import pytest

from plumbline.analysis.decisions.winner_change import LeadPart, WinnerChange
from plumbline.words.winner_change import part_text, why_sentence

PRICE = LeadPart("price", "chat", "cost_per_1k_requests", 0.10, "harbor", 0.0, 0.3, date(2026, 9, 1))
SPEED = LeadPart("speed", "chat", "time_to_first_token", 0.04, "borealis", 0.01, -0.12)


def change(*parts: LeadPart, before: float | None = -0.05, unknown: tuple[str, ...] = ()) -> WinnerChange:
    after = None if before is None else before + sum(p.points for p in parts)
    return WinnerChange("borealis", "harbor", before, after, parts, unknown)


@pytest.mark.parametrize(
    ("moved", "says"),
    [
        (change(PRICE, SPEED), "the largest part: harbor raised its price 30 % on 1 September 2026 (+10.0 points) of the lead's +14.0; "
         "1 smaller part did too"),
        (change(LeadPart("noise", "chat", "time_to_first_token", 0.1)),
         "nothing is shown to have moved: no part of the change exceeds the repeats' noise"),
        (change(before=None, unknown=("harbor has no current results",)), "harbor has no current results"),
        (change(before=None), "not shown: the numbers of one of the two decisions are not stored"),
    ],
)  # fmt: skip
def test_the_sentence(moved: WinnerChange, says: str) -> None:
    assert why_sentence(moved) == says


def test_parts_that_cannot_be_told_apart_are_both_named() -> None:
    near = LeadPart("speed", "chat", "output_token_throughput", 0.045, "borealis", 0.02, 0.1)
    said = why_sentence(change(near, SPEED))
    assert said.startswith("not shown which part is the largest") and "output token throughput rose 10 %" in said and "fell 12 %" in said
    alone = LeadPart("speed", "chat", "time_to_first_token", 0.1, "borealis", None, -0.2)
    assert "do not distinguish it from noise" in why_sentence(change(alone))


def test_a_part_says_whose_number_moved() -> None:
    assert part_text(SPEED) == "borealis's time to first token fell 12 % on chat"
    hour = LeadPart("speed", "chat", "cost_per_1k_requests", 0.04, "harbor", 0.01, -0.2)
    assert part_text(hour) == "an hour of harbor delivers 20 % less on chat"
    assert "of a and b" in part_text(LeadPart("speed", "chat", "goodput", 0.1), ("a", "b"))
