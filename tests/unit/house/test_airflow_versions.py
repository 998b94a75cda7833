"""Names that not all supported versions of Airflow have are used in `airflow/versions.py` alone, and a version beyond them is noticed."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from tests.source_trees import source_tree

from plumbline.airflow import versions

ROOT = Path(__file__).resolve().parents[3]
HOME = ROOT / "include" / "plumbline" / "airflow" / "versions.py"
LATER_MODULES = ("airflow.sdk.configuration", "airflow.dag_processing.dagbag", "airflow.sdk.listener", "airflow.sdk.plugins_manager")
"""Modules that 3.1 lacks."""
LATER_NAMES = {
    "airflow.sdk": {"RetryPolicy", "RetryDecision", "AssetOrTimeSchedule", "CronTriggerTimetable", "MultipleCronTriggerTimetable", "conf"},
    "airflow.api.common.trigger_dag": {"trigger_dag"},
    "airflow.serialization.serialized_objects": {"DagSerialization", "SerializedDAG"},
    "airflow.models.dagbag": {"BundleDagBag"},
}
IN_SDK_EXCEPTIONS = {"AirflowRuntimeError", "ErrorType"}
"""What `airflow.sdk.exceptions` of 3.1 has."""


def breaches(text: str) -> Iterator[str]:
    """The lines of a module that some supported version cannot run."""
    for node in ast.walk(source_tree(text)):
        if isinstance(node, ast.ImportFrom):
            names, module = {alias.name for alias in node.names}, node.module or ""
            later = LATER_NAMES.get(module, set())
            if module == "airflow.sdk.exceptions":
                later = names - IN_SDK_EXCEPTIONS
            if module in LATER_MODULES or names & later:
                yield f"line {node.lineno}: from {module} import {', '.join(sorted(names & later or names))}"
        elif isinstance(node, ast.Import) and any(alias.name in LATER_MODULES for alias in node.names):
            yield f"line {node.lineno}: import"
        elif isinstance(node, ast.Call):
            if any(word.arg == "fail_when_dag_is_paused" for word in node.keywords):
                yield f"line {node.lineno}: fail_when_dag_is_paused"
            if isinstance(node.func, ast.Attribute) and node.func.attr == "get_dag":
                yield f"line {node.lineno}: .get_dag()"


def test_names_of_some_versions_are_in_one_file() -> None:
    files = [f for folder in ("include/plumbline", "dags", "plugins") for f in (ROOT / folder).rglob("*.py") if f != HOME]
    found = {str(f.relative_to(ROOT)): lines for f in files if (lines := list(breaches(f.read_text(encoding="utf-8"))))}
    assert found == {}, "take the name from plumbline.airflow.versions"


@pytest.mark.parametrize(
    "line",
    [
        "from airflow.sdk import Param, RetryPolicy",
        "from airflow.sdk.configuration import conf",
        "from airflow.sdk.exceptions import AirflowRuntimeError, AirflowSkipException",
        "import airflow.dag_processing.dagbag",
        "ti.get_dag('a')",
        "TriggerDagRunOperator(task_id='a', fail_when_dag_is_paused=True)",
    ],
)
def test_a_planted_name_is_found(line: str) -> None:
    assert list(breaches(line))


def test_a_newer_airflow_is_noticed() -> None:
    """Fails with the first release line that `make test-airflow` has not run: run it, then raise `versions.NEWEST`."""
    assert versions.OLDEST <= versions.INSTALLED <= versions.NEWEST


def test_the_metadata_has_the_same_bounds() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    declared = [Requirement(line) for line in re.findall(r'"(apache-airflow>[^"]+)"', text)]
    oldest, newest = versions.OLDEST, versions.NEWEST
    for one in declared:
        assert f"{oldest[0]}.{oldest[1]}.0" in one.specifier and f"{newest[0]}.{newest[1]}.9" in one.specifier
        assert f"{newest[0]}.{newest[1] + 1}.0" not in one.specifier and f"{oldest[0]}.{oldest[1] - 1}.9" not in one.specifier
    pinned = re.search(r"^apache-airflow==(\d+)\.(\d+)", (ROOT / "requirements" / "main.in").read_text(encoding="utf-8"), re.M)
    assert pinned is not None and oldest <= (int(pinned[1]), int(pinned[2])) <= newest


def test_below_the_oldest_version_the_reason_is_one_sentence(tmp_path: Path) -> None:
    fake = tmp_path / "airflow"
    fake.mkdir()
    (fake / "__init__.py").write_text('__version__ = "3.0.6"\n')
    line = [sys.executable, "-c", "import plumbline.airflow.versions"]
    done = subprocess.run(line, env={"PYTHONPATH": f"{tmp_path}:{ROOT / 'include'}"}, capture_output=True, text=True, check=False)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: Airflow 3.0.6 is installed; expected Airflow 3.1 to 3.3")
