"""The result store on a real S3 API over HTTP, as a GPU cluster's pods and the Airflow side use it: two processes, one bucket."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
import fsspec
import pytest
from moto.server import ThreadedMotoServer
from tests.fakes.trials import a_trial, cluster_provider

from plumbline.launch import stores
from plumbline.launch.collect import collect
from plumbline.results import BadResult, Environment, LaunchRecord, ResultDocument, ResultStore, Validity, row

pytestmark = pytest.mark.integration

REPOSITORY = Path(__file__).resolve().parents[2]
TRIAL = a_trial()
BUCKET = "plumbline-results"


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """An S3 server with one bucket; its address and credentials are in the environment, as a pod gets them."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    given = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in given.items():
            patch.setenv(name, value)
        fsspec.get_filesystem_class("s3").clear_instance_cache()
        boto3.client("s3").create_bucket(Bucket=BUCKET)
        yield f"s3://{BUCKET}"
        fsspec.get_filesystem_class("s3").clear_instance_cache()
    server.stop()


@pytest.fixture
def store(s3: str, request: pytest.FixtureRequest) -> ResultStore:
    return ResultStore(f"{s3}/{request.node.name}")


def document(store: ResultStore, file: Path) -> ResultDocument:
    return ResultDocument.sealed(
        trial=TRIAL,
        harness_version="0.1.0",
        environment=Environment.of({"cpu.model": "x"}),
        validity=Validity(status="valid"),
        metrics=(row("step_time", 0.1, 5),),
        evidence=(store.put_evidence(TRIAL, "steps", file, rows=3),),
    )


def test_a_trial_from_its_specification_to_collect(store: ResultStore, tmp_path: Path) -> None:
    file = tmp_path / "steps.parquet"
    file.write_bytes(os.urandom(300_000))
    assert store.attempts(TRIAL.campaign_id, TRIAL.trial_id) == []
    store.put_trial(TRIAL)
    written = document(store, file)
    store.put_document(written)
    record = LaunchRecord(launcher="kubernetes", events=(), exit_code=0)
    store.put_launch(TRIAL, record)
    assert collect(store, TRIAL.campaign_id, TRIAL.trial_id) == [written.with_launch(record)]
    assert store.collected(store.folder(TRIAL)).launch == record
    assert store.damaged_evidence(written) == []

    bucket, _, key = store.uri(f"{store.folder(TRIAL)}/evidence/steps.parquet").removeprefix("s3://").partition("/")
    boto3.client("s3").put_object(Bucket=bucket, Key=key, Body=b"other bytes")
    assert len(store.damaged_evidence(written)) == 1
    boto3.client("s3").delete_object(Bucket=bucket, Key=key)
    assert store.damaged_evidence(written) == [f"{store.uri(store.folder(TRIAL))}/evidence/steps.parquet is missing"]


def test_what_another_process_writes_is_seen_at_once(store: ResultStore) -> None:
    """The client remembers listings; a collect that believed them would miss the attempt that a pod just wrote."""
    store.put_trial(TRIAL)
    assert len(store.attempts(TRIAL.campaign_id, TRIAL.trial_id)) == 1
    assert not store.exists(f"{store.folder(TRIAL)}/result.json")
    pod = f"""
from plumbline.results import ResultStore
from tests.fakes.trials import a_trial, cluster_provider
store = ResultStore("{store.url}")
store.put_trial(a_trial().model_copy(update={{"attempt": 2}}))
store.put(store.folder(a_trial()) + "/result.json", b"{{}}")
"""
    environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY / 'include'}{os.pathsep}{REPOSITORY}"}
    subprocess.run([sys.executable, "-c", pod], check=True, env=environment)
    assert len(store.attempts(TRIAL.campaign_id, TRIAL.trial_id)) == 2
    assert store.exists(f"{store.folder(TRIAL)}/result.json")


def test_what_is_not_there_and_what_is_damaged(store: ResultStore) -> None:
    with pytest.raises(FileNotFoundError):
        store.document(store.folder(TRIAL))
    with pytest.raises(FileNotFoundError):
        store.get("nothing")
    store.put(f"{store.folder(TRIAL)}/result.json", b"cut sho")
    with pytest.raises(BadResult, match=f"{store.url}/.*not a JSON object"):
        store.document(store.folder(TRIAL))


def test_a_misspelt_bucket_is_an_error_and_is_not_created(s3: str) -> None:
    store = ResultStore("s3://plumbline-resluts/x")
    with pytest.raises(FileNotFoundError):
        store.put_trial(TRIAL)
    assert store.attempts(TRIAL.campaign_id, TRIAL.trial_id) == []
    assert [bucket["Name"] for bucket in boto3.client("s3").list_buckets()["Buckets"]] == [BUCKET]


def test_what_a_clusters_pods_wrote_is_brought_home(s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pods' bucket has credentials of its own, which come from an Airflow connection."""
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"HELD_{name}", os.environ[name])
        monkeypatch.delenv(name)
    extra = {"endpoint_url": os.environ["HELD_AWS_ENDPOINT_URL"], "region_name": "us-east-1"}
    connection = {"conn_type": "aws", "login": "test", "password": "test", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_BUCKET_A", json.dumps(connection))
    provider = cluster_provider(results_url=f"{s3}/away", results_connection="bucket_a")
    trial = a_trial(provider=provider)
    home, away = ResultStore((tmp_path / "home").as_uri()), stores.of(provider)
    for store in (home, away):
        store.put_trial(trial)
    file = tmp_path / "steps.parquet"
    file.write_bytes(b"steps")
    written = ResultDocument.sealed(
        trial=trial,
        harness_version="0.1.0",
        environment=Environment.of({"cpu.model": "x"}),
        validity=Validity(status="valid"),
        evidence=(away.put_evidence(trial, "steps", file),),
    )
    away.put_document(written)
    assert collect(home, trial.campaign_id, trial.trial_id) == [written]
    assert home.damaged_evidence(written) == []
    assert collect(home, trial.campaign_id, trial.trial_id) == [written], "collecting again changes nothing"


def test_a_launch_without_a_container_needs_no_answer_of_its_pods_store(tmp_path: Path) -> None:
    trial = a_trial(provider=cluster_provider(results_url="s3://nobody-is-there/away"))
    home = ResultStore((tmp_path / "home").as_uri())
    home.put_trial(trial)
    home.put_launch(trial, LaunchRecord(launcher="kubernetes", events=(), failure_class="image_error", failure_detail="no such image"))
    (document,) = collect(home, trial.campaign_id, trial.trial_id)
    assert document.validity.failure_class == "image_error"
