"""One name for one class: two classes share a name only for a listed reason."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest
from tests.source_trees import source_tree

import plumbline

PACKAGE = Path(plumbline.__file__).parent
TABLES = "archive/schema.py"
_DECLARED = ("declarations/workloads/", "harness/")
REASONS: Mapping[str, Callable[[Sequence[str]], bool]] = {
    "a table has the name of what it stores": lambda files: len(files) == 2 and TABLES in files,
    "the harness carries out the fault or the learner that a workload declares": lambda files: (
        len(files) == 2 and any(f.startswith(_DECLARED[0]) for f in files) and any(f.startswith(_DECLARED[1]) for f in files)
    ),
    "modules of a network: each model file stands alone, as Triton copies it": lambda files: all(
        "/models/" in f or f == "declarations/workloads/models.py" for f in files
    ),
}
ALONE = {
    "Interrupted": "the harness runs where the launcher cannot be imported",
    "Step": "the reporter imports nothing of ours",
}
"""Names that two classes share for a reason of their own."""

BARE = {"Observation", "Acceptance", "Reconciler", "Reconciled", "Watch", "Uptime"}
"""Words of several things, which the glossary of CONTRIBUTING.md tells apart: a class says of which one it is."""


@cache
def public_classes(text: str) -> tuple[str, ...]:
    return tuple(n.name for n in ast.walk(source_tree(text)) if isinstance(n, ast.ClassDef) and not n.name.startswith("_"))


def classes(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Public name → files that define a class of it."""
    found: dict[str, list[str]] = defaultdict(list)
    for file, text in sources.items():
        for name in public_classes(text):
            found[name].append(file)
    return found


def shared(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Names of several classes for which no reason is listed."""
    several = {name: files for name, files in classes(sources).items() if len(files) > 1 and name not in ALONE}
    return {name: files for name, files in several.items() if not any(reason(files) for reason in REASONS.values())}


@pytest.fixture(scope="module")
def ours() -> dict[str, str]:
    return {str(file.relative_to(PACKAGE)): file.read_text() for file in PACKAGE.rglob("*.py")}


def test_a_name_is_of_one_class(ours: dict[str, str]) -> None:
    assert shared(ours) == {}


def test_each_listed_name_is_shared(ours: dict[str, str]) -> None:
    found = classes(ours)
    assert [name for name in ALONE if len(found[name]) < 2] == []


def test_each_reason_has_a_case(ours: dict[str, str]) -> None:
    several = [files for files in classes(ours).values() if len(files) > 1]
    assert [words for words, reason in REASONS.items() if not any(map(reason, several))] == []


def bare(sources: Mapping[str, str]) -> list[str]:
    return sorted(BARE & classes(sources).keys())


def test_a_word_of_several_things_is_qualified(ours: dict[str, str]) -> None:
    assert bare(ours) == []
    assert bare({**ours, "results/planted.py": "class Observation:\n    pass\n"}) == ["Observation"]


@pytest.mark.parametrize(
    ("file", "name"), [("analysis/planted.py", "MetricRow"), ("results/planted.py", "Outage"), ("findings/planted.py", "CheckpointKill")]
)
def test_a_second_class_of_a_name_is_found(ours: dict[str, str], file: str, name: str) -> None:
    assert list(shared({**ours, file: f"class {name}:\n    pass\n"})) == [name]


def test_a_private_class_may_repeat_a_name(ours: dict[str, str]) -> None:
    assert shared({**ours, "analysis/planted.py": "class _MetricRow:\n    pass\n"}) == {}
