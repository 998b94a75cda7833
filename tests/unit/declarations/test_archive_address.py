"""The archive's address: a variable, the Airflow connection `plumbline_archive`, or the home's own file; and what is said where they disagree."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import ErrorType
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import ConnectionResult, ErrorResponse, GetConnection
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from plumbline.cli.app import app
from plumbline.dashboard.app import create_app
from plumbline.declarations import archive_address, installation_paths
from plumbline.declarations.installation import override_home

POSTGRES = {"conn_type": "postgres", "host": "db.example", "schema": "plumbline", "login": "us er", "password": "p@ss/1"}
ADDRESS = "postgresql://us%20er:p%40ss%2F1@db.example/plumbline"


@pytest.fixture(autouse=True)
def process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A process that has read no connection, outside of Airflow."""
    monkeypatch.setattr(archive_address, "_state", {})
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    for name in ("PLUMBLINE_ARCHIVE_URL", "PLUMBLINE_SERVER", "AIRFLOW_CONN_PLUMBLINE_ARCHIVE"):
        monkeypatch.delenv(name, raising=False)


def connect(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_PLUMBLINE_ARCHIVE", json.dumps({**POSTGRES, **fields}))


def test_without_anything_it_is_the_file_of_the_home(tmp_path: Path) -> None:
    assert installation_paths().archive_url == installation_paths().own_archive_url == f"sqlite:///{tmp_path / 'archive.db'}"


def test_the_connection_names_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, port=5433, extra={"sslmode": "verify-full", "sslrootcert": "/etc/ca.pem"})
    expected = f"{ADDRESS.replace('db.example', 'db.example:5433')}?sslmode=verify-full&sslrootcert=%2Fetc%2Fca.pem"
    assert installation_paths().archive_url == expected


def test_a_rehearsal_has_the_archive_of_its_own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    connect(monkeypatch)
    with override_home(tmp_path / "apart"):
        assert installation_paths().archive_url == f"sqlite:///{tmp_path / 'apart' / 'archive.db'}"
    assert installation_paths().archive_url == ADDRESS


@pytest.mark.parametrize("setting", ["postgresql://reader:x@db.example/plumbline", "postgresql+psycopg://db.example:5432/plumbline"])
def test_a_variable_with_another_role_for_the_same_database_counts(monkeypatch: pytest.MonkeyPatch, setting: str) -> None:
    connect(monkeypatch)
    monkeypatch.setenv("PLUMBLINE_ARCHIVE_URL", setting)
    assert installation_paths().archive_url == setting


@pytest.mark.parametrize("setting", ["postgresql://us:secret@other/plumbline", "postgresql://db.example:5433/plumbline", "sqlite:////a.db"])
def test_two_databases_are_refused_in_one_sentence_without_a_password(monkeypatch: pytest.MonkeyPatch, setting: str) -> None:
    connect(monkeypatch)
    monkeypatch.setenv("PLUMBLINE_ARCHIVE_URL", setting)
    with pytest.raises(
        ValueError, match=r"connection plumbline_archive names postgresql://db.example:5432/plumbline, PLUMBLINE_ARCHIVE_URL names"
    ) as error:
        _ = installation_paths().archive_url
    assert "secret" not in str(error.value) and "p@ss" not in str(error.value)
    command = CliRunner().invoke(app, ["campaigns"])
    assert command.exit_code == 2 and str(error.value) in " ".join(command.stderr.split())
    with TestClient(create_app()) as pages:
        page = pages.get("/", headers={"accept": "text/html"})
    assert page.status_code == 503 and "names postgresql://db.example:5432/plumbline" in page.text


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"conn_type": "sqlite"}, 'has the type "sqlite"; expected postgres'),
        ({"host": None}, "has no host"),
        ({"schema": ""}, "has no schema, the database's name"),
        ({"extra": {"iam": True}}, "has the extra iam; expected some of"),
        ({"extra": {"sslmode": ["require"]}}, "has no text as extra sslmode"),
    ],
)
def test_a_connection_that_names_no_database_is_refused(monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], said: str) -> None:
    connect(monkeypatch, **fields)
    with pytest.raises(ValueError, match="the Airflow connection plumbline_archive") as error:
        _ = installation_paths().archive_url
    assert said in str(error.value)


class Supervisor:
    """What a task asks Airflow's API through."""

    def __init__(self, answer: ConnectionResult | ErrorResponse) -> None:
        self.answer, self.asked = answer, 0

    def send(self, message: object) -> ConnectionResult | ErrorResponse:
        assert isinstance(message, GetConnection) and message.conn_id == "plumbline_archive"
        self.asked += 1
        return self.answer


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    archive_address.ask_airflow()
    yield


def supervised(monkeypatch: pytest.MonkeyPatch, answer: ConnectionResult | ErrorResponse) -> Supervisor:
    supervisor = Supervisor(answer)
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", supervisor, raising=False)
    return supervisor


def test_a_task_reads_the_connection_from_airflow_once(monkeypatch: pytest.MonkeyPatch, task: None) -> None:
    supervisor = supervised(monkeypatch, ConnectionResult(conn_id="plumbline_archive", port=None, extra=None, **POSTGRES))  # type: ignore[arg-type]
    assert {installation_paths().archive_url for _ in range(3)} == {ADDRESS} and supervisor.asked == 1


def test_a_task_of_an_airflow_without_the_connection_has_the_setting(monkeypatch: pytest.MonkeyPatch, task: None) -> None:
    supervised(monkeypatch, ErrorResponse(error=ErrorType.CONNECTION_NOT_FOUND))
    monkeypatch.setenv("PLUMBLINE_ARCHIVE_URL", "postgresql://db/x")
    assert installation_paths().archive_url == "postgresql://db/x"


def test_the_airflow_that_plumbline_starts_asks_for_none(monkeypatch: pytest.MonkeyPatch, task: None, tmp_path: Path) -> None:
    supervisor = supervised(monkeypatch, ConnectionResult(conn_id="plumbline_archive", port=None, extra=None, **POSTGRES))  # type: ignore[arg-type]
    monkeypatch.setenv("PLUMBLINE_SERVER", "id")
    assert installation_paths().archive_url == f"sqlite:///{tmp_path / 'archive.db'}" and not supervisor.asked
