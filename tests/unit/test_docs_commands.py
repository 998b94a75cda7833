"""The commands that README and docs/ show exist, with the options that they show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.core import TyperGroup

from plumbline.cli.app import COMMANDS, load_command

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(p for p in sorted((ROOT / "docs").rglob("*.md")) if p.parent.name != "reference"))
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))


def shown(page: Path) -> Iterator[tuple[str, str]]:
    """Program and words of each command on the page: of code blocks, and of code inside a sentence."""
    text, block = page.read_text(encoding="utf-8"), False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            block = not block
        elif block or line.startswith("    "):
            for found in re.finditer(r"(?:^|[;&]|\bsudo) *(?:[A-Z_]+=\S+ +)*(?:\S*/)?(plumbline|make) +([^;&#]+)", line):
                yield found[1], found[2].strip()
        else:
            for found in re.finditer(r"`(?:\S*/)?(plumbline|make) ([^`]+)`", line):
                yield found[1], found[2].replace("\\|", "|")


SHOWN = sorted({(str(page.relative_to(ROOT)), *each) for page in PAGES for each in shown(page)})


def problem(words: list[str]) -> str | None:
    """What of a plumbline command does not exist."""
    if not words or words[0] in ("…", "--help", "--version"):
        return None
    if words[0] not in COMMANDS:
        return f"no command {words[0]}"
    command, rest = load_command(words[0]), words[1:]
    while isinstance(command, TyperGroup) and rest:
        names = [name for name in rest[0].strip("[]").split("|") if name]
        if not all(re.fullmatch(r"[a-z][a-z-]*", name) for name in names):
            break
        if unknown := [name for name in names if name not in command.commands]:
            return f"no command {words[0]} {unknown[0]}"
        command, rest = command.commands[names[0]], rest[1:]
    if words[0] == "airflow" or isinstance(command, TyperGroup):
        return None
    known = {"--help", *(name for each in command.params for name in (*each.opts, *each.secondary_opts))}
    for word in rest:
        for name in re.findall(r"(?<![\w-])--[a-z][a-z-]*", word):
            if name not in known:
                return f"{words[0]} has no option {name}"
    return None


@pytest.mark.parametrize("page", sorted({page for page, _, _ in SHOWN}))
def test_each_command_that_a_page_shows_exists(page: str) -> None:
    wrong = []
    for _, program, text in (each for each in SHOWN if each[0] == page):
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
