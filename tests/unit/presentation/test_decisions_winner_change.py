"""The steps of a changed first choice: from the lead before to the lead now."""

from __future__ import annotations

from itertools import pairwise

import pytest

from plumbline.analysis.decisions.winner_change import LeadPart, WinnerChange
from plumbline.presentation.charts.decisions import winner_change_chart
from plumbline.presentation.decisions import change_steps

CHANGE = WinnerChange(
    *("a", "b", -0.08, 0.03),
    (
        LeadPart("noise", "chat", "error_rate", 0.01),
        LeadPart("price", "chat", "cost_per_1k_requests", 0.06),
        LeadPart("price", "code", "cost_per_1k_requests", 0.03),
        LeadPart("speed", "chat", "time_to_first_token", 0.01),
    ),
)


def test_the_steps_lead_from_before_to_now_one_for_each_cause_or_metric() -> None:
    steps = change_steps(CHANGE)
    assert [s.cause for s in steps] == [None, "price", "speed", "noise", None]
    assert steps[1].points == pytest.approx(0.09) and steps[1].text == "+9.0"
    assert all(now.base == pytest.approx(was.base + was.points) for was, now in pairwise(steps[:-1]))
    assert steps[-2].base + steps[-2].points == pytest.approx(steps[-1].points)


def test_an_unknown_lead_has_no_steps_and_no_chart() -> None:
    unknown = WinnerChange("a", "b", None, 0.1, unknown=("a had no results before",))
    assert change_steps(unknown) == () and winner_change_chart(unknown) is None
