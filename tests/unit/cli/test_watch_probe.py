"""`plumbline watch --probe`: what it prints, and with which exit code."""

from __future__ import annotations

import json
import shutil
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
import yaml
from tests.fakes.trials import CONFIG
from typer.testing import CliRunner

from plumbline.archive import open_archive
from plumbline.archive.records import SnapshotRecord
from plumbline.cli.app import app
from plumbline.cli.exit_status import DRIFTED, FAILED, OK


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "config"
    shutil.copytree(CONFIG, folder)
    declared = yaml.safe_load((folder / "providers" / "simulated-h100.yaml").read_text())
    declared["launcher"]["drift"] = []
    (folder / "providers" / "sim.yaml").write_text(yaml.safe_dump(declared | {"name": "sim"}))
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(folder))
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    return folder


def faster_before() -> None:
    with open_archive() as archive:
        before = datetime.now(timezone.utc) - timedelta(days=7)
        archive.save_snapshot(SnapshotRecord("sim", "probe", before, {}, {"matmul_tflops": 9e14}))


def test_a_probe_is_made_only_if_it_is_asked_for() -> None:
    without, asked = (CliRunner().invoke(app, ["watch", *flag, "sim"]) for flag in ([], ["--probe"]))
    assert (without.exit_code, asked.exit_code) == (OK, OK), asked.output
    assert "TFLOP/s" not in without.output and "TFLOP/s" in asked.output and "memory bandwidth" in asked.output


def test_what_became_slower_is_shown_with_what_was_usual_and_for_programs() -> None:
    faster_before()
    shown = CliRunner().invoke(app, ["watch", "--probe", "sim"])
    assert shown.exit_code == DRIFTED and "900 TFLOP/s → " in shown.output and "probes again" in shown.output
    (told,) = json.loads(CliRunner().invoke(app, ["watch", "--probe", "--json", "sim"]).stdout)
    assert told["probed"]["figures"][0]["slow"] == 2 and len(told["probed"]["findings"]) == 1


def test_one_that_cannot_be_probed_fails_after_the_rest_was_shown(config: Path) -> None:
    file = config / "providers" / "sim.yaml"
    declared = yaml.safe_load(file.read_text())
    declared["accelerator"]["product"] = "Unheard-Of"
    file.write_text(yaml.safe_dump(declared))
    done = CliRunner().invoke(app, ["watch", "--probe", "sim"])
    assert done.exit_code == FAILED and "launcher.levels" in done.output
