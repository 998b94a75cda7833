"""Commands that sentences of the program name exist: a page that names one which does not sends its reader nowhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.documented import EVERY

import plumbline

PACKAGE = Path(plumbline.__file__).parent
_NAMED = re.compile(r"`plumbline(?P<words>(?: [a-z][a-z-]*)+)")
_GROUPS = {words[:n] for words in EVERY for n in range(1, len(words))}
_OWN_ARGUMENTS = {"airflow"}
"""Commands that pass every word on."""


def unknown(text: str) -> Iterator[str]:
    """Commands in back-ticks that there are not. Words after a command that exists are its arguments."""
    for match in _NAMED.finditer(text):
        words = tuple(match["words"].split())
        found = next((words[:n] for n in range(len(words), 0, -1) if words[:n] in EVERY or words[:n] in _GROUPS), ())
        if words[0] in _OWN_ARGUMENTS or found in EVERY or found == words:
            continue
        yield " ".join(words)


def test_each_named_command_exists() -> None:
    files = [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.j2")]
    found = {f"{path.relative_to(PACKAGE)}: plumbline {words}" for path in files for words in unknown(path.read_text(encoding="utf-8"))}
    assert found == set()


@pytest.mark.parametrize(
    ("text", "words"),
    [("`plumbline prices fetch`", ["prices fetch"]), ("`plumbline prices check`", []), ("`plumbline nothing X`", ["nothing"])],
)
def test_a_command_that_is_not_there_is_found(text: str, words: list[str]) -> None:
    assert list(unknown(text)) == words
