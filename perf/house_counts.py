"""Counts of code readability: `python perf/house_counts.py [ROOT …]`, one column for each checkout.

Product is include/plumbline. A line of code is neither blank nor a comment nor part of a docstring. The lines of each room follow.
"""

from __future__ import annotations

import ast
import io
import statistics
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

PACKAGE = "plumbline"
_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
_STORES_A_PRICE = {"accept_price", "prices.add"}
_ABOVE = ("cli", "dashboard")
_CHANGES_A_FINDING = {"continue_finding", "findings.update"}
_SENTENCE_WORDS = 4


class Checkout:
    def __init__(self, root: Path) -> None:
        self.product = {p: p.read_text() for p in sorted((root / "include" / PACKAGE).rglob("*.py"))}
        self.tests = {p: p.read_text() for p in sorted((root / "tests").rglob("*.py"))}
        self.names = {p: _module(p, root / "include") for p in self.product}

    @cached_property
    def trees(self) -> dict[Path, ast.Module]:
        """Of both: seconds that the count of lines need not wait for."""
        return {p: ast.parse(text) for p, text in (self.product | self.tests).items()}

    def counts(self) -> dict[str, int | float]:
        """Count name to value."""
        code = [n for text in self.product.values() if (n := code_lines(text))]
        return {
            "product lines": sum(len(text.splitlines()) for text in self.product.values()),
            "product files": len(self.product),
            "lines of code": sum(code),
            "median lines of code of a file": statistics.median(code),
            "own imports inside functions": sum(len(list(_inner_imports(self.trees[p]))) for p in self.product),
            "circles of modules": len(self.circles()),
            "isinstance of launchers outside the registry": sum(self._launcher_checks()),
            "functions that accept a price": len(self._accepting()),
            "functions that reconcile findings": len(self._callers(_CHANGES_A_FINDING)),
            "assertions that match sentences": sum(len(list(_sentences(self.trees[p]))) for p in self.tests),
        }

    def room_lines(self) -> dict[str, int]:
        """Lines of each room."""
        lines: Counter[str] = Counter()
        for path, text in self.product.items():
            if room := self.names[path].partition(".")[2].partition(".")[0]:
                lines[room] += len(text.splitlines())
        return dict(lines)

    def circles(self) -> list[list[str]]:
        """Groups of modules with circular imports, at any depth of their code; packages' re-exports count as imports of the package."""
        known = set(self.names.values())
        graph = {name: {m for m in _imported(self.trees[p], known) if m != name} for p, name in self.names.items()}
        return [group for group in _strongly_connected(graph) if len(group) > 1]

    def _launcher_checks(self) -> Iterator[int]:
        for path in self.product:
            if path.stem == "registry":
                continue
            for node in ast.walk(self.trees[path]):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance" and len(node.args) > 1:
                    kinds = [n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)]
                    yield int(any(kind.endswith("Launcher") for kind in kinds))

    def _accepting(self) -> set[str]:
        """Functions below the commands and pages that accept a price: those that store it, and their callers."""
        names = set(_STORES_A_PRICE)
        while more := {short for name in self._callers(names) if "accept" in (short := name.rpartition(":")[2])} - names:
            names |= more
        return {name for name in self._callers(names) if "accept" in name.rpartition(":")[2]}

    def _callers(self, called: set[str]) -> set[str]:
        """Functions outside the archive, the commands and the pages that call one of these, as `path:name`."""
        callers = set()
        for path, module in self.names.items():
            if module.split(".")[1:2] and module.split(".")[1] in (*_ABOVE, "archive"):
                continue
            for node in ast.walk(self.trees[path]):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    calls = {ast.unparse(n.func) for n in ast.walk(node) if isinstance(n, ast.Call)}
                    if any(call == name or call.endswith(f".{name}") for call in calls for name in called):
                        callers.add(f"{module}:{node.name}")
        return callers


def code_lines(text: str) -> int:
    docstrings = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docstrings |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    used = {line for t in tokens if t.type not in _NO_CODE for line in range(t.start[0], t.end[0] + 1)}
    return len(used - docstrings)


def _module(path: Path, above: Path) -> str:
    parts = path.relative_to(above).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(tree: ast.AST) -> Iterator[ast.ImportFrom | ast.Import]:
    for node in ast.walk(tree):
        if (isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == PACKAGE) or (
            isinstance(node, ast.Import) and any(a.name.split(".")[0] == PACKAGE for a in node.names)
        ):
            yield node


def _inner_imports(tree: ast.AST) -> Iterator[ast.AST]:
    """Imports of our own modules inside functions."""
    imports = set()
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in _imports(function):
                if id(node) not in imports:
                    imports.add(id(node))
                    yield node


def _imported(tree: ast.AST, known: set[str]) -> set[str]:
    modules = set()
    for node in _imports(tree):
        if isinstance(node, ast.Import):
            modules |= {a.name for a in node.names if a.name in known}
            continue
        for alias in node.names:
            full = f"{node.module}.{alias.name}"
            modules.add(full if full in known else str(node.module))
    return modules & known


def _strongly_connected(graph: dict[str, set[str]]) -> list[list[str]]:
    """Tarjan's algorithm, without recursion."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups = []
    for root in graph:
        work = [(root, iter(sorted(graph[root])))] if root not in index else []
        if work:
            index[root] = low[root] = len(index)
            stack.append(root)
        while work:
            node, successors = work[-1]
            for successor in successors:
                if successor not in index:
                    index[successor] = low[successor] = len(index)
                    stack.append(successor)
                    work.append((successor, iter(sorted(graph[successor]))))
                    break
                if successor in stack:
                    low[node] = min(low[node], index[successor])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    at = stack.index(node)
                    groups.append(stack[at:])
                    del stack[at:]
    return groups


def _sentences(tree: ast.AST) -> Iterator[ast.AST]:
    """Assertions that compare sentences: `match=` of a raised error, and a literal in an `assert`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "match":
            if any(_is_sentence(n) for n in ast.walk(node.value)):
                yield node
        elif isinstance(node, ast.Assert) and any(_is_sentence(n) for n in ast.walk(node.test)):
            yield node


def _is_sentence(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value.split()) >= _SENTENCE_WORDS


def main(roots: list[Path]) -> None:
    checkouts = [Checkout(root) for root in roots]
    columns = [each.counts() | {f"  lines of {room}": lines for room, lines in each.room_lines().items()} for each in checkouts]
    for name in dict.fromkeys(name for column in columns for name in column):
        print(f"{name:46}" + "".join(f"{column.get(name, 0):>12,}" for column in columns))


if __name__ == "__main__":
    main([Path(a) for a in sys.argv[1:]] or [Path(__file__).resolve().parents[1]])
