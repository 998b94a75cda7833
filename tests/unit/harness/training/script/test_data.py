"""A script's data where the trial runs: fetched with its time and bytes from each kind of place, or refused in one sentence."""

from __future__ import annotations

import errno
import functools
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.fakes import object_stores
from tests.fakes.model_hub import REVISION, Hub, model_hub
from tests.fakes.object_stores import BUCKET, ObjectStore
from tests.fakes.trials import local_provider
from tests.unit.declarations.workloads.test_script import changed

from plumbline.declarations import Provider
from plumbline.harness.inference.checkpoint.contents import Manifest
from plumbline.harness.measurement import TrialFailed
from plumbline.harness.training.script.data import PlacedData, place_data

FILES = {"train/0.bin": b"0" * 70_000, "train/1.bin": b"1" * 300, "[odd] name.txt": b"words\n"}
SIZE = sum(map(len, FILES.values()))
Place = Callable[..., PlacedData]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "corpus"
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture(scope="module")
def store(corpus: Path) -> Iterator[ObjectStore]:
    with object_stores.s3() as running:
        import boto3

        client = boto3.client(
            "s3", "us-east-1", endpoint_url=running.login["AWS_ENDPOINT_URL"], aws_access_key_id="test", aws_secret_access_key="test"
        )
        for name, content in FILES.items():
            client.put_object(Bucket=BUCKET, Key=f"sets/corpus/{name}", Body=content)
        client.put_object(Bucket=BUCKET, Key="sets/corpus-2/other.bin", Body=b"-")
        client.put_object(Bucket=BUCKET, Key="sets/corpus/empty/", Body=b"")
        client.put_object(Bucket=BUCKET, Key="sets/outside/../../leaves.bin", Body=b"-")
        yield running


@pytest.fixture
def options(store: ObjectStore) -> dict[str, Any]:
    return {"key": "test", "secret": "test", "endpoint_url": store.login["AWS_ENDPOINT_URL"], "client_kwargs": {"region_name": "us-east-1"}}


@pytest.fixture(scope="module")
def hub(corpus: Path) -> Iterator[Hub]:
    with model_hub({"org/corpus": corpus}) as running:
        yield running


@pytest.fixture
def put(tmp_path: Path) -> Place:
    """Places data in a trial's folder."""

    def place(
        address: str, provider: Provider | None = None, token: str | None = None, options: dict[str, Any] | None = None, **fields: Any
    ) -> PlacedData:
        workload = changed(data={"from": address, **fields})
        placed = place_data(workload, provider or local_provider(), tmp_path, (token, options), lambda _: None)
        assert placed is not None
        return placed

    return place


def content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def values(placed: PlacedData) -> dict[str, float]:
    assert all(placed.values.values())
    return placed.values


def test_a_folder_is_copied_cold_and_read_again_warm(corpus: Path, put: Place, tmp_path: Path) -> None:
    (corpus / "pipe").unlink(missing_ok=True)
    os.mkfifo(corpus / "pipe")
    try:
        placed = put(str(corpus))
    finally:
        (corpus / "pipe").unlink()
    assert content(Path(placed.place)) == FILES and Path(placed.place).is_relative_to(tmp_path)
    found = values(placed)
    assert found["data_fetch_bytes"] == SIZE
    assert found["data_fetch_bandwidth"] == pytest.approx(SIZE / found["data_fetch_time"])
    assert found["data_warm_read_bandwidth"] == pytest.approx(SIZE / found["data_warm_read_time"])
    manifest = Manifest.of_folder(corpus, FILES).sha256
    assert placed.sha256 == manifest
    assert placed.facts == {
        "data.source": str(corpus),
        "data.read": "once",
        "data.page_cache": placed.facts["data.page_cache"],
        "data.sha256": manifest,
        "data.bytes": SIZE,
        "data.files": len(FILES),
    }
    assert put(str(corpus), sha256=manifest).sha256 == manifest


def test_what_an_earlier_pod_of_the_trial_fetched_is_not_fetched_again(corpus: Path, put: Place) -> None:
    first = put(str(corpus))
    (Path(first.place) / "train" / "1.bin").write_bytes(b"as it was")
    assert put(str(corpus)) == first
    assert (Path(first.place) / "train" / "1.bin").read_bytes() == b"as it was"


def test_a_bucket_is_fetched_with_all_below_the_prefix_alone(put: Place, options: dict[str, Any]) -> None:
    placed = put(f"s3://{BUCKET}/sets/corpus", options=options)
    assert content(Path(placed.place)) == FILES
    assert values(placed).keys() == {"data_fetch_time", "data_fetch_bytes", "data_fetch_bandwidth"}
    assert values(placed)["data_fetch_bytes"] == SIZE


def test_one_object_is_a_file_with_a_hash_of_its_own(put: Place, options: dict[str, Any], corpus: Path) -> None:
    placed = put(f"s3://{BUCKET}/sets/corpus/train/1.bin", options=options)
    assert content(Path(placed.place)) == {"1.bin": FILES["train/1.bin"]}
    assert placed.sha256 == Manifest.of_folder(corpus / "train", ["1.bin"]).files[0].sha256


