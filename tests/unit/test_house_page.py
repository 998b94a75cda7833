"""docs/house.md and docs/read-the-code.md name files, functions, classes and rooms that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "include" / "plumbline"
PAGE = (ROOT / "docs" / "house.md").read_text(encoding="utf-8")
ROOMS = {folder.name for folder in PACKAGE.iterdir() if (folder / "__init__.py").exists()}
NAMED = sorted({name for name in re.findall(r"`([a-z_]+(?:\.\w+)+)`", PAGE) if name.split(".")[0] in ROOMS})


def module_of(name: str) -> tuple[Path | None, list[str]]:
    """The file of the longest prefix that is a module, and what of the name is left."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        path = PACKAGE.joinpath(*parts[:end])
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.exists():
                return file, parts[end:]
    return None, parts


@pytest.mark.parametrize("name", NAMED)
def test_each_name_on_the_page_exists(name: str) -> None:
    file, left = module_of(name)
    assert file is not None
    if left:
        defined = {node.name for node in ast.parse(file.read_text(encoding="utf-8")).body if hasattr(node, "name")}
        assert left[0] in defined, f"{file} defines no {left[0]}"


def test_the_eight_files_to_begin_with_define_what_is_said_of_them() -> None:
    page = (ROOT / "docs" / "read-the-code.md").read_text(encoding="utf-8")
    steps = re.findall(r"^\d\. (.+(?:\n   .+)*)", page, re.M)
    assert len(steps) == 8
    for step in steps:
        file, *names = re.findall(r"`([^`]+)`", step)
        assert set(names) <= {node.name for node in ast.parse((ROOT / file).read_text(encoding="utf-8")).body if hasattr(node, "name")}
    folders = re.findall(r"`(include/[a-z/]+)`", page)
    assert folders and all((ROOT / folder).is_dir() for folder in folders)


def test_each_room_is_on_the_page() -> None:
    assert {room for room in ROOMS if f"| `{room}` |" not in PAGE} == set()
