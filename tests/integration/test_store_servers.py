"""The result store on real S3, Google Cloud Storage and Azure APIs over HTTP, as a GPU cluster's pods and the Airflow side use it:
two processes, one bucket."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import fsspec.config
import pytest
from tests.fakes import object_stores
from tests.fakes.object_stores import BUCKET, ObjectStore
from tests.fakes.quick_python import search_path
from tests.fakes.trials import a_trial, cluster_provider, put_evidence

from plumbline.harness.selfcheck import clocks
from plumbline.launch import stores
from plumbline.launch.collect import collect
from plumbline.results import Environment, InvalidResult, LaunchRecord, ResultDocument, ResultStore, Validity, metric_row
from plumbline.results.evidence_files import damaged_files

REPOSITORY = Path(__file__).resolve().parents[2]
TRIAL = a_trial()
NO_AZURITE = pytest.mark.skipif(shutil.which(object_stores.AZURITE) is None, reason=f"no {object_stores.AZURITE} on the PATH")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "installation"))  # its archive holds the keys that launchers issued


@pytest.fixture(scope="module", params=["s3", pytest.param("google", marks=pytest.mark.full), pytest.param("azure", marks=NO_AZURITE)])
def server(request: pytest.FixtureRequest) -> Iterator[ObjectStore]:
    with getattr(object_stores, request.param)() as started:
        yield started


@pytest.fixture
def bucket(server: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The bucket's URL; the server's address and credentials are in the environment, as a pod gets them."""
    set_environment(monkeypatch, server.place | server.login)
    fsspec.get_filesystem_class(server.scheme).clear_instance_cache()
    yield f"{server.scheme}://{BUCKET}"
    fsspec.get_filesystem_class(server.scheme).clear_instance_cache()


def set_environment(patch: pytest.MonkeyPatch, given: dict[str, str]) -> None:
    for name in os.environ:
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_", "FSSPEC_")):
            patch.delenv(name)
    for name, value in given.items():
        patch.setenv(name, value)
    patch.setattr(fsspec.config, "conf", {})  # fsspec reads its variables when it is imported
    fsspec.config.set_conf_env(fsspec.config.conf)


def another_client(url: str) -> Any:
    """A file system that shares nothing with the store's, not even what it remembers."""
    return fsspec.core.url_to_fs(url, skip_instance_cache=True)[0]


@pytest.fixture
def store(bucket: str, request: pytest.FixtureRequest) -> ResultStore:
    return ResultStore(f"{bucket}/{request.node.originalname}")


def document(store: ResultStore, file: Path) -> ResultDocument:
    return ResultDocument.sealed(
        trial=TRIAL,
        harness_version="0.1.0",
        environment=Environment.of({"cpu.model": "x"}),
        validity=Validity(status="valid"),
        metrics=(metric_row("step_time", 0.1, 5),),
        evidence=(put_evidence(store, TRIAL, "steps", file, rows=3),),
    )


def test_a_server_says_when_it_wrote_an_object(bucket: str) -> None:
    store = ResultStore(bucket)
    line = clocks.store_clock_offset(lambda: store.put_trial(TRIAL), lambda: store.modified(f"{store.folder(TRIAL)}/trial.json"))
    assert (line.of, line.status, line.measured) == ("result store", "pass", 0.0), line.reason


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
    assert damaged_files(store, written) == []

    steps = store.uri(f"{store.folder(TRIAL)}/evidence/steps.parquet")
    another_client(store.url).pipe_file(steps, b"other bytes")
    assert len(damaged_files(store, written)) == 1
    another_client(store.url).rm_file(steps)
    assert damaged_files(store, written) == [f"{steps} is missing"]


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
    environment = {**os.environ, "PYTHONPATH": search_path(REPOSITORY / "include", REPOSITORY)}
    subprocess.run([sys.executable, "-c", pod], check=True, env=environment)
    assert len(store.attempts(TRIAL.campaign_id, TRIAL.trial_id)) == 2
    assert store.exists(f"{store.folder(TRIAL)}/result.json")


@pytest.mark.fault("evidence in the store is missing or damaged", ends="an error that names the file", keeps="the rest of the store")
def test_what_is_not_there_and_what_is_damaged(store: ResultStore) -> None:
    with pytest.raises(FileNotFoundError):
        store.document(store.folder(TRIAL))
    with pytest.raises(FileNotFoundError):
        store.get("nothing")
    store.put(f"{store.folder(TRIAL)}/result.json", b"cut sho")
    with pytest.raises(InvalidResult, match=f"{store.url}/.*JSON"):
        store.document(store.folder(TRIAL))


@pytest.mark.fault("the bucket's name is wrong", ends="an error that names it", keeps="no bucket is created")
def test_a_misspelt_bucket_is_an_error_and_is_not_created(bucket: str) -> None:
    store = ResultStore(bucket.replace("results", "resluts"))
    with pytest.raises(FileNotFoundError):
        store.put_trial(TRIAL)
    assert store.attempts(TRIAL.campaign_id, TRIAL.trial_id) == []
    there = {name.strip("/") for name in another_client(bucket).ls("", detail=False)}
    assert BUCKET in there and BUCKET.replace("results", "resluts") not in there


@pytest.mark.fault("the store refuses the credentials", ends="an error at once", keeps="no retries are spent")
def test_a_caller_who_is_refused_is_not_kept_waiting(server: ObjectStore, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not server.refused:
        pytest.skip(f"the {server.scheme} server of the tests lets everybody in")
    set_environment(monkeypatch, server.place | server.refused)
    fsspec.get_filesystem_class(server.scheme).clear_instance_cache()
    store = ResultStore(bucket, patience_s=3600.0)
    with pytest.raises(PermissionError, match=f"^{bucket} refuses access: "):
        store.put_trial(TRIAL)


def test_what_a_clusters_pods_wrote_is_brought_home(
    server: ObjectStore, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pods' bucket has credentials of its own, which come from an Airflow connection; those of the environment do not open it."""
    set_environment(monkeypatch, server.place | server.refused)
    monkeypatch.setenv("AIRFLOW_CONN_BUCKET_A", json.dumps(server.connection))
    provider = cluster_provider(results_url=f"{bucket}/away", results_connection="bucket_a")
    trial = a_trial(provider=provider)
    home, away = ResultStore((tmp_path / "home").as_uri()), stores.store_of(provider)
    for store in (home, away):
        store.put_trial(trial)
    file = tmp_path / "steps.parquet"
    file.write_bytes(b"steps")
    written = ResultDocument.sealed(
        trial=trial,
        harness_version="0.1.0",
        environment=Environment.of({"cpu.model": "x"}),
        validity=Validity(status="valid"),
        evidence=(put_evidence(away, trial, "steps", file),),
    )
    away.put_document(written)
    assert collect(home, trial.campaign_id, trial.trial_id) == [written]
    assert damaged_files(home, written) == []
    assert collect(home, trial.campaign_id, trial.trial_id) == [written], "collecting again changes nothing"


def test_a_launch_without_a_container_needs_no_answer_of_its_pods_store(tmp_path: Path) -> None:
    trial = a_trial(provider=cluster_provider(results_url="s3://nobody-is-there/away"))
    home = ResultStore((tmp_path / "home").as_uri())
    home.put_trial(trial)
    home.put_launch(trial, LaunchRecord(launcher="kubernetes", events=(), failure_class="image_error", failure_detail="no such image"))
    (document,) = collect(home, trial.campaign_id, trial.trial_id)
    assert document.validity.failure_class == "image_error"
