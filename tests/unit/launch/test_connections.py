"""Each way to log in that Airflow's own hooks know becomes options of the store's client; what does not fit is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import ErrorResponse, GetConnection
from tests.golden import Golden

from plumbline.alerts.slack import connection as slack
from plumbline.launch import endpoint
from plumbline.launch.cluster.api import open_client
from plumbline.launch.connections import store_options
from plumbline.launch.failures import BadDeclaration, Unreachable

AZURE = "https://account.blob.core.windows.net"


def read(monkeypatch: pytest.MonkeyPatch, url: str, **fields: Any) -> dict[str, Any]:
    monkeypatch.setenv("AIRFLOW_CONN_STORE", json.dumps({"conn_type": "generic", **fields}))
    return store_options(url, "store")


@pytest.mark.parametrize(
    ("url", "fields", "expected"),
    [
        ("s3://b", {"login": "id", "password": "key"}, {"key": "id", "secret": "key"}),
        (
            "s3://b",
            {"extra": {"aws_access_key_id": "id", "aws_secret_access_key": "key", "aws_session_token": "t", "region_name": "r"}},
            {"key": "id", "secret": "key", "token": "t", "client_kwargs": {"region_name": "r"}},
        ),
        ("gs://b", {"extra": {"keyfile_dict": '{"type": "service_account"}'}}, {"token": {"type": "service_account"}}),
        ("gcs://b", {"extra": {"keyfile_dict": {"type": "service_account"}, "project": "p"}}, {"token": {"type": "service_account"}}),
        ("az://c", {"extra": {"connection_string": "AccountName=a"}}, {"connection_string": "AccountName=a"}),
        (
            "az://c",
            {"login": "account", "password": "key"},
            {"connection_string": f"BlobEndpoint={AZURE};AccountName=account;AccountKey=key"},
        ),
        (
            "abfs://c",
            {"login": "account", "host": "account.blob.core.example.cn", "extra": {"shared_access_key": "key"}},
            {"connection_string": "BlobEndpoint=https://account.blob.core.example.cn;AccountName=account;AccountKey=key"},
        ),
        (
            "abfss://c@account.dfs.core.windows.net",
            {"login": "account", "extra": {"sas_token": "?sv=1&sig=2"}},
            {"connection_string": f"BlobEndpoint={AZURE};SharedAccessSignature=sv=1&sig=2"},
        ),
        (
            "az://c",
            {"extra": {"sas_token": f"{AZURE}/?sv=1&sig=2"}},
            {"connection_string": f"BlobEndpoint={AZURE};SharedAccessSignature=sv=1&sig=2"},
        ),
        (
            "az://c",
            {"login": "app", "password": "secret", "host": AZURE, "extra": {"tenant_id": "tenant"}},
            {"account_name": "account", "tenant_id": "tenant", "client_id": "app", "client_secret": "secret"},
        ),
        (
            "abfss://c@account.dfs.core.windows.net",
            {"login": "app", "password": "secret", "extra": {"tenant_id": "tenant"}},
            {"tenant_id": "tenant", "client_id": "app", "client_secret": "secret"},
        ),
    ],
)
def test_each_way_to_log_in(monkeypatch: pytest.MonkeyPatch, url: str, fields: dict[str, Any], expected: dict[str, Any]) -> None:
    assert read(monkeypatch, url, **fields) == expected


def test_a_key_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "key.json").write_text("{}")
    assert read(monkeypatch, "gs://b", extra={"key_path": str(tmp_path / "key.json")}) == {"token": str(tmp_path / "key.json")}


def test_a_connection_that_does_not_open_its_store_says_why(monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    unfit: list[tuple[str, dict[str, Any]]] = [
        ("gs://b", {"extra": {"keyfile_dict": "{cut"}}),
        ("gs://b", {"extra": {"key_path": "/no/key.json"}}),
        ("gs://b", {"extra": {"project": "p"}}),
        ("s3://b", {}),
        ("az://c", {"login": "account"}),
        ("az://c", {"password": "key"}),
        ("az://c", {"extra": {"sas_token": "sv=1"}}),
        ("file:///mnt/x", {"login": "id"}),
    ]
    messages = []
    for url, fields in unfit:
        with pytest.raises(ValueError, match=url) as raised:
            read(monkeypatch, url, **fields)
        messages.append(str(raised.value))
    golden("launch.unfit_connections", "\n".join(messages))


def test_a_connection_that_is_not_there() -> None:
    with pytest.raises(ValueError, match=r"connection nowhere\b.*s3://b"):
        store_options("s3://b", "nowhere")


def test_azures_options_come_before_the_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables may hold the home store's credentials, which is another account."""
    from adlfs import AzureBlobFileSystem

    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", "BlobEndpoint=https://home.example.com;AccountName=home;AccountKey=a2V5")
    for fields in ({"password": "a2V5"}, {"extra": {"sas_token": "sv=1&sig=2"}}):
        found = read(monkeypatch, "az://c", login="account", **fields)
        assert AzureBlobFileSystem(**found, skip_instance_cache=True).service_client.primary_hostname == "account.blob.core.windows.net"


