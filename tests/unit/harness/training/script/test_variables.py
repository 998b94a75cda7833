"""What a team's command gets of the environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.trials import cluster_provider

from plumbline.declarations.workloads.script import OF_HARNESS
from plumbline.harness.training.script.variables import MARKS, command_environment, inherited
from plumbline.harness.training.worker_protocol import ProcessGroupSpec
from plumbline.launch.cluster.store_credentials import MODEL_KEYS, STORE_VARIABLES
from plumbline.launch.local import process
from plumbline.results.signing import KEY_VARIABLE

OWN = {
    "AWS_SECRET_ACCESS_KEY": "hunter2",
    "AWS_WEB_IDENTITY_TOKEN_FILE": "/var/run/secrets/token",
    "GOOGLE_APPLICATION_CREDENTIALS": "/key.json",
    "PLUMBLINE_HOME": "/srv/plumbline",
    "PLUMBLINE_ARCHIVE_URL": "postgresql://archive",
    "PLUMBLINE_EVIDENCE_KEY": "hunter2",
    "AIRFLOW__CORE__FERNET_KEY": "hunter2",
    "SCRIPTS_FOLDER": "/srv/scripts",
    KEY_VARIABLE: "hunter2",
}
KEPT = {"PATH": "/bin", "CUDA_VISIBLE_DEVICES": "0", "LC_ALL": "C", "NCCL_DEBUG": "WARN", MARKS[0]: "abc"}
OF_IMAGE = {"DATA_DIR": "/data", "HF_HOME": "/work/cache", "HF_TOKEN": "hf_x"}


def test_nothing_of_the_harness_reaches_a_command() -> None:
    everything = {name: "x" for names in STORE_VARIABLES.values() for name in names} | dict.fromkeys(MODEL_KEYS.values(), "x") | OWN
    for home in ("", "/trial/home"):
        assert inherited({**everything, **KEPT}, (), home).keys() - {"HOME"} == KEPT.keys()


def test_no_store_s_variable_of_a_local_launch_is_kept() -> None:
    """Each prefix under which a trial gets its store's keys."""
    for prefix in {prefix for prefixes in process._STORE_PREFIXES.values() for prefix in prefixes}:
        assert inherited({f"{prefix}X" if prefix.endswith("_") else prefix: "x"}, (), "") == {}, prefix


def test_a_pod_s_command_gets_what_its_image_and_provider_give() -> None:
    patch = {"spec": {"containers": [{"name": "harness", "env": [{"name": "AWS_PROFILE", "value": "team"}]}]}}
    launcher: Any = cluster_provider(env={"NCCL_DEBUG": "INFO"}, pod_patch=patch).launcher
    assert launcher.given_variables == {"NCCL_DEBUG", "AWS_PROFILE"}
    got = inherited({**OWN, **KEPT, **OF_IMAGE, "AWS_PROFILE": "team", "HOME": "/work"}, launcher.given_variables, "")
    assert got == {**KEPT, **OF_IMAGE, "AWS_PROFILE": "team", "HOME": "/work"}


def test_here_the_list_is_closed_and_the_home_its_own(tmp_path: Path) -> None:
    assert inherited({**KEPT, **OF_IMAGE, "HOME": str(tmp_path)}, (), "/trial/home") == {**KEPT, "HOME": "/trial/home"}
    (tmp_path / ".local").mkdir()
    assert inherited({"HOME": str(tmp_path)}, (), "/trial/home")["PYTHONUSERBASE"] == str(tmp_path / ".local")


def test_ranks_and_the_reporter_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in OF_HARNESS:
        monkeypatch.setenv(name, "of another job")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    group = ProcessGroupSpec(rank=3, world=4, local=1, nodes=2, backend="gloo", host="10.0.0.1", port=29500, run="run")
    got = command_environment("/pipe", group, launches_ranks=False, threads=2, home="/trial/home")
    assert (got["RANK"], got["WORLD_SIZE"], got["LOCAL_RANK"], got["MASTER_ADDR"]) == ("3", "4", "1", "10.0.0.1")
    assert got["PLUMBLINE_REPORT"] == "/pipe" and "reporter" in got["PYTHONPATH"] and "hunter2" not in json.dumps(got)
