"""The commands that README, the changelog and docs/ show exist, with the options that they show.

docs/command-line.md has every command with every option, in the groups of `plumbline --help`."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import pytest
from tests.documented import EVERY, ROOT, named, option_names, page, shown

from plumbline.cli.app import COMMANDS

PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    *(p for p in sorted((ROOT / "docs").rglob("*.md")) if p.parent.name != "reference"),
]
SHOWN = {str(path.relative_to(ROOT)): sorted(set(shown(path.read_text(encoding="utf-8")))) for path in PAGES}
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
PARTS = {path[:n] for path in EVERY for n in range(1, len(path) + 1)}
"""Each command and group by its words."""


def problem(words: list[str]) -> str | None:
    """What of a plumbline command does not exist."""
    if not words or words[0] in ("…", "--help", "--version"):
        return None
    path: tuple[str, ...] = ()
    for word in words:
        if path in EVERY or not (names := named([word])):
            break
        if unknown := [name for name in names[0] if name and (*path, name) not in PARTS]:
            return f"no command {' '.join((*path, unknown[0]))}"
        path = (*path, names[0][0])
    if words[0] == "airflow" or path not in EVERY:
        return None if path else f"no command {words[0]}"
    known = {"--help", *option_names(EVERY[path])}
    asked = (name for word in words[len(path) :] for name in re.findall(r"(?<![\w-])--[a-z][a-z-]*", word))
    return next((f"{words[0]} has no option {name}" for name in asked if name not in known), None)


@pytest.mark.parametrize("name", [name for name, commands in SHOWN.items() if commands])
def test_each_command_that_a_page_shows_exists(name: str) -> None:
    wrong = []
    for program, text in SHOWN[name]:
        words = re.split(r"\s+", re.sub(r'"[^"]*"', '""', text))
        if program == "make":
            wrong += [f"make {word}" for word in words[:1] if re.fullmatch(r"[a-z0-9-]+", word) and word not in TARGETS]
        elif found := problem(words):
            wrong.append(f"{text}: {found}")
    assert not wrong


@pytest.mark.parametrize(
    "text", ["measures", "findings forget ID", "decide --teem product", "cost trial|campaigns ID", "archive import FILE --of aiperf"]
)
def test_a_command_that_does_not_exist_is_found(text: str) -> None:
    assert problem(text.split())


def rows() -> list[tuple[str, set[tuple[str, ...]], str]]:
    """Heading, commands and whole text of each row of docs/command-line.md."""
    found, heading = [], ""
    for line in page("command-line").splitlines():
        heading = line.removeprefix("## ") if line.startswith("## ") else heading
        if row := re.match(r"^\| `plumbline (.+?)` \|", line):
            words = named(row[1].replace("\\|", "|").split(" "))
            found.append((heading, {tuple(filter(None, one)) for one in product(*words)}, line))
    return found


@pytest.mark.parametrize(("path", "command"), EVERY.items(), ids=[" ".join(path) for path in EVERY])
def test_the_page_has_the_command_with_its_options(path: tuple[str, ...], command: Any) -> None:
    own = [text for _, commands, text in rows() if path in commands]
    assert own, f"docs/command-line.md has no row for plumbline {' '.join(path)}"
    options = {max(each.opts, key=len) for each in command.params if each.param_type_name == "option"} - {"--help", "--json"}
    missing = sorted(name for name in options if not any(re.search(rf"{name}(?![\w-])", text) for text in own))
    assert missing == [], f"the row of plumbline {' '.join(path)} lacks {', '.join(missing)}"


def test_the_page_has_no_other_command_and_those_in_the_groups_of_the_help() -> None:
    assert [path for _, commands, _ in rows() for path in commands if path not in PARTS] == []
    assert [(heading, path[0]) for heading, commands, _ in rows() for path in commands if COMMANDS[path[0]][2] != heading] == []


def test_every_command_that_reads_a_file_of_the_user_has_a_sample() -> None:
    own = {("evidence", "export"), ("archive", "backup"), ("archive", "restore")}  # Plumbline writes these files
    reading = [
        " ".join(path)
        for path, command in EVERY.items()
        if path not in own
        and any(
            each.name == "plan" or (each.param_type_name == "argument" and (each.name == "file" or "FILE" in str(each.metavar)))
            for each in command.params
        )
    ]
    rows_of_samples = re.findall(r"\| `plumbline ([^`]+)` \|", page("sample-files"))
    assert len(reading) > 3
    assert [path for path in reading if not any(row.startswith(path) for row in rows_of_samples)] == []
