"""An archive that another process holds is one sentence of every command, soon and without a traceback."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.unit.cli.test_missing_archive import LISTS, SUBJECTS, WRITERS
from typer.testing import CliRunner

from plumbline.archive import FindingRecord, open_archive
from plumbline.cli import guard
from plumbline.cli.app import app
from plumbline.declarations import installation_paths
from plumbline.patience import BUSY_TIMEOUT_S, patience_s

EVERY_READER = [*LISTS, *SUBJECTS, *WRITERS, ("archive", "backup", "FILE")]


@pytest.fixture(params=["a write transaction", "exclusively"])
def held(request: pytest.FixtureRequest, home: Path, campaigns: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    campaigns(**{"2026-11": [0.1, 0.1]})
    with open_archive() as archive:
        (*_, first) = archive.trials()
        made = {"provider": "local-2core", "severity": "warn", "series_key": first.series_key, "campaign_id": "2026-11"}
        archive.save_findings([FindingRecord("f-12345", kind="performance", headline="x", detail={"why": "y"}, **made)])
    monkeypatch.chdir(home)
    monkeypatch.setattr(guard, "PATIENCE_S", 0.2)
    other = sqlite3.connect(str(installation_paths().archive_url).removeprefix("sqlite:///"), isolation_level=None)
    if request.param == "exclusively":
        # As another program holds it that knows no WAL mode: nothing can be read either.
        other.execute("PRAGMA locking_mode=EXCLUSIVE")
    other.execute("BEGIN IMMEDIATE")
    other.execute("UPDATE campaigns SET reason = 'x'")
    yield request.param
    other.close()


@pytest.mark.fault("another process holds the archive", ends="exit code 1 or 2, one sentence", keeps="the archive and the terminal")
@pytest.mark.parametrize("words", EVERY_READER, ids=" ".join)
def test_every_command_ends_in_a_sentence(held: str, words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, ["f-12345" if word == "abc" else word for word in words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    if held == "exclusively":
        assert result.exit_code in (1, 2), result.output
        assert len(result.stderr.strip().splitlines()) == 1, result.stderr
    if result.exit_code and "locked" in result.output:
        assert len([line for line in result.stderr.strip().splitlines() if "locked" in line]) == 1, result.stderr


def test_what_writes_changes_nothing(held: str) -> None:
    result = CliRunner().invoke(app, ["findings", "acknowledge", "f-12345", "--why", "x"])
    assert result.exit_code in (1, 2) and "locked" in result.stderr and len(result.stderr.strip().splitlines()) == 1, result.output


def test_commands_wait_a_moment_and_tasks_wait_longer() -> None:
    # Twice: the connection may wait before its transaction does.
    assert 2 * guard.PATIENCE_S < 10 < BUSY_TIMEOUT_S
    assert patience_s() == BUSY_TIMEOUT_S
    with guard.guarded():
        assert patience_s() == guard.PATIENCE_S
    assert patience_s() == BUSY_TIMEOUT_S
