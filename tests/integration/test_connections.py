"""A command beside Airflow reads the connections that were given to Airflow, wherever Airflow keeps them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fakes.fake_kubernetes import FakeKubernetes

from plumbline.launch.cluster.api import ClusterApi
from plumbline.orchestration.airflow_settings import write_settings
from plumbline.orchestration.connections import adopt, airflow_environment, variable

pytestmark = pytest.mark.integration


def airflow(*words: str) -> None:
    done = subprocess.run([sys.executable, "-m", "airflow", *words], env=airflow_environment(os.environ), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_a_connection_that_was_imported_from_a_file_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The way that docs/clusters.md describes, with the embedded Airflow's own database."""
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    write_settings(tmp_path / "airflow", 1, reparse=False)
    airflow("db", "migrate")
    for name in ("k8s_stored", "k8s_absent"):
        monkeypatch.setenv(variable(name), "")
        monkeypatch.delenv(variable(name))  # and again after the test
    with FakeKubernetes() as kube:
        (tmp_path / "connection.json").write_text(json.dumps({"k8s_stored": json.loads(kube.connection_json())}))
        airflow("connections", "import", str(tmp_path / "connection.json"))
        assert adopt(["k8s_stored", "k8s_absent"]) == ["k8s_absent"]
        assert ClusterApi("k8s_stored", "plumbline").pods("a=b") == []
        assert kube.token.encode() not in (tmp_path / "airflow" / "airflow.db").read_bytes()


def test_a_connection_of_the_environment_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable("k8s_here"), "kubernetes://")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")  # nothing could be asked
    assert adopt(["k8s_here"]) == []


def test_an_airflow_that_cannot_be_asked_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    monkeypatch.setenv("AIRFLOW__SECRETS__BACKEND", "no.such.Backend")
    with pytest.raises(RuntimeError, match="Airflow could not be asked for the connection k8s_there: "):
        adopt(["k8s_there"])
