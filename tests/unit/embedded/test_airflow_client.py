"""The REST client against a server that answers like Airflow, and fails like it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import httpx
import pytest
from tests.fakes.fake_airflow_api import FakeAirflow, fake_airflow
from tests.fakes.trials import cluster_provider, declared

from plumbline.embedded.client import AirflowClient, AirflowError
from plumbline.embedded.server import create_pools


@pytest.fixture
def airflow() -> Iterator[FakeAirflow]:
    with fake_airflow() as state:
        yield state


@pytest.fixture
def client(airflow: FakeAirflow) -> Iterator[AirflowClient]:
    with AirflowClient(airflow.address, "admin", "right") as made:
        yield made


def dag(number: int) -> dict[str, Any]:
    parsed = "2026-11-01T02:00:00.5Z" if number else None
    return {"dag_id": f"d{number}", "is_paused": True, "is_stale": False, "last_parsed_time": parsed}


def test_lists_are_read_to_their_last_page(airflow: FakeAirflow, client: AirflowClient) -> None:
    airflow.dags = [dag(i) for i in range(205)]
    found = client.dags()
    assert len(found) == 205
    assert found["d0"].parsed_at is None
    assert found["d1"].parsed_at is not None
    assert found["d1"].parsed_at.tzinfo is not None


def test_a_token_that_ran_out_is_renewed(airflow: FakeAirflow, client: AirflowClient) -> None:
    client.dags()
    airflow.token += 1
    client.dags()
    assert airflow.logins == 2


def test_wrong_credentials_are_told_at_once(airflow: FakeAirflow) -> None:
    with AirflowClient(airflow.address, "admin", "wrong") as client, pytest.raises(AirflowError, match="as admin: 401") as refused:
        client.dags()
    assert (refused.value.status, airflow.logins) == (401, 1)


def test_a_refused_run_names_the_field(airflow: FakeAirflow, client: AirflowClient) -> None:
    path = "/api/v2/dags/d/dagRuns"
    airflow.answers["POST", path] = (422, {"detail": [{"loc": ["body", "conf", "repeats"], "msg": "0 is below 1"}]})
    with pytest.raises(AirflowError, match=r"body\.conf\.repeats: ") as refused:
        client.trigger("d", {"repeats": 0})
    assert refused.value.status == 422 and path in str(refused.value)


def test_an_answer_that_is_no_json_is_quoted(airflow: FakeAirflow, client: AirflowClient) -> None:
    airflow.answers["GET", "/api/v2/dags/d/dagRuns/r"] = (200, "<html>a proxy</html>")
    with pytest.raises(AirflowError, match="<html>a proxy"):
        client.run("d", "r")


def test_no_server_is_no_answer() -> None:
    with AirflowClient("http://127.0.0.1:9", "admin", "x") as client, pytest.raises(AirflowError, match="no answer") as failed:
        client.dags()
    assert failed.value.status is None


@pytest.mark.fault("the API server restarts during a campaign", ends="asked again", keeps="the campaign; no run is started twice")
def test_a_server_that_drops_connections_is_asked_again(airflow: FakeAirflow) -> None:
    airflow.dags = [dag(1)]
    with AirflowClient(airflow.address, "admin", "right", patience_s=60) as client:
        airflow.drop = 2  # the login and its second try
        assert set(client.dags()) == {"d1"}
        airflow.drop = 1
        assert set(client.dags()) == {"d1"}
        airflow.drop = 1
        run = client.trigger("d1", {"campaign": "c"})
    assert [(r["dag_run_id"], r["conf"]) for r in airflow.runs["d1"]] == [(run.run_id, {"campaign": "c"})]


@pytest.mark.fault("the API server answers later than a client waits", ends="asked again", keeps="the campaign")
def test_a_server_that_answers_late_is_asked_again(airflow: FakeAirflow, monkeypatch: pytest.MonkeyPatch) -> None:
    airflow.dags, sent, late = [dag(1)], httpx.Client.request, [httpx.ReadTimeout("timed out"), httpx.ConnectTimeout("timed out")]

    def request(self: httpx.Client, *arguments: Any, **options: Any) -> httpx.Response:
        if late:
            raise late.pop()
        return sent(self, *arguments, **options)

    with AirflowClient(airflow.address, "admin", "right", patience_s=60) as client:
        assert set(client.dags()) == {"d1"}
        monkeypatch.setattr(httpx.Client, "request", request)
        assert set(client.dags()) == {"d1"}
        assert late == []
    with AirflowClient(airflow.address, "admin", "right") as client:
        late.append(httpx.ReadTimeout("timed out"))
        with pytest.raises(AirflowError, match="no answer"):
            client.dags()


@pytest.mark.fault("the API server fails after it began a run", ends="asked again", keeps="the one run")
def test_a_run_whose_answer_was_lost_is_not_started_twice(airflow: FakeAirflow, client: AirflowClient) -> None:
    airflow.dags, airflow.lose = [dag(1)], 1
    first, second = client.trigger("d1", {}), client.trigger("d1", {})
    assert [r["dag_run_id"] for r in airflow.runs["d1"]] == [first.run_id, second.run_id]


def test_a_pool_that_may_have_been_made_is_not_asked_for_again(airflow: FakeAirflow, client: AirflowClient) -> None:
    airflow.answers["POST", "/api/v2/pools"] = (500, {"detail": "database is locked"})
    with pytest.raises(AirflowError) as refused:
        client.put_pool("p", 1, "")
    assert refused.value.status == 500
    assert [method for method, path, _, _ in airflow.seen if path == "/api/v2/pools"] == ["POST"]


def test_run_ids_are_quoted_in_paths(airflow: FakeAirflow, client: AirflowClient) -> None:
    answer = {"dag_id": "d", "dag_run_id": "manual__2026-11-21T00:25:53+00:00", "state": "failed", "run_type": "manual", "conf": None}
    path = "/api/v2/dags/d/dagRuns/manual__2026-11-21T00%3A25%3A53%2B00%3A00"
    airflow.answers["GET", path] = (200, answer)
    assert client.run("d", answer["dag_run_id"]).ended


def test_pools_are_made_once_and_mended(airflow: FakeAirflow, client: AirflowClient) -> None:
    shipped = declared()
    local = [shipped.providers["local-1core"], shipped.providers["local-2core"]]
    assert create_pools(client, local) == ["plumbline_this-machine"], "one machine, one pool"
    airflow.pools["plumbline_this-machine"]["slots"] = 16
    create_pools(client, local)
    pool = airflow.pools["plumbline_this-machine"]
    assert (pool["slots"], pool["include_deferred"]) == (1, True)
    assert [method for method, path, _, _ in airflow.seen if path.startswith("/api/v2/pools") and method != "GET"] == ["POST", "PATCH"]


def test_a_clusters_pool_has_as_many_slots_as_its_quota_allows_trials(airflow: FakeAirflow, client: AirflowClient) -> None:
    create_pools(client, [cluster_provider(parallel=4)])
    assert airflow.pools["plumbline_cluster-a"]["slots"] == 4


@pytest.mark.fault("a DAG file that was mended since an earlier start", ends="not counted against this start", keeps="its present errors")
def test_import_errors_of_an_earlier_start_do_not_count(airflow: FakeAirflow, client: AirflowClient) -> None:
    airflow.import_errors = [
        {"filename": "old.py", "stack_trace": "x", "timestamp": "2026-11-22T09:00:00Z"},
        {"filename": "new.py", "stack_trace": "y", "timestamp": "2026-11-22T10:00:01Z"},
    ]
    assert client.import_errors(datetime(2026, 11, 22, 10, tzinfo=timezone.utc)) == {"new.py": "y"}
    assert set(client.import_errors()) == {"old.py", "new.py"}
