"""DAGs that the DAG files declare by name, read without running them: the doctor also works where Airflow cannot parse a file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

_UNPAUSED = ("asked", "housekeeping")
"""Arguments of `airflow.defaults.defaults` with which a DAG runs by itself on a team server."""


def declared_dags(folder: Path) -> dict[str, bool]:
    """DAG → whether it runs by itself, of each function with `@dag` at the top of a file; not those that a loop makes, such as benchmarks.
    A file that is no Python has none."""
    found: dict[str, bool] = {}
    for file in sorted(folder.glob("*.py")):
        try:
            tree = ast.parse(file.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        for function in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
            for call in (d for d in function.decorator_list if isinstance(d, ast.Call) and _name(d.func) == "dag"):
                found[_id_of(call, tree) or function.name] = any(
                    word.arg in _UNPAUSED and isinstance(word.value, ast.Constant) and word.value.value is True
                    for inner in ast.walk(call)
                    if isinstance(inner, ast.Call) and _name(inner.func) == "defaults"
                    for word in inner.keywords
                )
    return found


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _id_of(call: ast.Call, tree: ast.Module) -> str | None:
    """The `dag_id`, also where it is one of our constants; None if the call has none."""
    given = next((word.value for word in call.keywords if word.arg == "dag_id"), call.args[0] if call.args else None)
    if isinstance(given, ast.Constant):
        return str(given.value)
    if isinstance(given, ast.Name):
        return next((str(getattr(import_module(module), given.id)) for module in _ours(tree, given.id)), None)
    return None


def _ours(tree: ast.Module, name: str) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("plumbline.") and any(a.name == name for a in node.names):
            yield str(node.module)
