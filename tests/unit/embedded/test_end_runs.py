"""A campaign that was killed leaves no DAG unpaused and no run of it going on."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.fake_airflow_api import FakeAirflow, fake_airflow

from plumbline.embedded.client import AirflowClient, AirflowError, end_runs_since, pause_again, unpause


@pytest.fixture
def airflow() -> Iterator[FakeAirflow]:
    with fake_airflow() as state:
        state.dags = [{"dag_id": d, "is_paused": d != "mine", "is_stale": False, "last_parsed_time": None} for d in ("a", "b", "mine")]
        for dag in state.dags:
            path = f"/api/v2/dags/{dag['dag_id']}"
            state.answers["PATCH", path] = (200, dag)
            state.answers["GET", f"{path}/dagRuns"] = (200, {"dag_runs": [], "total_entries": 0})
        yield state


@pytest.fixture
def client(airflow: FakeAirflow) -> Iterator[AirflowClient]:
    with AirflowClient(airflow.address, "admin", "right") as made:
        yield made


def changes(airflow: FakeAirflow) -> list[tuple[str, Any]]:
    found = [(path.rpartition("/")[2], body) for method, path, _, body in airflow.seen if method == "PATCH"]
    airflow.seen.clear()
    return found


def test_a_dag_that_is_gone_is_named_and_nothing_is_unpaused(airflow: FakeAirflow, client: AirflowClient, tmp_path: Path) -> None:
    with pytest.raises(AirflowError, match=r"^edited "):
        unpause(tmp_path, client, ["a", "edited"])
    assert changes(airflow) == []


def test_what_was_paused_is_paused_again_and_what_a_person_unpaused_stays(
    airflow: FakeAirflow, client: AirflowClient, tmp_path: Path
) -> None:
    unpause(tmp_path, client, ["a", "mine"])
    assert changes(airflow) == [("a", {"is_paused": False}), ("mine", {"is_paused": False})]
    pause_again(tmp_path, client)
    assert changes(airflow) == [("a", {"is_paused": True})]
    pause_again(tmp_path, client)
    assert changes(airflow) == [], "it is forgotten once it is done"


@pytest.mark.fault("`make run` is killed", ends="settled by the next start", keeps="recorded trials")
def test_a_killed_campaign_is_settled_by_the_next_start(airflow: FakeAirflow, client: AirflowClient, tmp_path: Path) -> None:
    unpause(tmp_path, client, ["a"])
    airflow.dags[0]["is_paused"] = False
    unpause(tmp_path, client, ["a", "b"])
    changes(airflow)
    run = {"dag_id": "b", "dag_run_id": "r", "state": "running", "run_type": "manual", "conf": {}}
    airflow.answers["GET", "/api/v2/dags/b/dagRuns"] = (200, {"dag_runs": [run], "total_entries": 1})
    airflow.answers["PATCH", "/api/v2/dags/b/dagRuns/r"] = (200, run)
    pause_again(tmp_path, client)
    told = changes(airflow)
    assert told[:2] == [("a", {"is_paused": True}), ("b", {"is_paused": True})]
    assert told[2][0] == "r"
    assert told[2][1]["state"] == "failed"


def test_a_dag_whose_provider_is_gone_is_passed_over(airflow: FakeAirflow, client: AirflowClient, tmp_path: Path) -> None:
    unpause(tmp_path, client, ["a"])
    changes(airflow)
    del airflow.dags[0]
    pause_again(tmp_path, client)
    assert changes(airflow) == []


def test_runs_since_a_moment_that_still_go_on_are_ended_and_those_that_are_over_are_left(
    airflow: FakeAirflow, client: AirflowClient
) -> None:
    since = datetime(2026, 11, 1, tzinfo=timezone.utc)
    states = {"waits": "running", "over": "success"}
    runs = [{"dag_id": "a", "dag_run_id": r, "state": s, "run_type": "manual", "conf": {}} for r, s in states.items()]
    airflow.answers["GET", "/api/v2/dags/a/dagRuns"] = (200, {"dag_runs": runs, "total_entries": 2})
    airflow.answers["PATCH", "/api/v2/dags/a/dagRuns/waits"] = (200, runs[0])
    end_runs_since(client, "a", since, "asked in vain")
    (asked,) = [query for method, path, query, _ in airflow.seen if method == "GET" and path.endswith("dagRuns")]
    assert asked["run_after_gte"] == [since.isoformat()]
    assert changes(airflow) == [("waits", {"state": "failed", "note": "asked in vain"})]
