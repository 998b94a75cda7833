"""The doctor in an Airflow that a team had: by that Airflow's own settings, with remedies that fit it."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest

from plumbline.declarations import load
from plumbline.embedded.doctor import airflow, machine
from plumbline.embedded.doctor.airflow import Metadata
from plumbline.embedded.doctor.databases import AirflowPlace, find_airflow


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "config").mkdir()
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(tmp_path / "dags"))
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", f"sqlite:///{tmp_path / 'their.db'}")
    return tmp_path / "config"


def test_the_file_of_airflow_init_makes_the_difference(config: Path, tmp_path: Path) -> None:
    ours = find_airflow(tmp_path, {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "sqlite:///a.db"})
    assert (ours.kind, ours.serves_a_team) == ("server", True) and "docker compose" in ours.start("scheduler")
    (config / "airflow.yaml").write_text("dag_prefix: gpu_\n")
    theirs = find_airflow(tmp_path, {})
    assert (theirs.kind, theirs.serves_a_team, theirs.running) == ("shared", True, True)
    assert (theirs.database, theirs.dags) == (f"sqlite:///{tmp_path / 'their.db'}", tmp_path / "dags")
    assert "docker" not in theirs.start("scheduler") and "plumbline up" not in theirs.start("scheduler")


def test_a_missing_pool_and_dag_are_named_with_remedies_of_that_airflow(tmp_path: Path) -> None:
    (tmp_path / "plumbline_rerun.py").write_text('from plumbline.airflow.dags import build\n\nDAGS = build("rerun")\n')
    place, declared = AirflowPlace("shared", True, "sqlite://", None, tmp_path), load()
    known = Metadata(dags={"their_etl": False}, beats={"scheduler": datetime.now(timezone.utc)})
    lines = [*airflow.dags(place, known, declared, place.dags), *airflow.pools(place, known, declared)]
    missing = {line.check: line for line in lines if line.status == "failed"}
    assert "rerun is not in Airflow" in " ".join(line.found for line in lines)
    assert "airflow pools set" in str(missing["pools"]) and "docker" not in " ".join(map(str, lines))


def test_the_installed_airflow_is_compared_with_the_supported_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "in_shared_airflow", lambda: True)
    line = list(machine.versions(None))[-1]
    assert line.status == "ok" and "supported: Airflow 3.1 to 3.3" in line.found


def test_a_package_that_names_no_requirement_is_not_called_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "in_shared_airflow", lambda: False)
    monkeypatch.setattr(machine, "requires", lambda name: None)
    assert list(machine.versions(None))[-1].status == "unknown"
