"""No room of include/plumbline has more lines than docs/house_lines.yaml allows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "perf"))

from house_counts import Checkout
from house_gate import lowered, problems, read

ROOT = Path(__file__).resolve().parents[3]
GATE: dict[str, Any] = {"lines": {"alerts": 100, "cli": 50}, "raised": {"cli": {"lines": 60, "reason": "a command that loads a server"}}}


def test_no_room_has_more_lines_than_it_may() -> None:
    assert problems(Checkout(ROOT).room_lines(), read(ROOT)) == []


def test_a_planted_file_is_over_the_number(tmp_path: Path) -> None:
    room = tmp_path / "include" / "plumbline" / "alerts" / "slack"
    room.mkdir(parents=True)
    (tmp_path / "include" / "plumbline" / "__init__.py").touch()
    (room.parent / "message.py").write_text("x = 1\n" * 100)
    assert problems(Checkout(tmp_path).room_lines(), GATE) == []
    (room / "planted.py").write_text("x = 1\n" * 50)
    (found,) = problems(Checkout(tmp_path).room_lines(), GATE)
    assert found.startswith("alerts: 150 lines, 50 more than ")


@pytest.mark.parametrize("reason", [None, "", "needed"])
def test_a_number_is_raised_with_a_reason_only(reason: str | None) -> None:
    assert problems({"cli": 60}, GATE) == []
    assert [found.split(":")[0] for found in problems({"cli": 60}, {**GATE, "raised": {"cli": {"lines": 60, "reason": reason}}})] == ["cli"]
    assert len(problems({"cli": 60}, {"lines": GATE["lines"]})) == 1


def test_a_new_room_needs_a_number() -> None:
    assert [found.split(":")[0] for found in problems({"load": 1}, GATE)] == ["load"]


def test_lowering_raises_nothing() -> None:
    assert lowered({"alerts": 120, "cli": 55}, GATE) == {
        "lines": {"alerts": 100, "cli": 50},
        "raised": {"cli": {**GATE["raised"]["cli"], "lines": 55}},
    }
    assert lowered({"alerts": 90, "cli": 40}, GATE) == {"lines": {"alerts": 90, "cli": 40}, "raised": {}}
    assert lowered({"cli": 70}, GATE) == {"lines": {"cli": 50}, "raised": GATE["raised"]}
