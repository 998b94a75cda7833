"""The stored kind and subject of a finding are parsed by the types of findings alone, and by `results`, whose wire format they are."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import get_args

import pytest
from tests.source_trees import source_tree

import plumbline
from plumbline.findings.types.base import TYPES
from plumbline.results.finding import FindingKind

PACKAGE = Path(plumbline.__file__).parent
KINDS = frozenset(get_args(FindingKind))
SUBJECTS = frozenset(known.subject for known in TYPES)
READERS = ("findings/types/", "results/")
_PARSERS = ("startswith", "removeprefix", "partition", "split")


def parsed(source: str) -> list[str]:
    """Where a file parses a stored kind or subject: a comparison of `.kind` with a kind of finding, of `.subject` with a text, or its parts."""
    found = []
    for node in ast.walk(source_tree(source)):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            names = {side.attr for side in sides if isinstance(side, ast.Attribute)}
            texts = {c.value for side in sides for c in ast.walk(side) if isinstance(c, ast.Constant) and isinstance(c.value, str)}
            if ("kind" in names and texts & KINDS) or ("subject" in names and texts & SUBJECTS):
                found.append(f"line {node.lineno}")
        elif isinstance(node, ast.Attribute) and node.attr in _PARSERS and getattr(node.value, "attr", "") == "subject":
            found.append(f"line {node.lineno}")
    return found


def files() -> list[Path]:
    return [path for path in sorted(PACKAGE.rglob("*.py")) if not path.relative_to(PACKAGE).as_posix().startswith(READERS)]


def test_no_other_file_parses_them() -> None:
    found = {path.relative_to(PACKAGE).as_posix(): lines for path in files() if (lines := parsed(path.read_text(encoding="utf-8")))}
    assert not found, found


@pytest.mark.parametrize(
    "line",
    [
        "finding.kind == 'performance'",
        "view.kind in ('price', 'reliability')",
        "finding.subject == 'launches'",
        "finding.subject.startswith('node/')",
        "finding.subject.removeprefix('outage/')",
    ],
)
def test_a_planted_parse_is_found(line: str) -> None:
    assert parsed(f"def late(finding, view):\n    return {line}\n") == ["line 2"]