@pytest.mark.parametrize(
    ("url", "fields"),
    [
        ("s3://b", {"login": "id", "password": "key", "extra": {"aws_session_token": "t", "endpoint_url": "http://minio:9000"}}),
        ("az://c", {"login": "account", "host": "http://azurite:10000/account", "extra": {"sas_token": "sv=1&sig=2"}}),
        ("az://c", {"extra": {"sas_token": "http://azurite:10000/account?sv=1&sig=2"}}),
        ("az://c", {"extra": {"connection_string": "DefaultEndpointsProtocol=http;AccountName=a;SharedAccessSignature=sv=1"}}),
    ],
)
def test_a_token_does_not_go_over_plain_http(monkeypatch: pytest.MonkeyPatch, url: str, fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="connection store would send its token over plain http; expected an https:// endpoint"):
        read(monkeypatch, url, **fields)
    near = json.loads(json.dumps(fields).replace("minio", "localhost").replace("azurite", "localhost"))
    if near != fields:
        assert read(monkeypatch, url, **near)


def test_a_key_that_only_signs_may(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {"login": "id", "password": "key", "extra": {"endpoint_url": "http://minio:9000"}}
    assert read(monkeypatch, "s3://b", **fields)["endpoint_url"] == "http://minio:9000"


class Supervisor:
    """What answers a task's questions: Airflow's API, through the task's own supervisor."""

    def __init__(self, away: bool) -> None:
        self.away, self.asked = away, 0

    def send(self, message: GetConnection) -> ErrorResponse:
        self.asked += 1
        if self.away:
            detail = {"status_code": None, "message": "[Errno 111] Connection refused", "exception_type": "ConnectError"}
            raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail=detail))
        return ErrorResponse(error=ErrorType.CONNECTION_NOT_FOUND, detail={"conn_id": message.conn_id})


READERS = {
    "a store": (lambda: store_options("s3://b", "nowhere"), ConnectionError, ValueError),
    "an endpoint's key": (lambda: endpoint._api_key("nowhere"), ConnectionError, ValueError),
    "a cluster": (lambda: open_client("nowhere"), Unreachable, BadDeclaration),
    "Slack": (lambda: slack.connect("nowhere"), ConnectionError, None),
}


@pytest.mark.fault("Airflow's API is away as a task reads a connection", ends="retried", keeps="the declaration: it is not blamed")
@pytest.mark.parametrize("reader", READERS)
def test_a_connection_is_not_called_undefined_while_airflows_api_is_away(monkeypatch: pytest.MonkeyPatch, reader: str) -> None:
    read, away, undefined = READERS[reader]
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", Supervisor(away=True), raising=False)
    with pytest.raises(away, match=r"Airflow's API does not answer.*nowhere.*Connection refused"):
        read()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", Supervisor(away=False), raising=False)
    if undefined is None:
        assert read() is None
    else:
        with pytest.raises(undefined, match="nowhere"):
            read()
    assert task_runner.SUPERVISOR_COMMS.asked >= 1
