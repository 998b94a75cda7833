"""An archive that cannot be opened is said in a sentence, by every command that asks it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text
from tests.fakes.next_schema import newer_program
from typer.testing import Result

from plumbline.archive import open_archive

COMMANDS = (
    ("findings", "list"),
    ("campaigns",),
    ("scorecard",),
    ("compare", "a", "b"),
    ("archive", "verify"),
    ("archive", "quarantine", "list"),
)


@pytest.mark.parametrize("words", COMMANDS)
def test_an_archive_of_a_newer_version(home: Path, plumbline: Callable[..., Result], words: tuple[str, ...]) -> None:
    with open_archive() as archive, archive.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    result = plumbline(*words)
    assert result.exit_code == 2
    assert "9999" in result.stderr and len(result.stderr.splitlines()) == 1


@pytest.mark.fault("a command meets a shared archive of an older schema", ends="exit code 2, one sentence", keeps="the archive as it is")
def test_a_shared_archive_of_an_older_version(tmp_path: Path, plumbline: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    monkeypatch.setenv("PLUMBLINE_ARCHIVE_URL", url)
    open_archive().close()
    with newer_program(tmp_path) as newer:
        result = plumbline("findings", "list")
        assert result.exit_code == 2 and newer in result.stderr
        assert plumbline("archive", "migrate").exit_code == 0
        assert plumbline("findings", "list").exit_code == 0


def test_a_file_that_is_none(home: Path, plumbline: Callable[..., Result]) -> None:
    (home / "archive.db").write_bytes(b"not a database at all, whatever its name says")
    result = plumbline("findings", "list")
    assert result.exit_code == 2
    assert "archive.db" in result.stderr and len(result.stderr.splitlines()) <= 2, result.stderr


def test_a_server_that_does_not_answer(plumbline: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_ARCHIVE_URL", "postgresql://nobody@127.0.0.1:1/plumbline?connect_timeout=2")
    result = plumbline("findings", "list")
    assert result.exit_code == 2
    assert "PLUMBLINE_ARCHIVE_URL" in result.stderr
