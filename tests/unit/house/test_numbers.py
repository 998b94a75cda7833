"""A measured value has few classes: a further one that declares it with its interval, or with its metric and statistic, is found."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest
from tests.source_trees import source_tree

import plumbline

PACKAGE = Path(plumbline.__file__).parent
FORMS = {"MetricRow", "Point", "RepeatValue", "Estimate"}
"""Classes of one value; `MetricComparison`, the fifth form, is of two campaigns and declares none."""
OTHERS = {"Metric": "the table of metric rows", "CriterionVerdict": "what a criterion says about a value, with its limit"}
ENDS = {"low", "high", "ci_low", "ci_high"}


@cache
def value_classes(text: str) -> tuple[str, ...]:
    """Names of classes whose own fields are a value with an end of its interval, or with its metric and statistic."""
    found = []
    for node in ast.walk(source_tree(text)):
        if isinstance(node, ast.ClassDef):
            fields = {part.target.id for part in node.body if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)}
            if "value" in fields and (fields & ENDS or {"metric", "statistic"} <= fields):
                found.append(node.name)
    return tuple(found)


def values(sources: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for file, text in sources.items():
        for name in value_classes(text):
            yield file, name


def further(sources: Mapping[str, str]) -> list[str]:
    return [f"{file}: {name}" for file, name in values(sources) if name not in FORMS | OTHERS.keys()]


@pytest.fixture(scope="module")
def ours() -> dict[str, str]:
    return {str(file.relative_to(PACKAGE)): file.read_text() for file in PACKAGE.rglob("*.py")}


def test_a_value_has_few_forms(ours: dict[str, str]) -> None:
    assert further(ours) == []
    assert {name for _, name in values(ours)} == FORMS | OTHERS.keys()


@pytest.mark.parametrize("fields", ["value: float\n    low: float | None", "metric: str\n    statistic: str\n    value: float"])
def test_a_further_form_is_found(ours: dict[str, str], fields: str) -> None:
    planted = {**ours, "analysis/planted.py": f"class Planted:\n    {fields}\n"}
    assert further(planted) == ["analysis/planted.py: Planted"]
