"""The task that plans a lane, at the limit of a budget: skipped with the reason, and what waits to be measured goes on waiting."""

from __future__ import annotations

import shutil
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException
from tests.fakes.trials import CONFIG

from plumbline.airflow.tasks.benchmark import plan
from plumbline.archive import open_archive
from plumbline.workflows.pending_changes import CHANGE_MEASURED, record_changes

NAME = "local-1core"
CHANGE = {"fact": "driver.version", "old": "550", "new": "570"}


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(shutil.copytree(CONFIG, tmp_path / "config")))
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    (tmp_path / "home").mkdir()
    return tmp_path / "config"


def planned(lane: str = "training") -> list[dict[str, Any]]:
    run = SimpleNamespace(dag_id="benchmark_local_1core", run_id="manual__1", run_type="manual", run_after=datetime.now(timezone.utc))
    ti = SimpleNamespace(bundle_instance=SimpleNamespace(version=None))
    rows = plan.function(NAME, lane, dag_run=run, params={"reason": "a person asks", "repeats": 1}, ti=ti)
    assert isinstance(rows, list)
    return rows


def measured() -> bool:
    with open_archive() as archive:
        return any(entry.what == CHANGE_MEASURED for entry in archive.audit(NAME))


def a_change_waits() -> None:
    with open_archive() as archive:
        record_changes(archive, NAME, [CHANGE], {"driver.version": "570"}, ["0123456789ab"])


def test_a_lane_that_the_budget_carries_nothing_of_is_skipped_and_the_change_waits_on(config: Path) -> None:
    a_change_waits()
    file = config / "providers" / f"{NAME}.yaml"
    file.write_text(f"{file.read_text()}budget: {{usd_per_month: 0.0001}}\n")
    with pytest.raises(AirflowSkipException, match=f"{NAME}: .*`budget`"):
        planned()
    with pytest.raises(AirflowSkipException, match=f"training_gang.*{NAME}"):
        planned("training_gang")
    assert not measured()


def test_a_lane_that_fits_is_planned_and_the_change_is_measured_by_it(config: Path) -> None:
    a_change_waits()
    file = config / "providers" / f"{NAME}.yaml"
    file.write_text(f"{file.read_text()}budget: {{usd_per_month: 100}}\n")
    assert "gpt-tiny-cpu 02:00 r1" in {row["title"] for row in planned()}
    assert measured()
