"""`declarations/storage.py` says where everything that is written lies: a module that writes files and is not on it fails here."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from tests.documented import ROOT
from tests.source_trees import source_tree

from plumbline.declarations.storage import PLACES, SHARED, SHELVES, listed_writers, shelf_prefix

PACKAGE = ROOT / "include" / "plumbline"
_CALLS = {
    *("write_text", "write_bytes", "write_whole", "whole_file", "touch", "mkdir", "makedirs", "hardlink_to", "symlink_to"),
    *(
        "copyfile",
        "copyfileobj",
        "copytree",
        "copy2",
        "extractall",
        "ZipFile",
        "memmap",
        "to_parquet",
        "to_csv",
        "write_table",
        "pipe_file",
    ),
    *("mkdtemp", "mkstemp", "TemporaryDirectory", "NamedTemporaryFile", "TemporaryFile", "FileHandler", "RotatingFileHandler"),
}
_SAVES = {"torch", "np", "numpy"}
_FLAGS = ("O_CREAT", "O_WRONLY", "O_RDWR")
_LAST = {"whole_file"}
"""What writes for others: its callers are on the list."""
_IN_THE_BUCKET = {"embedded.result_bucket"}
"""Makes the bucket itself."""


def writing_calls(source: str) -> Iterator[str]:
    for node in ast.walk(source_tree(source)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id if isinstance(node.func, ast.Name) else ""
        owner = node.func.value.id if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) else ""
        arguments = [*node.args, *(k.value for k in node.keywords if k.arg == "mode")]
        if isinstance(node.func, ast.Name):
            arguments = arguments[1:]  # the file itself
        opens = name in ("open", "fdopen") and any(_is_for_writing(argument) for argument in arguments)
        if name in _CALLS or opens or (name == "save" and owner in _SAVES):
            yield name


def _is_for_writing(argument: ast.expr) -> bool:
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        return len(argument.value) <= 3 and set(argument.value) <= set("rwaxbt+") and bool(set(argument.value) & set("wax+"))
    return any(flag in ast.unparse(argument) for flag in _FLAGS)


def writers() -> set[str]:
    found = set()
    for path in PACKAGE.rglob("*.py"):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        if any(writing_calls(path.read_text(encoding="utf-8"))):
            found.add(name)
    return found - _LAST - _IN_THE_BUCKET


def _is_listed(name: str, listed: set[str]) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in listed)


def test_every_writer_of_files_is_listed_with_its_place() -> None:
    listed = set(listed_writers())
    assert [name for name in sorted(writers()) if not _is_listed(name, listed)] == [], "declarations/storage.py says where it writes"


def test_every_listed_writer_exists() -> None:
    names = {".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__") for path in PACKAGE.rglob("*.py")}
    assert set(listed_writers()) - names == set()
    found = writers()
    idle = [one for one in listed_writers() if not any(_is_listed(name, {one}) for name in found)]
    assert idle == [], "listed, but writes no file any more"


@pytest.mark.parametrize(
    "call", ['Path("x").write_text("y")', 'open("x", "ab")', "os.open(x, os.O_CREAT | os.O_RDWR)", "np.save(x, y)", "x.mkdir()"]
)
def test_the_walk_finds_a_new_writer(call: str) -> None:
    assert list(writing_calls(f"def f():\n    {call}\n")) and not list(writing_calls('def f():\n    open("x")\n    y.open("rb")\n'))
    assert not _is_listed("alerts.new_channel", set(listed_writers()))


def test_the_operators_page_shows_the_decision() -> None:
    page = " ".join((ROOT / "docs" / "operate.md").read_text(encoding="utf-8").split())
    missing = [place.what for place in PLACES if f"| {place.what} |" not in page or f"| {place.if_lost} |" not in page]
    assert missing == []
    assert all(f"`{shelf_prefix(kind)}/" in page for kind in SHELVES) and set(SHARED) < {place.lies for place in PLACES} | {"store"}
