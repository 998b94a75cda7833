"""Authors of the audit log: whoever writes it for the program is known as no person."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.source_trees import source_tree

import plumbline
from plumbline.archive.audit import PROGRAM_AUTHORS

PACKAGE = Path(plumbline.__file__).parent


def named_authors(source: str) -> Iterator[str]:
    """Texts that code gives as `by` or `who`, their defaults, and constants called AUTHOR."""
    for node in ast.walk(source_tree(source)):
        if (isinstance(node, ast.keyword) and node.arg in ("by", "who")) or (
            isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id.endswith("AUTHOR") for t in node.targets)
        ):
            values = [node.value]
        elif isinstance(node, ast.FunctionDef):
            own, given = [*node.args.posonlyargs, *node.args.args], node.args.defaults
            named = [*zip(own[len(own) - len(given) :], given, strict=True), *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)]
            values = [value for argument, value in named if argument.arg in ("by", "who") and value is not None]
        else:
            continue
        yield from (value.value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str) and value.value)


def test_every_author_that_the_code_names_is_the_program_s() -> None:
    found = {name for path in PACKAGE.rglob("*.py") for name in named_authors(path.read_text(encoding="utf-8"))}
    assert {"drift", "invoice", "ranking"} <= found and found - PROGRAM_AUTHORS == set()


def test_a_planted_author_is_found() -> None:
    source = 'write_entry(session, who="watchman")\ndef save(*, by: str = "guard"): ...\nAUTHOR = "keeper"'
    assert sorted(named_authors(source)) == ["guard", "keeper", "watchman"]
