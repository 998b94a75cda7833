"""Answers read the archive and write nothing: no row, no file."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from tests.source_trees import source_tree

import plumbline

PACKAGE = Path(plumbline.__file__).parent
WRITES_ROWS = frozenset(re.findall(r"^    (\w+) = writes\(", (PACKAGE / "archive" / "archive.py").read_text(), re.MULTILINE)) | {"import_"}
WRITES_FILES = frozenset({"mkdir", "open", "rename", "replace_file", "rmtree", "touch", "unlink", "write", "write_bytes", "write_text"})


def writes_of(source: str) -> list[str]:
    """The calls by which a file would write, such as `archive.add_audit` in line 3."""
    found = []
    for node in ast.walk(source_tree(source)):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in WRITES_ROWS or name in WRITES_FILES:
                found.append(f"{name} in line {node.lineno}")
    return found


def test_the_archive_says_which_of_its_methods_write() -> None:
    assert {"record", "add_audit", "save_findings", "accept_price", "set_finding_state"} <= WRITES_ROWS
    assert not {"findings_of", "prices", "samples", "document"} & WRITES_ROWS


@pytest.mark.parametrize("file", sorted((PACKAGE / "answers").rglob("*.py")), ids=lambda file: file.stem)
def test_an_answer_writes_nothing(file: Path) -> None:
    assert writes_of(file.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "line",
    ["archive.add_audit(who='a', what='b')", "archive.save_findings([])", "Path('x').write_text('y')", "open('x', 'w')"],
)
def test_a_planted_write_is_found(line: str) -> None:
    source = (PACKAGE / "answers" / "held_spans.py").read_text(encoding="utf-8")
    assert writes_of(f"{source}\n\ndef late(archive):\n    {line}\n")
