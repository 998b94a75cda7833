"""Checkpoints are fetched once and whole, whoever asks at the same time and whatever breaks off; their manifest identifies them."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests import checkpoints
from tests.fakes.model_hub import REVISION, Hub, model_hub
from tests.fakes.trials import H100, cluster_provider
from tests.unit.declarations.workloads.test_checkpoints import workload

from plumbline.declarations.workloads.checkpoints import FolderCheckpoint, HubCheckpoint, UrlCheckpoint
from plumbline.harness.inference.checkpoint import sources
from plumbline.harness.inference.checkpoint.contents import BrokenCheckpoint, Manifest, examine
from plumbline.harness.inference.checkpoint.fetched import FetchedCheckpoint, fetch, fetch_for_trial, resolve
from plumbline.harness.inference.checkpoint.sources import AccessRefused, FetchFailed, LocalFiles
from plumbline.harness.measurement import TrialFailed

TOKEN = "hf_a-secret"
FIRST = "model-00001-of-00002.safetensors"
HUB = HubCheckpoint(source="hub", id="org/llama", revision=REVISION)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def hub(llama: Path) -> Any:
    with model_hub({"org/llama": llama}) as running:
        yield running


def url_of(folder: Path, **fields: Any) -> UrlCheckpoint:
    return UrlCheckpoint(source="url", url=folder.as_uri(), **fields)


def metrics(fetched: FetchedCheckpoint) -> dict[str, float | None]:
    return {row.metric: row.value for row in fetched.rows()}


def test_a_cold_fetch_is_measured_and_a_warm_one_has_no_figures(llama: Path, cache: Path) -> None:
    cold, warm = fetch(url_of(llama), cache), fetch(url_of(llama), cache)
    assert (cold.state, warm.state) == ("cold", "warm")
    found = metrics(cold)
    assert found["model_download_bytes"] == cold.manifest.bytes == sum(path.stat().st_size for path in llama.iterdir())
    assert found["model_download_time"] and found["model_download_bandwidth"] == pytest.approx(
        cold.manifest.bytes / found["model_download_time"]
    )
    assert metrics(warm) == {} and warm.manifest == cold.manifest and warm.folder == cold.folder
    assert fetch(url_of(llama, manifest=cold.manifest.sha256), cache).state == "warm", "as the declaration names it from now on"
    assert warm.facts() | {"model.cache": "cold"} == cold.facts()


def test_the_same_files_have_one_identity_wherever_they_come_from(llama: Path, cache: Path, hub: Hub) -> None:
    folder = fetch(FolderCheckpoint(source="folder", path=str(llama)), cache)
    others = [fetch(url_of(llama), cache), fetch(HUB, cache, hub.url)]
    assert (folder.state, folder.folder) == ("local", llama)
    assert {other.manifest.sha256 for other in others} == {folder.manifest.sha256}
    assert Manifest.of_json(folder.manifest.to_json()) == folder.manifest


def test_a_hub_model_needs_no_hub_once_it_is_cached(cache: Path, hub: Hub) -> None:
    fetch(HUB, cache, hub.url)
    asked = len(hub.requests)
    assert fetch(HUB, cache, hub.url).state == "warm" and len(hub.requests) == asked


def test_a_store_is_a_mirror_of_the_hub(llama: Path, cache: Path, tmp_path: Path) -> None:
    place = tmp_path / "mirror" / "org" / "llama" / REVISION
    place.parent.mkdir(parents=True)
    place.symlink_to(llama)
    assert fetch(HUB, cache, (tmp_path / "mirror").as_uri()).state == "cold"


def test_a_gated_model_is_refused_without_a_token_and_no_file_has_the_token(llama: Path, cache: Path) -> None:
    with model_hub({"org/llama": llama}, token=TOKEN) as gated:
        for token in (None, "hf_another"):
            with pytest.raises(AccessRefused, match="models_secret") as raised:
                fetch(HUB, cache, gated.url, (token, None))
            assert "hf_" not in str(raised.value)
        fetch(HUB, cache, gated.url, (TOKEN, None))
    assert not [path for path in cache.rglob("*") if path.is_file() and TOKEN.encode() in path.read_bytes()]


@pytest.mark.parametrize("model", [HUB.model_copy(update={"id": "org/none"}), HUB.model_copy(update={"revision": REVISION[::-1]})])
def test_an_unknown_model_or_commit_is_refused(model: HubCheckpoint, cache: Path, hub: Hub) -> None:
    with pytest.raises(AccessRefused):
        fetch(model, cache, hub.url)


def test_content_that_the_hub_does_not_list_is_refused_for_its_file(cache: Path, llama: Path) -> None:
    with model_hub({"org/llama": llama}) as other:
        other.replaced[FIRST] = bytes(len((llama / FIRST).read_bytes()))
        with pytest.raises((BrokenCheckpoint, FetchFailed), match=FIRST):
            fetch(HUB, cache, other.url)
    assert not (cache / f"hub--org--llama--{REVISION}").exists()


def test_a_download_that_breaks_off_is_never_whole_and_goes_on_where_it_was(
    llama: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_RANGE", 32_768)
    broken = _break_off(monkeypatch, after=2, from_byte=32_768)
    with pytest.raises(FetchFailed):
        fetch(url_of(llama), cache)
    assert not list(cache.glob("*/manifest.json")) and list(cache.glob("*.partial"))
    broken.clear()
    fetched = fetch(url_of(llama), cache)
    assert fetched.state == "cold" and 0 < fetched.downloaded_bytes < fetched.manifest.bytes
    assert fetched.manifest == fetch(FolderCheckpoint(source="folder", path=str(llama)), cache).manifest
    assert not list(cache.glob("*.partial")) and not list(fetched.folder.glob("*.part"))


def _break_off(monkeypatch: pytest.MonkeyPatch, after: int, from_byte: int = 0) -> list[int]:
    """The local file system's reads of ranges that begin at `from_byte` or later fail after so many, until the returned list is emptied."""
    from fsspec.implementations.local import LocalFileSystem

    left, read = [after], LocalFileSystem.cat_file

    def cat_file(self: Any, path: str, start: int | None = None, end: int | None = None, **options: Any) -> Any:
        if left and (start or 0) >= from_byte:
            left[0] -= 1
            if left[0] < 0:
                raise ConnectionResetError("the peer went away")
        return read(self, path, start=start, end=end, **options)

    monkeypatch.setattr(LocalFileSystem, "cat_file", cat_file)
    return left


