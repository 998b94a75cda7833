"""The catalogue of metrics cannot change: what a process read before never decides what a metric is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.source_trees import source_tree

import plumbline
from plumbline.metrics import METRICS, Metric, metric_of, own_metric, with_own
from plumbline.results.sample import RepeatValue

PACKAGE = Path(plumbline.__file__).parent
ROOM = "metrics/__init__.py"
_CHANGES = frozenset({"pop", "popitem", "update", "setdefault", "clear", "__setitem__", "__delitem__", "__ior__"})
_LID = own_metric("lid_rate", "1/s", "higher_is_better")


def changes_of(source: str, file: str) -> list[str]:
    """The statements of a file that would change the catalogue, such as `METRICS[name] = …` in line 3; in its own room also those of a function
    that would let another table of the module grow."""
    tree = source_tree(source)
    imported = [alias for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names]
    names = {"METRICS"} | {alias.asname for alias in imported if alias.name == "METRICS" and alias.asname}
    if file == ROOM:
        assigned = [target for node in tree.body for target in _targets(node)]
        names |= {target.id for target in assigned if isinstance(target, ast.Name)}

    def is_catalogue(node: ast.AST) -> bool:
        return (isinstance(node, ast.Name) and node.id in names) or (isinstance(node, ast.Attribute) and node.attr == "METRICS")

    found = []
    for node in ast.walk(tree):
        for target in _targets(node):
            whole = is_catalogue(target) and not (file == ROOM and node in tree.body)
            if whole or (isinstance(target, ast.Subscript) and is_catalogue(target.value)):
                found.append(f"{ast.unparse(target)} is assigned in line {target.lineno}")
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _CHANGES
            and is_catalogue(node.func.value)
        ):
            found.append(f"{ast.unparse(node.func)} is called in line {node.lineno}")
    return found


def _targets(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Assign | ast.Delete):
        yield from node.targets
    elif isinstance(node, ast.AnnAssign | ast.AugAssign):
        yield node.target


def test_nothing_changes_the_catalogue() -> None:
    files = {str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
    assert ROOM in files
    assert {file: found for file, text in files.items() if "METRICS" in text and (found := changes_of(text, file))} == {}


@pytest.mark.parametrize(
    "planted",
    [
        "METRICS[name] = known",
        "METRICS = {}",
        "del METRICS[name]",
        "METRICS.update(own)",
        "METRICS.setdefault(name, known)",
        "metrics.METRICS[name] = known",
        "METRICS |= own",
    ],
)
@pytest.mark.parametrize("file", ["declarations/workloads/container.py", ROOM])
def test_a_planted_change_is_found(planted: str, file: str) -> None:
    source = (PACKAGE / file).read_text(encoding="utf-8")
    assert changes_of(f"{source}\n\ndef declare(name, known, own):\n    {planted}\n", file)


def test_a_second_table_of_the_room_may_not_grow() -> None:
    source = (PACKAGE / ROOM).read_text(encoding="utf-8")
    grows = f"{source}\n_OTHERS: dict[str, Metric] = {{}}\n\n\ndef declare(name, known):\n    _OTHERS[name] = known\n"
    assert changes_of(grows, ROOM) and changes_of(source, ROOM) == []


def test_python_refuses_too() -> None:
    for catalogue in (METRICS, with_own([_LID])):
        with pytest.raises(TypeError):
            catalogue["lid_rate"] = _LID  # type: ignore[index]
        assert not hasattr(catalogue, "pop") and not hasattr(catalogue, "update")


def test_own_metrics_of_one_name_stay_apart() -> None:
    timed = own_metric("lid_rate", "s", "lower_is_better")
    for known in (timed, _LID, timed):
        number = RepeatValue("lid_rate", "value", "steady", known.unit, known.direction, "02:00", 1, 1.0)
        assert metric_of(number) == with_own([known])["lid_rate"] == known
    assert "lid_rate" not in METRICS


@pytest.mark.parametrize("own", [_LID, own_metric("step_time", "s", "lower_is_better")])
def test_a_number_of_the_catalogue_is_its_row(own: Metric) -> None:
    assert own.declared is (own.name not in METRICS)
    with pytest.raises(ValueError, match="expected these, or another name"):
        own_metric("step_time", "count", "lower_is_better")