def test_a_dataset_of_the_hub_is_fetched_from_its_mirror(put: Place, hub: Hub) -> None:
    placed = put(f"hub:org/corpus@{REVISION}", local_provider(models_url=hub.url))
    assert content(Path(placed.place)) == FILES and not (Path(placed.place) / ".cache").exists()
    assert values(placed)["data_fetch_bytes"] == SIZE


def test_a_dataset_is_fetched_from_a_mirror_in_a_store(put: Place, tmp_path: Path, corpus: Path) -> None:
    shutil.copytree(corpus, tmp_path / "mirror" / "org" / "corpus" / REVISION)
    provider = local_provider(models_url=(tmp_path / "mirror").as_uri())
    assert content(Path(put(f"hub:org/corpus@{REVISION}", provider).place)) == FILES


def test_a_web_server_s_file_is_fetched(put: Place, corpus: Path) -> None:
    handler = functools.partial(type("_Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None}), directory=str(corpus))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}/train"
    try:
        assert content(Path(put(f"{url}/1.bin").place)) == {"1.bin": FILES["train/1.bin"]}
        (Path(put(f"{url}/1.bin").place).parent / "data.json").unlink()
        with pytest.raises(TrialFailed, match="does not exist") as failed:
            put(f"{url}/2.bin")
        assert failed.value.failure_class == "bad_declaration"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_each_provider_has_the_data_at_a_place_of_its_own(put: Place, corpus: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "here.bin").write_bytes(b"here")
    provider = local_provider().model_copy(update={"data_places": {"corpus": str(other)}})
    assert content(Path(put(str(corpus), provider, name="corpus").place)) == {"here.bin": b"here"}


@pytest.mark.parametrize(
    ("address", "given"),
    [("s3://bucket/corpus", "s3://bucket/corpus"), (f"hub:org/corpus@{REVISION}", f"hf://datasets/org/corpus@{REVISION}"), ("/d", "/d")],
)
def test_what_is_streamed_is_an_address_and_no_claim(put: Place, address: str, given: str, tmp_path: Path) -> None:
    placed = put(address, read="stream")
    assert placed == PlacedData(given, facts={"data.source": address, "data.read": "stream"})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.fault("data of a training script that cannot be had", ends="bad_declaration", keeps="nothing on the machine")
@pytest.mark.parametrize(
    ("address", "fields", "words"),
    [
        ("s3://no-such-bucket/corpus", {}, "does not exist"),
        (f"s3://{BUCKET}/nothing", {}, "does not exist"),
        (f"s3://{BUCKET}/sets/outside", {}, "leads out of the folder"),
        (f"s3://{BUCKET}/sets/corpus", {"sha256": "0" * 64}, "expected task.data.sha256 0000"),
        (f"hub:org/corpus@{'f' * 40}", {}, "has no such revision"),
        (f"hub:org/none@{REVISION}", {}, "expected owner/name of a dataset"),
        ("/no/such/folder", {}, "does not exist"),
    ],
)
def test_what_is_not_there_is_one_sentence(
    put: Place, hub: Hub, options: dict[str, Any], address: str, fields: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(TrialFailed, match=words) as failed:
        put(address, local_provider(models_url=hub.url), options=options, **fields)
    assert failed.value.failure_class == "bad_declaration" and failed.value.detail.startswith("task.data: ")
    assert not (tmp_path / "data.json").exists() and not any(path.is_file() for path in tmp_path.rglob("*"))


def test_an_empty_folder_holds_no_data(put: Place, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(TrialFailed, match="has no files; expected a file, or a folder with files"):
        put(str(tmp_path / "empty"))


def test_credentials_that_are_missing_are_named(put: Place, store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(TrialFailed, match="expected credentials that may read it") as failed:
        put(f"s3://{BUCKET}/sets/corpus", options={"endpoint_url": store.login["AWS_ENDPOINT_URL"]})
    assert failed.value.failure_class == "bad_declaration"


def test_a_source_that_does_not_answer_may_answer_later(put: Place) -> None:
    gone = {"key": "test", "secret": "test", "endpoint_url": "http://127.0.0.1:9", "config_kwargs": {"retries": {"max_attempts": 0}}}
    with pytest.raises(TrialFailed, match="does not answer") as failed:
        put(f"s3://{BUCKET}/sets/corpus", options=gone)
    assert failed.value.failure_class == "unreachable"


def test_a_scratch_disk_that_is_too_small_is_seen_before_anything_is_fetched(
    put: Place, corpus: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=SIZE - 1))
    with pytest.raises(TrialFailed, match="GiB free, but the trial needs") as failed:
        put(str(corpus))
    assert failed.value.failure_class == "quota_exceeded"
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


def test_a_disk_that_fills_up_meanwhile_is_too_small_as_well(put: Place, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(TrialFailed, match="disk full") as failed:
        put(str(corpus))
    assert failed.value.failure_class == "quota_exceeded"
