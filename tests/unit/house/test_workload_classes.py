"""Workloads are asked, not sorted by their class: isinstance of one is rare, and only in declarations, kinds and harness."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import get_args

import pytest
from tests.source_trees import source_tree

import plumbline
from plumbline.declarations import AnyWorkload
from plumbline.declarations.workloads.workload import Workload

PACKAGE = Path(plumbline.__file__).parent
ROOMS, MOST = {"declarations", "kinds", "harness"}, 20
CLASSES = {"AnyWorkload"} | {base.__name__ for cls in get_args(AnyWorkload) for base in cls.__mro__ if issubclass(base, Workload)}
"""The classes of workloads and the bases that they share."""


def asked(sources: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    """File and line of each place that asks a value for the class of a workload: isinstance, a pattern of match, or a comparison of its type."""
    for file, text in sources.items():
        for node in ast.walk(source_tree(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
                wanted: ast.AST = node.args[1]
            elif isinstance(node, ast.MatchClass):
                wanted = node.cls
            elif isinstance(node, ast.Compare) and isinstance(node.left, ast.Call) and ast.unparse(node.left.func) == "type":
                wanted = ast.Tuple(node.comparators)
            else:
                continue
            if CLASSES & {name for each in ast.walk(wanted) if (name := getattr(each, "id", getattr(each, "attr", None))) is not None}:
                yield file, node.lineno


def violations(sources: Mapping[str, str]) -> list[str]:
    found = list(asked(sources))
    outside = [f"{file}:{line}: asks for the class of a workload" for file, line in found if file.partition("/")[0] not in ROOMS]
    many = Counter(file for file, _ in found)
    return [
        *outside,
        *([f"{len(found)} places ask for the class of a workload; expected at most {MOST}: {many}"] if len(found) > MOST else []),
    ]


def shipped() -> dict[str, str]:
    return {str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}


def test_classes_of_workloads_are_asked_for_in_three_rooms_and_rarely() -> None:
    assert violations(shipped()) == []
    assert {"TrainingJob", "TrainingWorkload", "ScriptWorkload", "ContainerWorkload", "InferenceWorkload", "Workload"} <= CLASSES


@pytest.mark.parametrize(
    "planted",
    [
        "found = isinstance(workload, InferenceWorkload)",
        "found = [\n    w for w in all_of_them\n    if isinstance(\n        w.workload,\n        declarations.TrainingJob | None,\n    )\n]",
        "found = isinstance(workload, (int, ScriptWorkload))",
        "match workload:\n    case ContainerWorkload():\n        found = 1",
        "found = type(workload) is TrainingWorkload",
    ],
)
def test_a_planted_violation_is_found(planted: str) -> None:
    assert violations({"analysis/planted.py": planted}) != []
    assert violations({"harness/planted.py": planted}) == []
    assert violations({f"harness/planted_{i}.py": planted for i in range(MOST + 1)}) != []


def test_other_classes_are_asked_for_anywhere() -> None:
    assert violations({"analysis/planted.py": "found = isinstance(workload.model, Checkpoint) and type(x) is int"}) == []
