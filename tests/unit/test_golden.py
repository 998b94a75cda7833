from __future__ import annotations

from pathlib import Path

import pytest
from tests.golden import Golden

TEXTS = ["one line", 'a "quoted" \\ path', "two\nlines\n", "\ttab and \x1b[1m", "\n", ""]


@pytest.mark.parametrize("text", TEXTS)
def test_a_written_message_is_accepted_and_another_one_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "messages.toml"
    Golden(write=True, file=file)("room.other", "kept")
    Golden(write=True, file=file)("room.message", text)
    Golden(file=file)("room.message", text)
    Golden(file=file)("room.other", "kept")
    with pytest.raises(AssertionError, match="differs from"):
        Golden(file=file)("room.message", text + "!")


def test_values_that_differ_from_run_to_run_have_names(tmp_path: Path) -> None:
    file = tmp_path / "messages.toml"
    Golden(write=True, file=file)("room.message", "cannot read /a/b", path="/a/b")
    Golden(file=file)("room.message", "cannot read /c/d", path="/c/d")
    assert "{path}" in file.read_text()


def test_a_message_that_is_not_in_the_file(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        Golden(file=tmp_path / "messages.toml")("room.message", "text")


def test_names(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected a golden"):
        Golden(file=tmp_path / "messages.toml")("nothing", "text")
