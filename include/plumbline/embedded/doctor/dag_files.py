"""DAGs that the DAG files declare by name, read without running them: the doctor also works where Airflow cannot parse a file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from plumbline.airflow import dags
from plumbline.declarations import dag_ids

_FACTORIES = Path(dags.__file__).parent
_UNPAUSED = ("asked", "housekeeping")
"""Arguments of `airflow.defaults.defaults` with which a DAG runs by itself on a team server."""


def declared_dags(folder: Path) -> dict[str, bool]:
    """DAG → whether it runs by itself, of the factories that the folder's files call; not those that a loop makes, such as benchmarks.
    A file that is no Python has none."""
    found: dict[str, bool] = {}
    for file in sorted(folder.rglob("*.py")):
        try:
            tree = ast.parse(file.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        for name in (name for name in _built(tree) if name in dags.NAMES):
            found |= _declared(ast.parse((_FACTORIES / f"{name}.py").read_text(encoding="utf-8")))
    return found


def _built(tree: ast.Module) -> Iterator[str]:
    """The names with which a DAG file calls `build`."""
    if any(isinstance(node, ast.ImportFrom) and node.module == dags.__name__ for node in tree.body):
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call) and _name(node.func) == "build"):
            yield from (str(word.value) for word in call.args[:1] if isinstance(word, ast.Constant))


def _declared(tree: ast.Module) -> dict[str, bool]:
    """DAG → whether it runs by itself, of each function with `@dag(**named(…_DAG))` of a factory's module."""
    found: dict[str, bool] = {}
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        for call in (d for d in function.decorator_list if isinstance(d, ast.Call) and _name(d.func) == "dag"):
            for name in _named(call):
                found[str(getattr(dag_ids, name))] = any(
                    word.arg in _UNPAUSED and isinstance(word.value, ast.Constant) and word.value.value is True
                    for inner in ast.walk(call)
                    if isinstance(inner, ast.Call) and _name(inner.func) == "defaults"
                    for word in inner.keywords
                )
    return found


def _named(call: ast.Call) -> Iterator[str]:
    """The constant in `**named(CONSTANT)`."""
    for word in call.keywords:
        if word.arg is None and isinstance(word.value, ast.Call) and _name(word.value.func) == "named":
            yield from (given.id for given in word.value.args if isinstance(given, ast.Name))


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""
