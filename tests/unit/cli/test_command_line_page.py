"""docs/command-line.md has every command with every option, in the groups of `plumbline --help`."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup

from plumbline.cli.app import COMMANDS, load_command

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "command-line.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `plumbline (?P<command>.+?)` \| (?P<effect>.*) \|$")
EVERYWHERE = {"--help", "--json"}


def rows() -> list[tuple[str, set[tuple[str, ...]], str]]:
    """Heading, commands and whole text of each row; `a|b` in a command is a and b."""
    found, heading = [], ""
    for line in PAGE.splitlines():
        heading = line.removeprefix("## ") if line.startswith("## ") else heading
        if row := ROW.match(line):
            words = []
            for word in row["command"].replace("\\|", "|").split(" "):
                names = word.strip("[]").split("|")
                if not all(re.fullmatch(r"[a-z][a-z-]*", name) for name in names):
                    break
                words.append([*names, *([""] if word.startswith("[") else [])])
            found.append((heading, {tuple(filter(None, one)) for one in product(*words)}, line))
    return found


def leaves(path: tuple[str, ...], command: Any) -> list[tuple[tuple[str, ...], Any]]:
    if isinstance(command, TyperGroup):
        return [each for name, own in command.commands.items() for each in leaves((*path, name), own)]
    return [(path, command)]


EVERY = [each for name in COMMANDS for each in leaves((name,), load_command(name))]


@pytest.mark.parametrize(("path", "command"), EVERY, ids=[" ".join(path) for path, _ in EVERY])
def test_the_page_has_the_command_with_its_options(path: tuple[str, ...], command: Any) -> None:
    own = [text for _, commands, text in rows() if path in commands]
    assert own, f"docs/command-line.md has no row for plumbline {' '.join(path)}"
    options = {max(each.opts, key=len) for each in command.params if each.param_type_name == "option"} - EVERYWHERE
    missing = sorted(name for name in options if not any(re.search(rf"{name}(?![\w-])", text) for text in own))
    assert missing == [], f"the row of plumbline {' '.join(path)} lacks {', '.join(missing)}"


def test_the_page_has_no_other_command() -> None:
    known = {path[:n] for path, _ in EVERY for n in range(1, len(path) + 1)}
    assert [path for _, commands, _ in rows() for path in commands if path not in known] == []


def test_commands_are_in_the_groups_of_the_help() -> None:
    wrong = [(heading, path[0]) for heading, commands, _ in rows() for path in commands if COMMANDS[path[0]][2] != heading]
    assert wrong == []