def test_trials_at_the_same_time_fetch_once(llama: Path, cache: Path) -> None:
    found: list[FetchedCheckpoint] = []
    threads = [threading.Thread(target=lambda: found.append(fetch(url_of(llama), cache))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(each.state for each in found) == ["cold", "warm", "warm", "warm"]


def test_a_damaged_cache_is_mended(llama: Path, cache: Path) -> None:
    folder = fetch(url_of(llama), cache).folder
    (folder / FIRST).write_bytes(bytes((folder / FIRST).stat().st_size))
    again = fetch(url_of(llama), cache)
    assert again.state == "cold" and again.downloaded_bytes == (llama / FIRST).stat().st_size
    (folder / FIRST).touch()  # another time of change alone is no damage
    assert fetch(url_of(llama), cache).state == "warm"


def test_another_version_at_a_url_is_fetched(copy: Callable[[], Path], cache: Path) -> None:
    folder = copy()
    first = fetch(url_of(folder), cache)
    (folder / "chat_template.jinja").write_text("another")
    second = fetch(url_of(folder), cache)
    assert second.state == "cold" and second.manifest != first.manifest and first.folder.exists()


def test_a_wrong_hash_names_the_file(copy: Callable[[], Path], cache: Path) -> None:
    folder = copy()
    declared = fetch(url_of(folder), cache).manifest.sha256
    data = bytearray((folder / FIRST).read_bytes())
    data[-1] ^= 1
    (folder / FIRST).write_bytes(data)
    assert fetch(url_of(folder, manifest=declared), cache).state == "warm", "the cache has the declared files"
    other = cache.with_name("other")
    shutil.copytree(cache / "manifests", other / "manifests")
    for model in (FolderCheckpoint(source="folder", path=str(folder), manifest=declared), url_of(folder, manifest=declared)):
        with pytest.raises(BrokenCheckpoint, match=FIRST):
            fetch(model, other)
    data[-1] ^= 1
    (folder / FIRST).write_bytes(data)
    assert fetch(url_of(folder, manifest=declared), other).state == "cold", "nothing of the wrong files stays"
    with pytest.raises(BrokenCheckpoint, match=r"model\.manifest"):
        fetch(url_of(folder, manifest="0" * 64), cache)


def test_the_files_fill_in_what_the_declaration_leaves_open(mixture: Path) -> None:
    contents = examine(LocalFiles(mixture))
    model = resolve(workload({"source": "folder", "path": str(mixture)}), contents).model
    assert (model.context, model.vocabulary, model.weights_bytes) == (512, 640, contents.weights_bytes)  # type: ignore[union-attr]
    assert model.active_parameters < model.parameters  # type: ignore[operator, union-attr]


@pytest.mark.parametrize(
    ("model", "requests", "field"),
    [
        ({"context": 1024}, None, r"model\.context"),
        ({"vocabulary": 1000}, None, r"model\.vocabulary"),
        ({}, {"input_tokens": {"constant": 600}, "output_tokens": {"constant": 8}, "seed": 1}, r"model\.context 512"),
    ],
)
def test_a_declaration_that_the_files_contradict_fails_the_trial(
    llama: Path, cache: Path, model: dict[str, Any], requests: dict[str, Any] | None, field: str
) -> None:
    declared = workload({"source": "folder", "path": str(llama)} | model, **({"requests": requests} if requests else {}))
    with pytest.raises(TrialFailed, match=field) as raised:
        fetch_for_trial(declared, None, cache, None, (None, None), lambda _: None)
    assert raised.value.failure_class == "bad_declaration"


def test_prompts_longer_than_the_context_are_refused_before_a_download(mixture: Path, cache: Path) -> None:
    too_long = {"input_tokens": {"constant": 600}, "output_tokens": {"constant": 8}, "seed": 1}
    declared = workload({"source": "hub", "id": "org/mixture", "revision": REVISION}, requests=too_long)
    with model_hub({"org/mixture": mixture}) as hub:
        with pytest.raises(TrialFailed, match=r"model\.context 512"):
            fetch_for_trial(declared, None, cache, hub.url, (None, None), lambda _: None)
        assert hub.served["model.safetensors"] < 10_000


def test_a_model_too_large_for_the_provider_is_refused_before_a_download(cache: Path, tmp_path: Path) -> None:
    folder = checkpoints.sparse(tmp_path / "large", bytes_=100 << 30)
    declared = workload({"source": "url", "url": folder.as_uri()}, needs={"accelerator": "nvidia", "count": 1})
    with pytest.raises(TrialFailed, match=r"needs\.count") as raised:
        fetch_for_trial(declared, cluster_provider(accelerator=H100), cache, None, (None, None), lambda _: None)
    assert raised.value.failure_class == "bad_declaration" and not list(cache.glob("*.partial"))


def test_a_quantised_checkpoint_is_not_served_as_another_precision(copy: Callable[[], Path]) -> None:
    folder = copy()
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": {"quant_method": "awq", "bits": 4}}))
    with pytest.raises(ValueError, match=r"model\.precision bf16"):
        resolve(workload({"source": "folder", "path": str(folder)}), examine(LocalFiles(folder)))


@pytest.mark.parametrize(
    ("change", "failure_class", "named"),
    [
        (lambda folder: (folder / "tokenizer.json").unlink(), "bad_declaration", "tokenizer"),
        (lambda folder: (folder / FIRST).unlink(), "bad_declaration", FIRST),
        (lambda folder: folder.rename(folder.with_name("gone")), "bad_declaration", "broken"),
    ],
)
def test_each_error_has_its_class(
    copy: Callable[[], Path], cache: Path, change: Callable[[Path], Any], failure_class: str, named: str
) -> None:
    folder = copy()
    change(folder)
    with pytest.raises(TrialFailed, match=named) as raised:
        fetch_for_trial(workload({"source": "folder", "path": str(folder)}), None, cache, None, (None, None), lambda _: None)
    assert raised.value.failure_class == failure_class


def test_a_source_that_does_not_answer_is_unreachable(llama: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _break_off(monkeypatch, after=0)
    with pytest.raises(TrialFailed) as raised:
        fetch_for_trial(workload({"source": "url", "url": llama.as_uri()}), None, cache, None, (None, None), lambda _: None)
    assert raised.value.failure_class == "unreachable"


def test_a_full_disk_is_said_before_anything_is_fetched(llama: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plumbline.declarations.installation.shutil.disk_usage", lambda _: type("Usage", (), {"free": 1})())
    with pytest.raises(TrialFailed) as raised:
        fetch_for_trial(workload({"source": "url", "url": llama.as_uri()}), None, cache, None, (None, None), lambda _: None)
    assert raised.value.failure_class == "quota_exceeded"


@pytest.mark.fault("the hub's token would go to another machine over plain HTTP", ends="bad_declaration", keeps="the token")
def test_no_token_goes_over_plain_http(llama: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """0.0.0.0 is this machine for the kernel, and another one for whoever reads the address."""
    with model_hub({"org/llama": llama}, token=TOKEN) as gated:
        with pytest.raises(AccessRefused, match="would get the token over plain http; expected https://"):
            fetch(HUB, cache, gated.url.replace("127.0.0.1", "0.0.0.0"), (TOKEN, None))
        assert not gated.requests
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(llama / "config.json"))  # the token that the hub's library finds
    with model_hub({"org/llama": llama}) as mirror:
        fetch(HUB, cache, mirror.url.replace("127.0.0.1", "0.0.0.0"))
