"""Names in the docstrings of include/plumbline exist: `name` in back-ticks, and words such as ValueError that are written like a class."""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.source_trees import source_tree

PACKAGE = Path(__file__).resolve().parents[2] / "include" / "plumbline"
QUOTED = re.compile(r"`([^`]+)`")
NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?:\(\))?")
CLASS_LIKE = re.compile(r"\b[A-Z]+[a-z0-9]+(?:[A-Z]+[a-z0-9]+)+\b")
FILE = re.compile(r".+\.(csv|html|json|jsonl|md|parquet|py|toml|txt|yaml)")
LIBRARIES = {*sys.stdlib_module_names, "torch"}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

# Rooms whose classes' fields are words of users: what they declare and what a stored document says.
USER_ROOMS = ("declarations", "results", "formats", "metrics")
# Names of other programs, of protocols and of people.
# fmt: off
KNOWN = {
    "AsyncEngineArgs", "DataFrame", "DeepSpeed", "DerSimonian", "InfiniBand", "JobSet", "ModelInfer",
    "ModelStreamInfer", "NumPy", "OpenCost", "PodSpec", "PyTorch", "ReadTimeoutError", "ResourceSlices",
    "RpcError", "SelfSubjectRulesReview", "TensorBoard", "ValidationError", "patchMergeKey",
}
# fmt: on


@dataclass
class House:
    """`public`: what a docstring anywhere may name. `fields`: of USER_ROOMS. `members`: class or module to the names inside it. `bases`: class to its base classes."""

    public: set[str] = field(default_factory=set, repr=False)
    fields: set[str] = field(default_factory=set, repr=False)
    members: dict[str, set[str]] = field(default_factory=dict, repr=False)
    bases: dict[str, set[str]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.trees = {path: source_tree(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}
        for path, tree in self.trees.items():
            self._collect(path, tree)

    def _collect(self, path: Path, tree: ast.Module) -> None:
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        parts = parts[:-1] if path.stem == "__init__" else parts
        module, named = parts[-1], top_names(tree)
        self.public |= {name for name in named if not name.startswith("_")} | {".".join(parts[start:]) for start in range(len(parts))}
        self.members.setdefault(module, set()).update(named)
        texts = docstrings(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                self.members.setdefault(node.name, set()).update(inside(node))
                self.bases.setdefault(node.name, set()).update(n.id for b in node.bases for n in ast.walk(b) if isinstance(n, ast.Name))
                if path.relative_to(PACKAGE).parts[0] in USER_ROOMS:
                    self.fields |= {b.target.id for b in node.body if isinstance(b, ast.AnnAssign) and isinstance(b.target, ast.Name)}
                    self.public |= self.fields
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in texts:
                self.public.add(node.value)

    def unknown(self, path: Path, tree: ast.Module) -> Iterator[str]:
        """`file: owner: name` of each name in a docstring that nothing has."""
        for owner, text, around in documented(tree):
            quoted = {name.removesuffix("()") for name in QUOTED.findall(text) if NAME.fullmatch(name) and not FILE.fullmatch(name)}
            names = sorted((quoted | set(CLASS_LIKE.findall(QUOTED.sub("", text)))) - self.public - KNOWN)
            if names:
                own = top_names(tree).union(*map(inside, around))
                yield from (f"{path.name}: {owner}: {name}" for name in names if not self.exists(name, own))

    def exists(self, name: str, own: set[str]) -> bool:
        parts = name.split(".")
        if name in own or hasattr(builtins, name) or (parts[1:] and parts[0] in LIBRARIES):
            return True
        holder = parts[-2] if parts[1:] else ""
        if holder in self.members and self.has(holder, parts[-1]):
            return True
        return bool(holder) and not holder[0].isupper() and (set(parts) <= own or set(parts) <= self.fields)

    def has(self, holder: str, name: str) -> bool:
        """Whether a class, one of its bases, or a module has the name."""
        return name in self.members[holder] or any(self.has(base, name) for base in self.bases.get(holder, ()) if base in self.members)


def docstrings(tree: ast.AST) -> set[int]:
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, DOCUMENTED)]
    return {id(body[0].value) for body in bodies if body and isinstance(body[0], ast.Expr)}


def top_names(tree: ast.Module) -> set[str]:
    return {name for node in tree.body for name in defined(node)}


def defined(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield node.name
    elif isinstance(node, ast.AnnAssign | ast.Assign):
        targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
        yield from (n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name))
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.split(".")[0] for alias in node.names)


def inside(node: ast.AST) -> set[str]:
    """Identifiers in the node's code, and the words of its texts that are no docstring."""
    texts, words = docstrings(node), set()
    for n in ast.walk(node):
        match n:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                words.add(name)
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                words.add(name)
            case ast.alias(name=name, asname=other):
                words |= {*name.split("."), other or name}
            case ast.ImportFrom(module=str(name)):
                words |= set(name.split("."))
            case ast.Constant(value=str(text)) if id(n) not in texts:
                words |= set(re.findall(r"\w+", text))
    return words


def documented(node: ast.AST, around: tuple[ast.AST, ...] = ()) -> Iterator[tuple[str, str, tuple[ast.AST, ...]]]:
    """Name and docstring of each owner, and the code whose names it may use beside public ones: its own and that of the classes around it."""
    if isinstance(node, DOCUMENTED):
        if text := ast.get_docstring(node):
            yield getattr(node, "name", "module"), text, (*around, node)
        around = () if isinstance(node, ast.Module) else (*around, node)
    for child in ast.iter_child_nodes(node):
        yield from documented(child, around)


@pytest.fixture(scope="module")
def house() -> House:
    return House()


def test_each_name_in_a_docstring_exists(house: House) -> None:
    assert [problem for path, tree in house.trees.items() for problem in house.unknown(path, tree)] == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Sum of `amounts_of`.", "amounts_of"),
        ("Raises BadAmount.", "BadAmount"),
        ("As `Archive.forgotten`.", "Archive.forgotten"),
        ("See `recording.remembered`.", "recording.remembered"),
        ("Uses `held_s` of the caller.", "held_s"),
    ],
)
def test_a_planted_name_is_found(house: House, text: str, name: str) -> None:
    tree = source_tree(f'def total(amounts: list[float]) -> float:\n    """{text}"""\n    return sum(amounts)\n\n\nx = f(held_s=1)\n')
    assert list(house.unknown(PACKAGE / "planted.py", tree)) == [f"planted.py: total: {name}"]


def test_own_and_public_names_are_known(house: House) -> None:
    text = "`amounts`, `Archive.prices`, `recording.record`, `first.json`, ValueError, `pattern *`, `driver.version`"
    tree = source_tree(f'def total(amounts: list[float]) -> float:\n    """{text}"""\n    return sum(amounts)\n')
    assert list(house.unknown(PACKAGE / "planted.py", tree)) == []
