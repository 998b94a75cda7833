"""Names of a package that are imported when they are first asked for: who needs one module of it does not wait for the others.

The package's file lists them once, as imports that only a type checker sees:

    if TYPE_CHECKING:
        from plumbline.results.store import ResultStore
    else:
        __getattr__ = names_on_demand(__name__)
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def names_on_demand(package: str) -> Callable[[str], Any]:
    """What a package answers when it is asked for a name (PEP 562); an unknown name is an AttributeError, as of any module."""
    homes = _listed(package)

    def of_package(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return of_package


def _listed(package: str) -> dict[str, str]:
    """Name → module, from the package's own imports below `if TYPE_CHECKING:`."""
    spec = find_spec(package)
    source = spec.loader.get_source(package) if spec and spec.loader else None  # type: ignore[attr-defined]
    if source is None:
        raise ImportError(f"{package} was installed without its source; expected __init__.py beside its modules")
    blocks = [node.body for node in ast.parse(source).body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    return {
        name.asname or name.name: str(node.module)
        for body in blocks
        for node in body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
