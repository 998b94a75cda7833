"""The result store's bucket is made once, on a real S3 API."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer
from tests.fakes.quick_python import search_path

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield {
        **{k: v for k, v in os.environ.items() if not k.startswith("AWS_")},
        "PYTHONPATH": search_path(ROOT / "include"),
        "PLUMBLINE_RESULTS_URL": "s3://a-new-bucket/results",
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_MAX_ATTEMPTS": "1",
    }
    server.stop()


def make_bucket(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "plumbline.embedded.result_bucket"]
    return subprocess.run(command, check=False, env=environment, capture_output=True, text=True)


def test_the_bucket_is_made_and_may_be_there_already(environment: dict[str, str]) -> None:
    for _ in range(2):
        done = make_bucket(environment)
        assert (done.returncode, done.stderr) == (0, "")
        assert "s3://a-new-bucket/results exists" in done.stdout


@pytest.mark.full
def test_a_store_that_is_away_is_told(environment: dict[str, str]) -> None:
    done = make_bucket({**environment, "AWS_ENDPOINT_URL": "http://127.0.0.1:1"})
    assert done.returncode == 1
    assert "s3://a-new-bucket/results" in done.stderr
