"""Checkpoints on a real S3 API over HTTP: fetched with their time and bytes, as a URL and as a mirror of the hub."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from tests import checkpoints
from tests.fakes import object_stores
from tests.fakes.model_hub import REVISION
from tests.fakes.object_stores import BUCKET, ObjectStore
from tests.fakes.trials import a_trial, local_provider
from tests.unit.declarations.workloads.test_checkpoints import workload

from plumbline.declarations.trials import spec_hash
from plumbline.declarations.workloads.checkpoints import HubCheckpoint, UrlCheckpoint
from plumbline.harness.inference.checkpoint.fetched import fetch
from plumbline.harness.inference.checkpoint.sources import AccessRefused
from plumbline.harness.inference.load.schedule import schedule_of
from plumbline.harness.inference.server import tritonserver
from plumbline.launch.connections import store_options
from plumbline.launch.local.process_launcher import ProcessLauncher
from plumbline.results import ResultStore

HUB = HubCheckpoint(source="hub", id="org/llama", revision=REVISION)


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with object_stores.s3() as running:
        yield running


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoints.llama(tmp_path_factory.mktemp("models") / "llama", shards=2)


@pytest.fixture
def options(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The client's options of the store's connection."""
    monkeypatch.setenv("AIRFLOW_CONN_MODELS", json.dumps(store.connection))
    return store_options(f"s3://{BUCKET}", "models", "launcher.models_connection")


@pytest.fixture
def uploaded(llama: Path, options: dict[str, Any]) -> str:
    url = f"s3://{BUCKET}/models/org/llama/{REVISION}"
    fs, root = fsspec.core.url_to_fs(url, **options)
    for path in llama.iterdir():
        fs.pipe_file(f"{root}/{path.name}", path.read_bytes())
    fs.pipe_file(f"{root}/original/weights.pth", b"not needed")
    return url


def test_a_bucket_is_fetched_with_its_time_and_bytes(uploaded: str, llama: Path, options: dict[str, Any], tmp_path: Path) -> None:
    model = UrlCheckpoint(source="url", url=uploaded)
    cold, warm = (fetch(model, tmp_path / "cache", None, (None, options)) for _ in range(2))
    assert (cold.state, warm.state) == ("cold", "warm")
    rows = {row.metric: row.value for row in cold.rows()}
    assert rows["model_download_bytes"] == sum(path.stat().st_size for path in llama.iterdir())
    assert rows["model_download_time"] > 0 and rows["model_download_bandwidth"] > 0  # type: ignore[operator]
    assert {path.name for path in cold.folder.iterdir()} == {path.name for path in llama.iterdir()}


def test_a_bucket_mirrors_the_hub(uploaded: str, options: dict[str, Any], tmp_path: Path) -> None:
    mirror = f"s3://{BUCKET}/models"
    assert fetch(HUB, tmp_path / "cache", mirror, (None, options)).state == "cold"
    with pytest.raises(AccessRefused):
        fetch(HUB.model_copy(update={"id": "org/none"}), tmp_path / "cache", mirror, (None, options))


def test_the_environments_credentials_serve_too(uploaded: str, store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (store.place | store.login).items():
        monkeypatch.setenv(name, value)
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    assert fetch(UrlCheckpoint(source="url", url=uploaded), tmp_path / "cache").state == "cold"


def test_what_is_not_there_is_refused(options: dict[str, Any], tmp_path: Path) -> None:
    for url in (f"s3://{BUCKET}/nothing", "s3://no-such-bucket/model"):
        with pytest.raises(AccessRefused):
            fetch(UrlCheckpoint(source="url", url=url), tmp_path / "cache", None, (None, options))


@pytest.mark.full
def test_a_trial_on_this_machine_fetches_with_its_connections_credentials(
    uploaded: str, store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a tritonserver, so that the trial ends where its server would start."""
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv(tritonserver.TRITONSERVER_VARIABLE, str(tmp_path / "missing"))
    monkeypatch.setenv("AIRFLOW_CONN_MODELS", json.dumps(store.connection))
    made = workload({"source": "url", "url": uploaded})
    provider = local_provider(models_connection="models", machine="a-machine-for-models")
    changed = {"workload": made, "provider": provider, "spec_hash": spec_hash(made), "schedule_hash": schedule_of(made).sha256}
    trial = a_trial("inference").model_copy(update=changed)
    results = ResultStore((tmp_path / "results").as_uri())
    record = ProcessLauncher().launch(trial, results)
    document = results.document(results.folder(trial))
    assert record.failure_class == document.validity.failure_class == "image_error"
    assert document.environment is not None and document.environment.facts["model.cache"] == "cold"
    assert {row.metric for row in document.metrics} >= {"model_download_time", "model_download_bandwidth"}
    assert "manifest" in {item.kind for item in document.evidence}
    assert list((tmp_path / "home/cache/models").glob("url--*/manifest.json"))
