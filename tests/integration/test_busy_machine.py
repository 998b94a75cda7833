"""`plumbline run` beside programs that take the trial's core: it says so first, ranks nothing and exits with its own code."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.fakes.quick_python import search_path
from tests.integration.test_airflow_smoke import ROOT, installation

from plumbline.archive import open_archive
from plumbline.cli.exit_status import BUSY
from plumbline.declarations import installation_paths

pytestmark = [pytest.mark.full, pytest.mark.exclusive, pytest.mark.timeout(900)]
_NEIGHBOURS = 2


def test_a_busy_machine_has_no_winner(tmp_path: Path) -> None:
    burner = tmp_path / "burn_a_core.py"
    burner.write_text("import os\nos.sched_setaffinity(0, {0})\nwhile True: pass\n")
    with installation(tmp_path), ExitStack() as stack:
        for _ in range(_NEIGHBOURS):
            neighbour = subprocess.Popen([sys.executable, str(burner)])
            stack.callback(neighbour.wait)
            stack.callback(neighbour.kill)
        env = {**os.environ, "PYTHONPATH": search_path(ROOT / "include")}
        command = [sys.executable, "-m", "plumbline.cli", "run", "--campaign", "busy", "--reason", "a test"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == BUSY, done.stdout + done.stderr
        first = done.stdout.splitlines()[0]
        assert first.startswith("this machine was busy (others used "), done.stdout
        assert "no winner; close " in first, "the busiest of all that run beside this test"
        (ended,) = [line for line in done.stderr.splitlines() if "1 of 1 done" in line]
        assert "invalid (others used" in ended
        with open_archive() as archive:
            trials = archive.trials("busy")
            assert [(t.attempt, t.status) for t in trials] == [(1, "invalid"), (2, "invalid")], "repeated once by itself"
            assert [r.code for r in trials[-1].quality_reasons] == ["machine_busy"]
            document = archive.document(trials[-1].trial_id, 2)
            assert document is not None and "burn_a_core.py" in {program.name for program in document.other_programs}
            assert not archive.decisions_page().rows
        report = (installation_paths().reports / "busy" / "report.md").read_text()
        assert report.startswith("# this machine was busy (others used ")
