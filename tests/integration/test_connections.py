"""A command beside Airflow reads the connections that were given to Airflow, wherever Airflow keeps them."""

from __future__ import annotations

import fcntl
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fakes.fake_kubernetes import FakeKubernetes

from plumbline.embedded.connections import prepare, provide_connections, variable
from plumbline.embedded.supervisor import is_migrated
from plumbline.launch.cluster.api import ClusterApi


def airflow(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "plumbline.cli", "airflow", *words], capture_output=True, text=True, check=False)


@pytest.mark.full
def test_a_connection_that_was_imported_from_a_file_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The way that docs/clusters.md describes, with the embedded Airflow's own database, before it was ever started."""
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    for name in ("AIRFLOW_HOME", "AIRFLOW_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    for name in ("k8s_stored", "k8s_absent"):
        monkeypatch.setenv(variable(name), "")
        monkeypatch.delenv(variable(name))  # and again after the test
    with FakeKubernetes() as kube:
        (tmp_path / "connection.json").write_text(json.dumps({"k8s_stored": json.loads(kube.connection_json())}))
        done = airflow("connections", "import", str(tmp_path / "connection.json"))
        assert done.returncode == 0, done.stderr
        assert provide_connections(["k8s_stored", "k8s_absent"]) == ["k8s_absent"]
        assert ClusterApi("k8s_stored", "plumbline").pods("a=b") == []
        assert kube.token.encode() not in (tmp_path / "airflow" / "airflow.db").read_bytes()


@pytest.mark.full
def test_airflows_exit_status_and_its_options_are_airflows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the Airflow that the environment names: nothing is made for the embedded one."""
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "theirs"))
    assert "Usage: airflow" in airflow("--help").stdout
    assert airflow("no-such-command").returncode == 2
    assert not (tmp_path / "airflow").exists()


def test_no_second_airflow_is_made_while_one_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    for name in ("AIRFLOW_HOME", "AIRFLOW_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "airflow"
    home.mkdir()
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(RuntimeError, match=re.escape(str(home))):
            prepare()
    assert not is_migrated(home)


def test_a_connection_of_the_environment_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable("k8s_here"), "kubernetes://")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")  # nothing could be asked
    assert provide_connections(["k8s_here"]) == []


def test_an_airflow_that_cannot_be_asked_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    monkeypatch.setenv("AIRFLOW__SECRETS__BACKEND", "no.such.Backend")
    with pytest.raises(RuntimeError, match="k8s_there"):
        provide_connections(["k8s_there"])
