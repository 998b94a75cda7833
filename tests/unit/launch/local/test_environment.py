"""A trial gets what it needs and none of the launcher's secrets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import plumbline
from plumbline.launch.local.process import TRIAL_TOKEN, trial_environment

LIBRARY = str(Path(plumbline.__file__).resolve().parents[1])
INHERITED = {
    "PATH": "/usr/bin",
    "HOME": "/home/somebody",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "LD_LIBRARY_PATH": "/opt/lib",
    "PLUMBLINE_HOME": "/var/lib/plumbline",
    "PYTHONPATH": f"/other{os.pathsep}{LIBRARY}",
    "PLUMBLINE_ARCHIVE_URL": "postgresql://user:secret@host/db",
    "PLUMBLINE_AIRFLOW_PASSWORD": "secret",
    "PLUMBLINE_ADMIN_PASSWORD": "secret",
    "PLUMBLINE_FERNET_KEY": "secret",
    "PLUMBLINE_ARCHIVE_DB_PASSWORD": "secret",
    "PLUMBLINE_ENDPOINT_KEY": "secret",
    "PLUMBLINE_A_SECRET_OF_NEXT_YEAR": "secret",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "secret",
    "AIRFLOW_CONN_SLACK_DEFAULT": "secret",
    "SLACK_BOT_TOKEN": "secret",
    "GITHUB_TOKEN": "secret",
    "AWS_SECRET_ACCESS_KEY": "aws-secret",
    "OMP_NUM_THREADS": "7",
    "MKL_NUM_THREADS": "7",
}


def trial(url: str, inherited: dict[str, str] = INHERITED) -> dict[str, str]:
    return trial_environment(inherited, url, "token-1", Path("/scratch"))


def test_what_a_trial_needs_is_kept() -> None:
    kept = trial("file:///results")
    assert {name: kept[name] for name in ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PLUMBLINE_HOME")} == {
        name: INHERITED[name] for name in ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PLUMBLINE_HOME")
    }
    assert kept["PYTHONPATH"].split(os.pathsep) == [LIBRARY, "/other"]
    assert kept["TMPDIR"] == "/scratch"
    assert kept[TRIAL_TOKEN] == "token-1"


@pytest.mark.fault("a server's secrets are in the launcher's environment", ends="refused", keeps="them from every trial")
def test_secrets_and_thread_counts_are_not() -> None:
    kept = trial("file:///results")
    assert not [name for name, value in kept.items() if "secret" in value]
    assert not [name for name in kept if name.startswith(("OMP_", "MKL_", "AIRFLOW"))]


def test_only_the_credentials_of_the_store_that_is_written_to() -> None:
    assert trial("s3://bucket/results")["AWS_SECRET_ACCESS_KEY"] == "aws-secret"
    assert trial("simplecache::s3://bucket/results")["AWS_SECRET_ACCESS_KEY"] == "aws-secret"
    assert "AWS_SECRET_ACCESS_KEY" not in trial("gs://bucket/results")
    assert trial("gs://bucket", {"FSSPEC_GS_TOKEN": "{}", "FSSPEC_S3": "{}"}).keys() & {"FSSPEC_GS_TOKEN", "FSSPEC_S3"} == {
        "FSSPEC_GS_TOKEN"
    }
    assert trial("gs://bucket", {"GOOGLE_APPLICATION_CREDENTIALS": "/key.json"})["GOOGLE_APPLICATION_CREDENTIALS"] == "/key.json"
