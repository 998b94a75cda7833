"""The line under a number."""

from __future__ import annotations

from plumbline.metrics import METRICS
from plumbline.words.definitions import definition


def test_each_number_has_one_line_and_an_unknown_one_has_none() -> None:
    assert definition("time_to_first_token") == METRICS["time_to_first_token"].description
    assert "really first" in definition("P(first)")
    assert definition("of-a-workload-of-its-own") == ""
