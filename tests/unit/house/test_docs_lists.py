"""Lists in README and docs/ have what the code has: DAG files, rooms and floors, kinds of extensions, promises, kinds of findings.

Commands are compared in tests/unit/test_documented_commands.py, names on the code map in tests/unit/test_house_page.py.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.documented import ROOT, page, sections
from tests.source_trees import source_tree

from plumbline.declarations.alert_channels import DeclaredChannel
from plumbline.declarations.promises import PROMISES
from plumbline.declarations.providers.launchers import Launcher
from plumbline.declarations.providers.provider import DeclaredSource
from plumbline.declarations.providers.service_level import ServiceLevel
from plumbline.declarations.workloads.engines import ENGINES, GROUP
from plumbline.declarations.workloads.training import Task

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

README = (ROOT / "README.md").read_text(encoding="utf-8")
PACKAGE = ROOT / "include" / "plumbline"
DAG_FILES = sorted((ROOT / "dags").glob("*.py"))
PAGES = sorted(path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "reference")
MADE_OF_TWO = {"client_pod"}
"""Launchers that no file declares: the loader makes them of two declarations."""


def entry_of_readme(folder: str) -> str:
    """What README's overview of the repository says of a folder, lines joined."""
    found = re.search(rf"^    {re.escape(folder)} +(\S.*(?:\n {{20,}}\S.*)*)", README, re.M)
    assert found is not None, f"README names no folder {folder}"
    return " ".join(found[1].split())


def rows(text: str) -> list[list[str]]:
    """Cells of each row of the tables in a text, without their headings."""
    return [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in re.findall(r"^\|(?:[-|]+)\n((?:\|.*\n?)+)", text, re.M)
        for line in line.splitlines()
    ]


def quoted(text: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", text))


# DAGs


def test_readme_names_every_dag_file() -> None:
    named = re.sub(r"\([^)]*\)", "", entry_of_readme("dags/"))
    assert {name.strip() for name in named.split(",")} == {path.stem for path in DAG_FILES}


def dag_ids() -> set[str]:
    """Names of DAG files and of the functions in them that make a DAG."""
    functions = (node for path in DAG_FILES for node in ast.walk(source_tree(path.read_text(encoding="utf-8"))))
    made = {
        node.name
        for node in functions
        if isinstance(node, ast.FunctionDef) and any(ast.unparse(each).startswith("dag(") for each in node.decorator_list)
    }
    return made | {path.stem for path in DAG_FILES}


def unknown_dags(text: str) -> list[str]:
    """DAGs and DAG files that a page names and that do not exist; a benchmark's name ends with its provider's."""
    ids = {re.match(r"\w*", name)[0] for name in re.findall(r"\bDAGs? `([^`]+)`", text)}  # type: ignore[index]
    files = set(re.findall(r"(?<!tests/)\bdags/(\w+)\.py", text))
    return sorted({name for name in ids - dag_ids() if not name.startswith("benchmark_")} | (files - {path.stem for path in DAG_FILES}))


def test_every_dag_that_a_page_names_exists() -> None:
    texts = [README, *(path.read_text(encoding="utf-8") for path in PAGES)]
    assert sum(len(re.findall(r"\bDAGs? `", text)) for text in texts) > 10
    assert [name for text in texts for name in unknown_dags(text)] == []


@pytest.mark.parametrize("text", ["the DAG `nightly` runs", "see `dags/nightly.py`"])
def test_a_dag_that_does_not_exist_is_found(text: str) -> None:
    assert unknown_dags(text) == ["nightly"]


# Rooms and floors


def layers() -> list[set[str]]:
    """Rooms of each floor, the highest first, from the import contract."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    (floors,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [{room.strip().removeprefix("plumbline.") for room in floor.split("|")} for floor in floors]


def test_the_code_map_has_the_floors_of_the_contract() -> None:
    table = [row for row in rows(sections("house")["Rooms"]) if row[0].isdigit()]
    numbers = sorted({int(floor) for floor, *_ in table}, reverse=True)
    assert numbers == list(range(len(layers()), 0, -1))
    assert [set().union(*(quoted(room) for floor, room, _ in table if int(floor) == number)) for number in numbers] == layers()


def test_the_contract_has_every_room() -> None:
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert set().union(*layers()) == modules | folders


def test_readme_names_every_room() -> None:
    named = entry_of_readme("include/plumbline/").partition(": ")[2]
    assert set(re.findall(r"\w+", named)) == {path.parent.name for path in PACKAGE.glob("*/__init__.py")}


# Extensions


def kinds(declared: Any) -> set[str]:
    """The kinds of an annotated union of declarations, or of its only one."""
    own = get_args(declared)[0]
    return {get_args(each.model_fields["kind"].annotation)[0] for each in (get_args(own) or (own,))} - MADE_OF_TWO


EXTENSIONS = {
    "plumbline.launchers": kinds(Launcher),
    "plumbline.price_sources": kinds(DeclaredSource),
    "plumbline.alert_channels": kinds(DeclaredChannel),
    "plumbline.training_tasks": kinds(Task),
    GROUP: set(ENGINES),
}


def groups_in_code() -> set[str]:
    """Entry point groups that the declarations read: of `extensible(own, base, group)` and of a module's `GROUP`."""
    found = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(source_tree(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "extensible":
                found.add(ast.literal_eval(node.args[2]))
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "GROUP":
                found.add(ast.literal_eval(node.value))
    return found


def test_the_table_of_extensions_has_every_group_with_plumblines_own_kinds() -> None:
    table = {group.strip("`"): quoted(own) for _, group, own in rows(page("extend").partition("\n## ")[0])}
    assert table == EXTENSIONS


def test_each_group_has_a_section_that_registers_an_example() -> None:
    registered = re.findall(r'entry-points\."([\w.]+)"', page("extend"))
    assert sorted(registered) == sorted(EXTENSIONS) == sorted(groups_in_code())


def test_every_price_source_has_a_section() -> None:
    headings = {heading.partition(":")[0] for heading in sections("watch-prices")}
    assert kinds(DeclaredSource) <= headings


def test_every_launcher_is_on_the_page_of_providers() -> None:
    named = set(re.findall(r"\bkind: (\w+)", page("declare-a-provider")))
    assert kinds(Launcher) <= named


# Promises and findings


def test_the_page_of_promises_has_every_field_of_a_service_level() -> None:
    table = rows(sections("promises")["Declare the terms"])
    assert sorted(name for field, *_ in table for name in quoted(field)) == sorted(ServiceLevel.model_fields)


def test_the_page_of_promises_says_what_each_is_judged_by() -> None:
    table = rows(sections("promises")["Declare the terms"])
    for promise in PROMISES:
        ((_, meaning, judged_by),) = [row for row in table if promise.id in quoted(row[0])]
        assert meaning and judged_by, promise.id
        assert not promise.checked or "checks of" in judged_by, promise.id


# Pages


def linked(path: Path) -> Iterator[Path]:
    """Pages that a page links to; a link to a folder shows each of its pages."""
    for target in re.findall(r"\]\(([^)#\s]+)", path.read_text(encoding="utf-8")):
        there = (path.parent / target).resolve()
        if there.is_dir():
            yield from there.glob("*.md")
        elif there.suffix == ".md" and there.exists():
            yield there


def test_every_page_is_reached_from_readme() -> None:
    reached, left = set(), [ROOT / "README.md"]
    while left:
        path = left.pop()
        if path not in reached:
            reached.add(path)
            left += linked(path)
    assert [str(path.relative_to(ROOT)) for path in PAGES if path not in reached] == []
