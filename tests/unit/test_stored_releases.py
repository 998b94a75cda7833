"""What each release left with its users is read by this version: its archive, its declarations and its evidence packs (tests/fakes/stored_release.py made them)."""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.stored_release import DATA, folder_of
from typer.testing import CliRunner

from plumbline.archive.migrate import head
from plumbline.cli.app import app

RELEASES = sorted(DATA.glob("stored_*"))
TODAYS_VERIFIER = Path(__file__).resolve().parents[2] / "include" / "plumbline" / "workflows" / "verify_pack.py"
CAMPAIGN = "2026-10"


def test_the_first_release_is_stored() -> None:
    assert folder_of("0.1") in RELEASES


@pytest.fixture(params=RELEASES, ids=lambda folder: folder.name)
def release(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation with the release's archive and declarations."""
    stored: Path = request.param
    with closing(sqlite3.connect(tmp_path / "archive.db")) as archive:
        archive.executescript(gzip.decompress((stored / "archive.sql.gz").read_bytes()).decode())
    shutil.copytree(stored / "config", tmp_path / "config")
    for name in ("PLUMBLINE_ARCHIVE_URL", "PLUMBLINE_RESULTS_URL", "AIRFLOW_CONN_PLUMBLINE_ARCHIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(tmp_path / "config"))
    return stored


@pytest.fixture
def said(release: Path) -> Callable[..., Any]:
    """What a command prints with --json; its exit status is 0."""

    def call(*words: str) -> Any:
        done = CliRunner().invoke(app, [*words, "--json"])
        assert done.exit_code == 0, done.output[-2000:]
        return json.loads(done.stdout)

    return call


def test_its_archive_is_sound_and_has_its_rows_after_the_migration(said: Callable[..., Any], tmp_path: Path) -> None:
    assert said("archive", "verify")["problems"] == []
    with closing(sqlite3.connect(tmp_path / "archive.db")) as archive:
        assert archive.execute("SELECT version_num FROM alembic_version").fetchone() == (head(),)
        assert archive.execute("SELECT count(*) FROM trials").fetchone() == (12,)
        ((finding, kind),) = archive.execute("SELECT finding_id, kind FROM findings WHERE provider = 'sim'").fetchall()
    assert {row["campaign_id"] for row in said("campaigns")} == {"2026-09", CAMPAIGN}
    assert kind == "performance" and finding in json.dumps(said("findings", "list"))


def test_its_results_are_on_a_scorecard(said: Callable[..., Any]) -> None:
    text = json.dumps(said("scorecard", CAMPAIGN))
    assert '"sim"' in text and "step_time" in text


def test_its_declarations_are_valid(said: Callable[..., Any]) -> None:
    assert "sim" in json.dumps(said("check"))


@pytest.mark.parametrize("verifier", ["its own", "today's"])
def test_its_evidence_pack_is_verified(release: Path, tmp_path: Path, verifier: str) -> None:
    program = TODAYS_VERIFIER
    if verifier == "its own":
        with zipfile.ZipFile(release / "pack.zip") as pack:
            program = Path(pack.extract("verify.py", tmp_path))
    key = (release / "key.txt").read_text().strip()
    done = subprocess.run(
        [sys.executable, "-I", str(program), str(release / "pack.zip"), "--key", key], check=False, capture_output=True, text=True
    )
    # Trials of a simulated provider are not signed: that is not shown, and nothing is wrong.
    assert done.returncode in (0, 3) and "WRONG" not in done.stdout, done.stdout + done.stderr
    wrong = subprocess.run(
        [sys.executable, "-I", str(program), str(release / "pack.zip"), "--key", "0" * 64], check=False, capture_output=True, text=True
    )
    assert wrong.returncode not in (0, 3) and "WRONG" in wrong.stdout
