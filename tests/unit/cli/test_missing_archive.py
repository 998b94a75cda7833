"""A command creates no archive unless it measures or imports; each answers alike where there is none, and where one is empty."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.documented import EVERY
from tests.fakes.trials import CONFIG
from typer.testing import CliRunner, Result

from plumbline.archive import open_archive
from plumbline.cli.app import app
from plumbline.cli.output import NO_CAMPAIGN, announce_new_archive, no_archive

LISTS = (
    ("alerts", "digest"),
    ("alerts", "preview", "--all"),
    ("archive", "expire", "--dry-run"),
    ("archive", "export", "FOLDER"),
    ("archive", "imports"),
    ("archive", "quarantine", "list"),
    ("archive", "quarantine", "retry"),
    ("archive", "size"),
    ("archive", "verify"),
    ("campaigns",),
    ("cost", "precision"),
    ("findings",),
    ("findings", "list"),
    ("log", "--list"),
    ("places",),
    ("promises",),
    ("status",),
)
SUBJECTS = (
    ("alerts", "preview", "abc"),
    ("archive", "collect", "2026-11"),
    ("archive", "correct", "trial", "--accept", "--why", "x"),
    ("archive", "forget-import", "abc", "--why", "x"),
    ("archive", "quarantine", "show", "abc"),
    ("compare", "a", "b"),
    ("cost", "break-even", "local-2core", "chat-tiny-cpu"),
    ("cost", "campaign"),
    ("cost", "reconcile", "invoice.csv"),
    ("cost", "scenarios", "local-2core", "chat-tiny-cpu"),
    ("cost", "spot", "local-2core", "gpt-tiny-cpu"),
    ("cost", "tornado", "local-2core", "chat-tiny-cpu"),
    ("cost", "trial", "abc"),
    ("decide",),
    ("evidence", "export", "2026-11"),
    ("findings", "accept", "abc", "--why", "x"),
    ("findings", "acknowledge", "abc", "--why", "x"),
    ("findings", "claim", "abc"),
    ("findings", "reject", "abc", "--why", "x"),
    ("findings", "resolve", "abc", "--why", "x"),
    ("findings", "reopen", "abc", "--why", "x"),
    ("findings", "show", "abc"),
    ("findings", "snooze", "abc", "--until", "14d", "--why", "x"),
    ("findings", "claimed", "abc", "--why", "x"),
    ("findings", "credited", "abc", "--why", "x"),
    ("findings", "refused", "abc", "--why", "x"),
    ("replay", "abc"),
    ("report",),
    ("scorecard",),
)
WRITERS = (
    ("availability", "local-2core"),
    ("archive", "migrate"),
    ("log", "incident", "local-2core", "--what", "no node answers"),
    ("prices", "accept", "local-2core", "--why", "x", "--price", "1"),
    ("prices", "check"),
    ("scaling",),
)
"""They change an archive that exists; an empty one serves."""
NO_READERS = {
    ("airflow",), ("airflow", "init"), ("archive", "backup"), ("archive", "import"), ("archive", "import-mlperf"), ("archive", "restore"),
    ("accept",), ("budget",), ("check",), ("cluster", "doctor"), ("cluster", "kubeconfig"), ("cluster", "sweep"), ("cost", "commitments"), ("cost", "invoices"), ("cost", "month"),
    ("doctor",), ("drift", "detect"), ("evidence", "key"), ("load",), ("model", "add"),
    ("prices", "list"), ("rehearse",), ("run",), ("selfcheck",), ("serve",), ("trial",), ("trigger",), ("up",),
    ("watch",), ("workload", "check-prompts"), ("workload", "from-log"), ("workload", "new"),
}  # fmt: skip
"""They record, move whole archives, use none, or answer from the declarations where one is empty."""


@pytest.fixture
def mistyped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "typo"))
    for name in ("PLUMBLINE_ARCHIVE_URL", "PLUMBLINE_RESULTS_URL", "PLUMBLINE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "typo"


def test_every_command_is_covered() -> None:
    named = {next(words[:n] for n in (3, 2, 1) if words[:n] in EVERY) for words in (*LISTS, *SUBJECTS, *WRITERS) if words != ("findings",)}
    assert set(EVERY) == named | NO_READERS


@pytest.mark.fault("PLUMBLINE_HOME is mistyped", ends="exit code 2, one sentence with the address", keeps="the disk as it is")
@pytest.mark.parametrize("words", [*LISTS, *SUBJECTS, *WRITERS, ("archive", "backup", "FILE"), ("budget",)], ids=" ".join)
def test_no_command_creates_an_archive_at_a_mistyped_address(mistyped: Path, words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*words])
    assert result.exit_code == 2, result.output
    assert result.stderr.strip() == no_archive(mistyped / "archive.db") and result.stdout == ""
    assert not mistyped.exists() and list(mistyped.parent.iterdir()) == []


@pytest.fixture
def limited(mistyped: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A budget that the first trial exceeds, so that the archive is asked what was used."""
    config = tmp_path_factory.mktemp("config") / "config"
    shutil.copytree(CONFIG, config)
    provider = config / "providers" / "local-2core.yaml"
    provider.write_text(provider.read_text() + "budget: {usd_per_month: 0.0000001}\n")
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(config))
    return mistyped


