"""Which Airflow a command speaks to, and what is said if there is none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.fake_airflow_api import FakeAirflow, fake_airflow

from plumbline.embedded import client
from plumbline.embedded.client import AirflowError
from plumbline.embedded.settings import write_settings

NAMES = (client.ADDRESS, client.USER, client.PASSWORD)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "airflow"


@pytest.fixture
def airflow() -> Iterator[FakeAirflow]:
    with fake_airflow() as fake:
        yield fake


def test_the_installations_own_airflow_is_found_by_its_settings(home: Path, airflow: FakeAirflow) -> None:
    write_settings(home, int(airflow.address.rpartition(":")[2]), reparse=True)
    airflow.password = json.loads((home / "passwords.json").read_text())["admin"]
    with client.connect() as connected:
        assert connected.dags() == {}
    assert client.airflow_address() == airflow.address


def test_a_named_server_comes_first(home: Path, airflow: FakeAirflow, monkeypatch: pytest.MonkeyPatch) -> None:
    write_settings(home, 1, reparse=True)
    for name, value in zip(NAMES, (f"{airflow.address}/", "me", "right"), strict=True):
        monkeypatch.setenv(name, value)
    with client.connect() as connected:
        assert connected.dags() == {}
    assert airflow.seen[0][3] == {"username": "me", "password": "right"}


def test_no_airflow_says_how_to_start_one(home: Path) -> None:
    with pytest.raises(AirflowError, match=r"`plumbline up`"):
        client.connect()
    write_settings(home, 1, reparse=True)
    with pytest.raises(AirflowError, match=r"(?s)http://127.0.0.1:1.*no answer.*`plumbline up`"):
        client.connect()


def test_a_login_that_is_refused_or_missing_is_said(airflow: FakeAirflow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(client.ADDRESS, airflow.address)
    monkeypatch.setenv(client.USER, "me")
    with pytest.raises(AirflowError, match=f"{client.PASSWORD} is not"):
        client.connect()
    monkeypatch.setenv(client.PASSWORD, "wrong")
    with pytest.raises(AirflowError) as refused:
        client.connect()
    assert refused.value.status == 401


@pytest.mark.fault("the address of Airflow is plain HTTP on another machine", ends="refused", keeps="the password")
@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("http://plumbline.svc:8080", "in clear"),
        ("https://me:pw@plumbline.example.com", "a user or password"),
        ("http://0.0.0.0:%d", "in clear"),
    ],
)
def test_no_password_goes_over_plain_http(airflow: FakeAirflow, monkeypatch: pytest.MonkeyPatch, address: str, said: str) -> None:
    port = int(airflow.address.rpartition(":")[2])
    for name, value in zip(NAMES, (address.replace("%d", str(port)), "me", "right"), strict=True):
        monkeypatch.setenv(name, value)
    with pytest.raises(AirflowError, match=f"{client.ADDRESS} .*{said}.*expected an address such as https://"):
        client.connect()
    assert not airflow.seen
