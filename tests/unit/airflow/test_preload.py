"""A service imports before it forks what its tasks would import each time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from plumbline.airflow import preload

ROOT = Path(__file__).resolve().parents[3]
AS_A_TASK = """
import json, runpy, sys
from plumbline import workflows
known = {*sys.modules}
for file in sys.argv[1:]:
    runpy.run_path(file)
workflows.plan_trials, workflows.run, workflows.collect, workflows.validate, workflows.record
print(json.dumps(sorted({*sys.modules} - known)))
"""


def imported(first: str, installation: Path) -> set[str]:
    """What a task imports that a process forks which has executed `first`."""
    command = [sys.executable, "-c", first + AS_A_TASK, str(ROOT / "dags" / "benchmark.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=installation)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_a_task_finds_its_imports_in_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(ROOT / "include" / "config"))
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    listener = "from plumbline.airflow import preload\npreload.on_starting(None)\n"
    config = yaml.safe_load((ROOT / "k8s" / "airflow" / "values.yaml").read_text())["config"]
    imports = json.loads(config["celery"]["extra_celery_config"])["imports"]
    celery = f"from importlib import import_module\nfor name in {imports}: import_module(name)\n"
    assert imported("import airflow.sdk\n", tmp_path) > {"plumbline.workflows.record", "plumbline.airflow.tasks.benchmark"}
    for first in (listener, celery):
        late = {name for name in imported(first, tmp_path) if name.startswith(("airflow", "plumbline", "kubernetes", "sqlalchemy"))}
        # Celery's workers launch nothing on their own machine.
        assert not {name for name in late if first == listener or not name.startswith("plumbline.launch.local")}


@pytest.mark.parametrize(
    ("component", "executor", "runs_tasks"),
    [("scheduler", "LocalExecutor", True), ("scheduler", "CeleryExecutor", False), ("triggerer", "LocalExecutor", False)],
)
def test_only_a_scheduler_that_runs_the_tasks_imports_what_validates(
    monkeypatch: pytest.MonkeyPatch, component: str, executor: str, runs_tasks: bool
) -> None:
    names: list[str] = []
    monkeypatch.setattr(preload, "import_module", names.append)
    monkeypatch.setattr(sys, "argv", ["airflow", component])
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", executor)
    preload.on_starting(None)
    assert names == [*preload.MODULES, *(preload.LOCAL if runs_tasks else ())]
