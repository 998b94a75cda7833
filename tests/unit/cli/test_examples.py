"""Each command's `--help` ends with an example that the command takes, and with what comes next."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.testing import CliRunner

from plumbline.cli.app import COMMANDS, airflow_init, app, load_command
from plumbline.cli.examples import EXAMPLES

ROOT = Path(__file__).resolve().parents[3]


def _leaves(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(command, TyperGroup):
        for name, found in command.commands.items():
            yield from _leaves(found, f"{path} {name}")
    elif not command.hidden:
        yield path, command


LEAVES = {path: command for name in COMMANDS for path, command in _leaves(load_command(name), name)}
LEAVES["airflow init"] = airflow_init()


def test_every_command_has_an_example_and_no_example_lacks_its_command() -> None:
    assert sorted(LEAVES) == sorted(EXAMPLES)


def _command(words: list[str]) -> tuple[str, list[str]]:
    """The command that these words name, the longest, and what is left for it."""
    for length in (3, 2, 1):
        if (path := " ".join(words[:length])) in LEAVES:
            return path, words[length:]
    return "", words


@pytest.mark.parametrize("path", EXAMPLES)
def test_an_example_is_taken_by_its_command(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    found, arguments = _command(shlex.split(EXAMPLES[path].line))
    assert found == path
    for each in LEAVES[path].params:  # which look ids up in the archive
        monkeypatch.setattr(each, "callback", None)
    LEAVES[path].make_context(path, arguments)  # an unknown option, a missing argument or a wrong choice raises
    assert all((ROOT / word).exists() for word in arguments if word.startswith("docs/"))


@pytest.mark.parametrize("path", EXAMPLES)
def test_what_comes_next_exists(path: str) -> None:
    then = EXAMPLES[path].then
    assert not then.endswith(".")
    for command in re.findall(r"plumbline ([a-z-]+(?: [a-z-]+)*)", then):
        assert _command(command.split())[0] or command in COMMANDS, command
    for page, anchor in re.findall(r"docs/([\w-]+\.md)(?:#([\w-]+))?", then):
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        headings = {
            re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-") for line in text.splitlines() if line.startswith("#")
        }
        assert not anchor or anchor in headings


def test_the_help_shows_it() -> None:
    shown = CliRunner().invoke(app, ["findings", "snooze", "--help"]).stdout
    assert "Example: plumbline findings snooze 01jq --until 14d --why 'fixed this week'" in shown
    assert "Then: plumbline findings snooze FINDING --until now ends it" in " ".join(shown.split())
