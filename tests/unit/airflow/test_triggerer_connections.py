"""What the triggerer answers about its connections, and what becomes of the answer."""

from __future__ import annotations

import asyncio
import json
import shutil
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.sdk.exceptions import AirflowSkipException, TaskDeferred
from airflow.sdk.execution_time import task_runner
from tests.fakes.installation import own_home
from tests.fakes.trials import CONFIG, cluster_provider
from tests.unit.launch.test_connections import Supervisor

from plumbline.airflow.triggerer_connections import ConnectionsOperator, ConnectionsTrigger
from plumbline.archive import open_archive
from plumbline.workflows.check_connections import needed_now, store_answer

NOW = datetime(2026, 11, 22, 10, 23, tzinfo=timezone.utc)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation with a cluster that needs the connection k8s_a."""
    config = Path(shutil.copytree(CONFIG, tmp_path / "config"))
    provider = json.loads(cluster_provider().model_dump_json(exclude_none=True))
    (config / "providers" / "cluster-a.yaml").write_text(yaml.safe_dump(provider))
    own_home(tmp_path / "home", monkeypatch, config)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    return config


def asked(*names: str) -> dict[str, Any]:
    """What the trigger fires, from its row as Airflow makes it again."""
    _, row = ConnectionsTrigger(list(names), earliest_s=0.0).serialize()

    async def fire() -> list[Any]:
        return [event.payload async for event in ConnectionsTrigger(**json.loads(json.dumps(row))).run()]

    (payload,) = asyncio.run(fire())
    return dict(payload)


def findings() -> list[tuple[str, str]]:
    with open_archive() as archive:
        return [(str(f.detail["subject"]), f.state) for f in archive.findings_of("plumbline", "self")]


@pytest.mark.fault("the triggerer lacks a declared connection", ends="connection_missing until it has it", keeps="the connections' content")
def test_a_connection_that_the_triggerer_lacks_is_a_finding_until_it_has_it(cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert needed_now() == ["k8s_a"]
    answer = asked("k8s_a")
    assert answer == {"there": [], "missing": ["k8s_a"], "unread": {}}
    assert store_answer(answer, NOW) and not store_answer(answer, NOW), "one finding"
    assert findings() == [("connection_missing k8s_a", "open")]
    assert not store_answer(answer, NOW + timedelta(hours=1)), "no alert each hour"
    assert not store_answer({"there": [], "missing": [], "unread": {"k8s_a": "away"}}, NOW + timedelta(hours=1))
    assert findings() == [("connection_missing k8s_a", "open")], "no answer resolves nothing"
    monkeypatch.setenv("AIRFLOW_CONN_K8S_A", json.dumps({"conn_type": "kubernetes", "password": "planted-secret"}))
    answer = asked("k8s_a")
    assert answer["there"] == ["k8s_a"] and "planted-secret" not in json.dumps(answer)
    store_answer(answer, NOW + timedelta(hours=2))
    assert findings() == [("connection_missing k8s_a", "resolved")]


def test_a_place_that_does_not_answer_lacks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", Supervisor(away=True), raising=False)
    answer = asked("nowhere")
    assert (answer["there"], answer["missing"]) == ([], []) and "does not answer" in answer["unread"]["nowhere"]


def test_the_operator_asks_and_a_triggerer_that_is_away_shows_nothing(cluster: Path) -> None:
    operator = ConnectionsOperator(task_id="connections")
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute({})
    assert deferred.value.trigger.names == ["k8s_a"] and deferred.value.trigger.earliest_s >= 20 and deferred.value.timeout
    assert operator.answered({}, {"there": ["k8s_a"], "missing": [], "unread": {}})["there"] == ["k8s_a"]
    assert operator.resume_execution("__fail__", {"error": "Trigger timeout"}, {}) is None
    (cluster / "providers" / "cluster-a.yaml").unlink()
    with pytest.raises(AirflowSkipException):
        operator.execute({})
