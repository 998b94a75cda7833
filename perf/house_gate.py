"""The most lines that each room of include/plumbline may have: `python perf/house_gate.py` compares, `--lower` lowers what can be lowered.

docs/house_lines.yaml holds a number for each room. A room above its number needs an entry below `raised` with the new number and the reason.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from house_counts import Checkout

ROOT = Path(__file__).resolve().parents[1]
FILE = Path("docs") / "house_lines.yaml"
_REASON_WORDS = 4
_HEADER = """\
# The most lines of each room of include/plumbline; tests/unit/perf/test_house_gate.py compares.
# A room that needs more gets an entry below `raised`, in the commit that needs it:
#   raised:
#     alerts: {lines: 2100, reason: messages can be sent to Microsoft Teams}
# `python perf/house_gate.py --lower` lowers the numbers to what the rooms have; it raises none.
"""


def problems(lines: Mapping[str, int], gate: Mapping[str, Any]) -> list[str]:
    """What is wrong with the rooms' lines, or with the gate itself; one sentence each."""
    found = [
        f"{room}: raised to {entry.get('lines')} without a reason; expected {{lines: N, reason: a sentence}}"
        for room, entry in raised(gate).items()
        if len(str(entry.get("reason") or "").split()) < _REASON_WORDS
    ]
    for room, count in sorted(lines.items()):
        if count > (most := most_lines(room, gate)):
            found.append(
                f"{room}: {count} lines, {count - most} more than {FILE} allows; remove some, or raise the number there with a reason"
            )
    return found


def lowered(lines: Mapping[str, int], gate: Mapping[str, Any]) -> dict[str, Any]:
    """The gate with each number as low as the rooms' lines allow; a room that is gone leaves it."""
    base = {room: min(most, lines[room]) for room, most in gate["lines"].items() if room in lines}
    needed = {room: entry for room, entry in raised(gate).items() if lines.get(room, 0) > gate["lines"].get(room, 0)}
    return {"lines": base, "raised": {room: {**entry, "lines": min(entry["lines"], lines[room])} for room, entry in needed.items()}}


def raised(gate: Mapping[str, Any]) -> dict[str, Any]:
    return gate.get("raised") or {}


def most_lines(room: str, gate: Mapping[str, Any]) -> int:
    """0 of a room that the gate does not name."""
    most: int = raised(gate).get(room, {}).get("lines") or gate["lines"].get(room, 0)
    return most


def read(root: Path) -> dict[str, Any]:
    gate: dict[str, Any] = yaml.safe_load((root / FILE).read_text(encoding="utf-8"))
    return gate


def main() -> int:
    parser = argparse.ArgumentParser(description="compare the lines of each room with docs/house_lines.yaml")
    parser.add_argument("--lower", action="store_true", help="lower the numbers to what the rooms have")
    lower = parser.parse_args().lower
    lines, gate = Checkout(ROOT).room_lines(), read(ROOT)
    if lower:
        gate = lowered(lines, gate)
        (ROOT / FILE).write_text(_HEADER + yaml.safe_dump(gate, sort_keys=False, allow_unicode=True, width=120), encoding="utf-8")
    print(f"{sum(lines.values()):,} lines; at most {sum(most_lines(room, gate) for room in {**gate['lines'], **raised(gate)}):,}")
    found = problems(lines, gate)
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
