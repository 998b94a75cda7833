"""What a task learns of Airflow: from its own API, from a real health page, and by parsing DAG files in a process of their own."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse
from tests.fakes.fake_airflow_api import fake_airflow

from plumbline.airflow import versions
from plumbline.airflow.health import TaskView, is_ours, read_dag_files
from plumbline.workflows.airflow_view import DeclaredDag, DeployedDag

NOW = datetime(2026, 11, 22, 10, 20, tzinfo=timezone.utc)


class Instance:
    """Answers as `RuntimeTaskInstance` does, from rows (dag, run, task, state, logical date)."""

    def __init__(self, rows: list[tuple[str, str, str, str | None, datetime | None]], bundle: Path | None = None) -> None:
        self.rows = rows
        self.bundle_instance = SimpleNamespace(path=bundle)

    def get_dag(self, dag_id: str) -> Any:
        if dag_id not in {row[0] for row in self.rows}:
            code = 404 if dag_id == "gone" else 500
            raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail={"status_code": code}))
        return SimpleNamespace(is_paused=True, next_dagrun=NOW)

    def get_ti_count(self, dag_id: str, task_ids: list[str], states: list[str]) -> int:
        return sum(row[0] == dag_id and row[2].rstrip("_0123456789") in task_ids and row[3] in states for row in self.rows)

    def get_task_states(self, dag_id: str, task_ids: list[str], logical_dates: list[datetime] | None = None) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for dag, run, task, state, at in self.rows:
            if dag == dag_id and task.rstrip("_0123456789") in task_ids and (logical_dates is None or at in logical_dates):
                found.setdefault(run, {})[task] = state
        return found

    def get_dr_count(self, dag_id: str, logical_dates: list[datetime] | None = None, states: list[str] | None = None) -> int:
        rows = [row for row in self.rows if row[0] == dag_id and (states is None or row[3] in states)]
        return len({row[1] for row in rows if logical_dates is None or row[4] in logical_dates})


def test_runs_with_a_failed_task_and_the_newest_run_that_has_ended() -> None:
    last, before = NOW.replace(hour=9, minute=23), NOW.replace(hour=8, minute=23)
    view = TaskView(
        Instance(
            [
                ("b", "r1", "training.record_0", "failed", None),
                ("b", "r2", "training.record_0", "success", None),
                ("upkeep", "u2", "sweep_0", "running", last),
                ("upkeep", "u1", "sweep_0", "failed", before),
            ]
        )
    )
    assert view.task_states("b", ["training.record"]) == {"r1": {"training.record_0": "failed"}}
    assert view.task_states("b", ["publish"]) == {}
    assert view.newest_states(DeclaredDag("upkeep", "f", ("sweep",), slots=(last, before))) == ("u1", {"sweep_0": "failed"})
    assert view.started("upkeep", last) and not view.started("upkeep", last + timedelta(hours=1))
    assert view.active("upkeep") and not view.active("b")
    assert view.dag("b") == DeployedDag(paused=True, due=NOW) and view.dag("gone") is None
    with pytest.raises(AirflowRuntimeError):
        view.dag("another error")


def test_heartbeats_are_read_from_the_health_page(monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_airflow() as server:
        monkeypatch.setenv("AIRFLOW__CORE__EXECUTION_API_SERVER_URL", f"{server.address}/execution/")
        server.health = {"triggerer": {"status": None, "latest_triggerer_heartbeat": None}}
        server.health |= {"dag_processor": {"status": "healthy", "latest_dag_processor_heartbeat": "2026-11-22T10:19:58Z"}}
        found = TaskView(Instance([])).heartbeats()
    assert found == {"triggerer": None, "dag_processor": NOW - timedelta(seconds=2)}
    with pytest.raises(OSError, match="does not answer"):
        TaskView(Instance([])).heartbeats()


FILES = {
    "good.py": """
from airflow.sdk import CronTriggerTimetable, dag, task
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from plumbline.airflow.defaults import found_elsewhere, defaults

@dag(schedule=CronTriggerTimetable("23 * * * *", timezone="UTC"), **defaults("doc", housekeeping=True))
def good():
    @task
    def ours(x): ...

    @task
    @found_elsewhere
    def theirs(x): ...

    ours.expand(x=[1]) >> theirs.expand(x=[1]) >> EmptyOperator(task_id="end")
    TriggerDagRunOperator.partial(task_id="ask", trigger_dag_id="asked").expand(conf=[{}])

@dag(schedule=None, **defaults("doc", asked=True))
def asked(): ...

good()
asked()
""",
    "bad.py": "from plumbline.airflow.dags import build\nraise ValueError('boom')\n",
    "other_team.py": "from airflow.sdk import dag\nraise ValueError('not ours')\n",
}


def test_dag_files_say_themselves_what_must_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "airflow-db-not-allowed:///")
    monkeypatch.setenv("PLUMBLINE_TEAM_SERVER", "true")
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    read = read_dag_files(tmp_path)
    ((file, why),) = read.unreadable.items()
    assert file == "bad.py" and "boom" in why and read.files == {"good.py", "bad.py"}
    good, asked = read.dags["good"], read.dags["asked"]
    assert (good.file, good.tasks, good.scheduled, good.by_itself, good.repeats) == ("good.py", ("ask", "ours"), True, True, True)
    assert len(good.slots) == 3 and {(s.minute, s.second) for s in good.slots} == {(23, 0)} and good.slots[0] > good.slots[1]
    assert good.starts == ("asked",) and not asked.scheduled and asked.slots == ()
    assert read.watched == [asked, good]


def test_an_airflow_whose_tasks_read_no_dags_leaves_the_state_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "TASKS_READ_DAGS", False)
    view = TaskView(Instance([("b", "r1", "record", "success", None)]))
    assert view.dag("b") == DeployedDag(None) and view.dag("gone") == DeployedDag(None) and view.is_paused("b") is None


def test_a_file_that_cannot_be_read_may_be_ours(tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text("from airflow.sdk import dag\n")
    (tmp_path / "ours.py").write_text("from plumbline.airflow.dags import build\n")
    found = {name: is_ours(str(tmp_path / name)) for name in ("theirs.py", "ours.py", "gone.py")}
    assert found == {"theirs.py": False, "ours.py": True, "gone.py": True}
