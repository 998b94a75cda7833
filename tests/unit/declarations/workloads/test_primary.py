"""`primary:` of a workload: the number that is asked first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from plumbline.declarations import DeclarationError, load
from plumbline.declarations.workloads.workload import Primary

CHAT = "workloads/inference/chat.yaml"


def test_a_line_is_read_with_the_usual_statistic_and_any_phase(broken: Callable[[str, str, str], Path]) -> None:
    declared = load(broken(CHAT, "acceptance:\n", "primary: goodput\nacceptance:\n")).workloads["chat"].primary
    assert declared is not None
    assert (declared.text, declared.metric, declared.statistic, declared.phase) == ("goodput", "goodput", "value", None)
    text = "  p95  time_to_first_token   in steady "
    primary = Primary.model_validate(text)
    assert (primary.text, primary.statistic, primary.phase) == (" ".join(text.split()), "p95", "steady")
    assert Primary.model_validate_json(primary.model_dump_json()) == primary


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("time_to_first_tokn", 'unknown metric "time_to_first_tokn"; expected one of the catalogue, such as time_to_first_token'),
        ("p96 time_to_first_token", 'unknown statistic "p96" in "p96 time_to_first_token"; expected one of value, min'),
        ("p95 time_to_first_token in stready", 'unknown phase "stready"'),
        ("gpu_power", "gpu_power has no better direction"),
        ("p95 time_to_first_token <= 2s in steady", "expected [STATISTIC] METRIC [in PHASE]"),
    ],
)
def test_a_wrong_line_is_an_error_at_its_place(broken: Callable[[str, str, str], Path], line: str, said: str) -> None:
    with pytest.raises(DeclarationError) as told:
        load(broken(CHAT, "acceptance:\n", f"primary: {line}\nacceptance:\n"))
    assert said in str(told.value)
    assert "chat.yaml:16  primary" in str(told.value)
