"""Commands as the pages of docs/ show them, and as the command line has them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.core import TyperGroup

from plumbline.cli.app import COMMANDS, airflow_init, load_command

ROOT = Path(__file__).resolve().parents[1]


def page(name: str) -> str:
    """The text of a page of docs/."""
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def sections(name: str) -> dict[str, str]:
    """A page's sections by their headings."""
    return {text.splitlines()[0]: text for text in re.split(r"^## ", page(name), flags=re.M)[1:]}


def shown(text: str) -> Iterator[tuple[str, str]]:
    """Program and words of each command of a page: of code blocks, and of code inside a sentence."""
    block = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            block = not block
        elif block or line.startswith("    "):
            for found in re.finditer(r"(?:^|[;&]|\bsudo) *(?:[A-Z_]+=\S+ +)*(?:\S*/)?(plumbline|make) +([^;&#]+)", line):
                yield found[1], found[2].strip()
        else:
            for found in re.finditer(r"`(?:\S*/)?(plumbline|make) ([^`]+)`", line):
                yield found[1], found[2].replace("\\|", "|")


def _leaves(path: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(command, TyperGroup):
        for name, own in command.commands.items():
            if not own.hidden:
                yield from _leaves((*path, name), own)
    else:
        yield path, command


EVERY = {path: command for name in COMMANDS for path, command in _leaves((name,), load_command(name))}
EVERY["airflow", "init"] = airflow_init()
"""Each command that the help lists, by its words."""


def option_names(command: Any) -> set[str]:
    return {name for each in command.params for name in (*each.opts, *each.secondary_opts)}


def named(words: list[str]) -> list[list[str]]:
    """The words of a shown command that name it, each with its alternatives: `[a|b]` is "", a or b."""
    found = []
    for word in words:
        names = word.strip("[]").split("|")
        if not all(re.fullmatch(r"[a-z][a-z-]*", name) for name in names):
            break
        found.append([*names, *([""] if word.startswith("[") else [])])
    return found
