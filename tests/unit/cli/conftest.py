"""An installation of its own for each test, with an archive that holds two campaigns of one series."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.data.result_documents import document, training_metrics, trial
from typer.testing import CliRunner, Result

from plumbline.archive import open_archive
from plumbline.cli.app import app
from plumbline.declarations import installation_paths
from plumbline.results import ResultStore


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    for name in ("PLUMBLINE_ARCHIVE_URL", "PLUMBLINE_RESULTS_URL", "PLUMBLINE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def plumbline(home: Path) -> Callable[..., Result]:
    """Call the command line in this test's installation."""
    return lambda *words: CliRunner().invoke(app, list(words))


@pytest.fixture
def said(plumbline: Callable[..., Result]) -> Callable[..., Any]:
    """What a command prints with --json, and its exit code."""

    def call(*words: str) -> tuple[Any, int]:
        result = plumbline(*words, "--json")
        return json.loads(result.stdout), result.exit_code

    return call


@pytest.fixture
def campaigns(home: Path) -> Callable[..., None]:
    """campaigns(name=[step times]): record one training trial per step time."""

    def record(**steps: list[float]) -> None:
        with open_archive() as archive:
            for name, times in steps.items():
                for repeat, time in enumerate(times, 1):
                    asked = trial(campaign=name, repeat=repeat)
                    archive.record(
                        document(asked, metrics=training_metrics(step_time=time)),
                        uri=f"{installation_paths().results_url}/{ResultStore.folder(asked)}",
                    )

    return record
