"""A launcher of another package: a declaration, a launcher and one entry point."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from tests.data.result_documents import provider
from tests.fakes.installation import install_package
from tests.fakes.trials import a_trial

from plumbline.declarations import Provider
from plumbline.launch.local import process_launcher
from plumbline.launch.registry import launcher_for
from plumbline.results import ResultStore

FILES = {
    "nice_launcher-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: nice-launcher\nVersion: 1\n",
    "nice_launcher-1.dist-info/entry_points.txt": "[plumbline.launchers]\nnice = nice_launcher:NiceLauncher\n",
    "nice_launcher/__init__.py": """
from typing import Literal
from plumbline.declarations.providers.launcher_base import LauncherBase

class NiceLauncher(LauncherBase):
    kind: Literal["nice"]
    level: int = 10
    timeout: float = 600.0
    implementation = "nice_launcher.launch:NiceProcess"
""",
    "nice_launcher/launch.py": """
from plumbline.launch.launcher import Launcher
from plumbline.launch.local import process_launcher as local

class NiceProcess(Launcher):
    def launch(self, trial, store, on_progress=None):
        declared = trial.provider.launcher
        runner = local.ProcessRunner(("nice", "-n", str(declared.level), *local.HARNESS))
        place = local.Allocation("nice", "this-machine", None, 4 * 2.0**30, declared.timeout)
        return runner.launch(trial, store, place, on_progress)
""",
}


@pytest.fixture
def nice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Provider:
    install_package(tmp_path, monkeypatch, FILES)
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    return provider("nice-host", launcher={"kind": "nice", "level": 5})


def test_it_is_declared_asked_and_launched(nice: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Provider.model_validate_json(nice.model_dump_json()) == nice
    assert (nice.pool, nice.launcher.runs_pods, nice.launcher.trial_limit_s) == ("plumbline_nice-host", False, 600.0)
    niceness = "import os, sys; print('niceness', os.nice(0)); sys.exit(3)"
    monkeypatch.setattr(process_launcher, "HARNESS", (sys.executable, "-c", niceness))
    store, trial = ResultStore((tmp_path / "results").as_uri()), a_trial(provider=nice)
    record = launcher_for(nice).launch(trial, store)
    assert (record.launcher, record.exit_code) == ("nice", 3)
    assert f"niceness {min(os.nice(0) + 5, 19)}" in record.log_tail
    assert store.launch(store.attempts(trial.campaign_id, trial.trial_id)[0]) == record
