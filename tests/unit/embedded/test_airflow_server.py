"""What is decided before anything starts: the port, and that a home has one owner."""

from __future__ import annotations

import fcntl
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from plumbline.embedded.server import AirflowServer, ServerError, _port


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
        monkeypatch.setenv("PLUMBLINE_PORT", str(port))
        yield port


def test_a_campaign_takes_any_free_port_if_the_wanted_one_is_taken(taken: int) -> None:
    found = _port("run")
    assert found != taken
    with socket.create_server(("127.0.0.1", found)):
        pass


def test_an_airflow_that_stays_says_which_port_is_taken_and_what_to_do(taken: int) -> None:
    with pytest.raises(ServerError, match=rf"port {taken} .*PLUMBLINE_PORT"):
        _port("up")


@pytest.mark.parametrize("mode", ["run", "up"])
def test_a_free_port_that_is_wanted_is_taken(mode: str, taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        free = int(other.getsockname()[1])
    monkeypatch.setenv("PLUMBLINE_PORT", str(free))
    assert _port(mode) == free


@pytest.mark.parametrize("text", ["http", "0", "70000", "-1"])
def test_a_port_that_is_none_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_PORT", text)
    with pytest.raises(ServerError, match="PLUMBLINE_PORT"):
        _port("run")


def test_a_home_has_one_owner_and_a_refused_one_leaves_it_alone(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        server = AirflowServer(tmp_path)
        with pytest.raises(ServerError, match=f"already running in {tmp_path}"):
            server.start()
        server.stop()
        assert [f.name for f in tmp_path.iterdir()] == ["lock"]