STARTERS = (
    ("trial", "gpt-tiny-cpu", "--provider", "local-2core"),
    ("trigger", "local-2core", "--reason", "x", "--workload", "gpt-tiny-cpu"),
    ("run", "--provider", "local-2core", "--workload", "gpt-tiny-cpu"),
)


@pytest.mark.parametrize("words", STARTERS, ids=" ".join)
def test_a_budget_is_counted_without_creating_an_archive(limited: Path, words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*words])
    assert result.exit_code == 2, result.output
    assert "budget" in result.stderr and result.stderr.strip().endswith("nothing was started")
    assert not (limited / "archive.db").exists()


def test_a_run_that_no_airflow_takes_creates_no_archive(limited: Path) -> None:
    file = Path(os.environ["PLUMBLINE_CONFIG"]) / "providers" / "local-2core.yaml"
    file.write_text(file.read_text().replace("0.0000001", "1000"))
    result = CliRunner().invoke(app, ["trigger", "local-2core", "--reason", "x"])
    assert (result.exit_code, "no Airflow in" in result.stderr) == (2, True), result.output
    assert not limited.exists()


def test_a_measurement_names_the_archive_that_it_begins(mistyped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    announce_new_archive()
    assert f"no archive at {mistyped / 'archive.db'} (PLUMBLINE_HOME={mistyped})" in capsys.readouterr().err.replace("\n", "")
    open_archive().close()
    announce_new_archive()
    assert capsys.readouterr().err == ""


def test_json_of_a_missing_archive_is_none(mistyped: Path) -> None:
    result = CliRunner().invoke(app, ["findings", "--json"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert not mistyped.exists()


def test_an_empty_file_is_no_archive(home: Path, plumbline: Callable[..., Result]) -> None:
    (home / "archive.db").touch()
    assert plumbline("findings").exit_code == 2
    assert (home / "archive.db").stat().st_size == 0


@pytest.mark.parametrize("words", LISTS, ids=" ".join)
def test_a_list_of_an_empty_archive(home: Path, plumbline: Callable[..., Result], words: tuple[str, ...]) -> None:
    open_archive().close()
    result = plumbline(*words)
    assert (result.exit_code, result.stdout.strip(), result.stderr) == (0, NO_CAMPAIGN, "")


@pytest.mark.parametrize("words", SUBJECTS, ids=" ".join)
def test_a_subject_of_an_empty_archive(home: Path, plumbline: Callable[..., Result], words: tuple[str, ...]) -> None:
    open_archive().close()
    result = plumbline(*words)
    assert (result.exit_code, result.stderr.strip(), result.stdout) == (2, NO_CAMPAIGN, "")
