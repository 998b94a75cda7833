"""A served checkpoint with its draft model and LoRA adapters: fetched into a cache, identified by manifests, described by its own files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from plumbline.declarations import InferenceWorkload, Provider
from plumbline.declarations.compatibility import too_large
from plumbline.declarations.workloads.checkpoints import Checkpoint, FolderCheckpoint
from plumbline.declarations.workloads.inference import check_request_lengths
from plumbline.harness.inference.checkpoint import cache as caching
from plumbline.harness.inference.checkpoint.contents import BrokenCheckpoint, Contents, Files, Manifest, examine
from plumbline.harness.inference.checkpoint.sources import AccessRefused, FetchFailed, LocalFiles, source_of
from plumbline.harness.measurement import TrialFailed
from plumbline.results import MetricRow, Scalar, metric_row

__all__ = ["FetchedCheckpoint", "failures_of", "fetch", "fetch_for_trial", "resolve"]


Credentials = tuple[str | None, Mapping[str, object] | None]
"""The hub's token, and options of fsspec's client; None: what the environment has."""


@dataclass(frozen=True)
class FetchedCheckpoint:
    """`folder`: the files, complete. `state` cold: they were downloaded now, `downloaded_bytes` in `seconds`; warm: the cache had them;
    local: the declared folder itself."""

    folder: Path
    manifest: Manifest
    contents: Contents
    source: str
    state: Literal["cold", "warm", "local"]
    downloaded_bytes: int = 0
    seconds: float = 0.0

    def rows(self) -> list[MetricRow]:
        """Of a cold start only: a warm one downloads nothing."""
        if self.state != "cold":
            return []
        values = {"model_download_time": self.seconds, "model_download_bytes": float(self.downloaded_bytes)}
        if self.seconds > 0 and self.downloaded_bytes:
            values["model_download_bandwidth"] = self.downloaded_bytes / self.seconds
        return [metric_row(name, value, 1, phase="cold_start") for name, value in values.items()]

    def facts(self) -> dict[str, Scalar]:
        about = self.contents
        return {
            "model.source": self.source,
            "model.manifest": self.manifest.sha256,
            "model.files": len(self.manifest.files),
            "model.bytes": self.manifest.bytes,
            "model.cache": self.state,
            "model.format": about.format,
            "model.architecture": ", ".join(about.architectures) or None,
            "model.parameters": about.parameters,
            "model.active_parameters": about.active_parameters,
            "model.precision": about.precision,
            "model.vocabulary": about.vocabulary,
            "model.context": about.context,
            "model.chat_template": about.has_chat_template,
        }


def fetch(
    model: Checkpoint,
    cache: Path,
    mirror: str | None = None,
    credentials: Credentials = (None, None),
    note: Callable[[str], None] = lambda _: None,
    check: Callable[[Contents], object] = lambda _: None,
) -> FetchedCheckpoint:
    """The checkpoint as a folder of this machine. `cache`: where downloads stay; `mirror`: `models_url`; `note` gets the progress.
    `credentials`: see `take_models_credentials`. `check` may raise what is wrong with the contents, which
    are read from the headers before anything is downloaded.

    Raises BrokenCheckpoint, AccessRefused, FetchFailed, NoSpace."""
    if isinstance(model, FolderCheckpoint):
        check(contents := examine(LocalFiles(caching.existing(model))))
        entry, source = caching.local(model, cache, note), f"folder {model.path}"
        return FetchedCheckpoint(entry.folder, entry.manifest, contents, source, "local")
    place = source_of(model, mirror, *credentials)
    entry = caching.remote(model, place, cache, note, before=lambda: check(examine(place)))
    state: Literal["cold", "warm"] = "cold" if entry.cold else "warm"
    check(contents := examine(LocalFiles(entry.folder)))
    return FetchedCheckpoint(entry.folder, entry.manifest, contents, place.name, state, entry.downloaded_bytes, entry.seconds)


def resolve(workload: InferenceWorkload, contents: Contents) -> InferenceWorkload:
    """The workload with what the files say in place of what its declaration leaves open; ValueError, with the field, if they contradict it."""
    model = workload.model
    if not isinstance(model, Checkpoint):
        return workload
    if not contents.has_tokenizer:
        raise ValueError("the checkpoint has no tokenizer; expected tokenizer.json, tokenizer.model, or vocab.json with merges.txt")
    for name in ("context", "vocabulary"):
        declared, limit = getattr(model, name), getattr(contents, name)
        if declared is not None and limit is not None and declared > limit:
            raise ValueError(f"model.{name} {declared} is above {limit}, the limit in config.json; expected at most that")
    quantised_to = contents.quantised_to
    if quantised_to is not None and quantised_to != model.precision:
        raise ValueError(
            f"model.precision {model.precision}, but the checkpoint is quantised to {quantised_to} (config.json); expected {quantised_to}"
        )
    if quantised_to is not None and workload.quality is not None and isinstance(workload.quality.reference, str):
        raise ValueError(
            f"quality.reference {workload.quality.reference} of files that are quantised to {quantised_to}; expected a checkpoint of its own"
        )
    known = {
        "context": model.context or contents.context,
        "vocabulary": model.vocabulary or contents.vocabulary,
        "parameters": contents.parameters,
        "active_parameters": contents.active_parameters,
        "weights_bytes": contents.weights_bytes,
        "kv_cache_bytes_per_token": contents.kv_cache_bytes_per_token,
    }
    resolved = workload.model_copy(update={"model": model.model_copy(update=known)})
    check_request_lengths(resolved.requests, resolved.phases, resolved.model, own_tokenizer=True)
    return resolved


def fetch_for_trial(
    workload: InferenceWorkload,
    provider: Provider | None,
    cache: Path,
    mirror: str | None,
    credentials: Credentials,
    note: Callable[[str], None],
) -> tuple[FetchedCheckpoint, InferenceWorkload]:
    """Fetch a workload's checkpoint and resolve the workload. Raises TrialFailed:
    bad_declaration        broken files, another manifest, no access, too large for the provider, or requests that the model cannot serve
    unreachable            the source does not answer
    quota_exceeded         the cache's disk is too small"""
    assert isinstance(workload.model, Checkpoint)

    def check(contents: Contents) -> None:
        resolved = resolve(workload, contents)
        if provider is not None and (why := too_large(resolved, provider)) is not None:
            raise ValueError(why)

    with failures_of("model"):
        fetched = fetch(workload.model, cache, mirror, credentials, note, check)
        return fetched, resolve(workload, fetched.contents)


@contextmanager
def failures_of(field: str) -> Iterator[None]:
    """What fetching a declared field raises, as TrialFailed with the field; see `fetch_for_trial`."""
    try:
        yield
    except FetchFailed as error:
        raise TrialFailed("unreachable", f"{field}: {error}") from error
    except caching.NoSpace as error:
        raise TrialFailed("quota_exceeded", f"{field}: {error}") from error
    except (BrokenCheckpoint, AccessRefused, ValueError) as error:
        raise TrialFailed("bad_declaration", f"{field}: {error}") from error


_ADAPTER = ("adapter_config.json", "adapter_model.safetensors")


@dataclass(frozen=True)
class Companion:
    """`state`: see FetchedCheckpoint."""

    folder: Path
    manifest: Manifest
    source: str
    state: Literal["cold", "warm", "local"]

    def facts(self, field: str) -> dict[str, Scalar]:
        return {
            f"{field}.source": self.source,
            f"{field}.manifest": self.manifest.sha256,
            f"{field}.bytes": self.manifest.bytes,
            f"{field}.cache": self.state,
        }


def fetch_companions(
    workload: InferenceWorkload, cache: Path, mirror: str | None, credentials: Credentials, note: Callable[[str], None]
) -> tuple[InferenceWorkload, dict[str, Companion]]:
    """The workload with folders in place of the sources of its drafts and adapters, and these by field. TrialFailed as of `fetch_for_trial`,
    with the field, such as server.adapters.legal."""
    companions: dict[str, Companion] = {}
    for field, files in workload.server.fetched_files.items():
        with failures_of(f"server.{field}"):
            companions[field] = _fetch(files, cache, mirror, credentials, note, _checker(field, workload))
    return _with_folders(workload, {field: str(each.folder) for field, each in companions.items()}), companions


def _fetch(
    files: Checkpoint,
    cache: Path,
    mirror: str | None,
    credentials: Credentials,
    note: Callable[[str], None],
    check: Callable[[Files], None],
) -> Companion:
    """`check` sees the files' names and headers before anything is downloaded."""
    if isinstance(files, FolderCheckpoint):
        check(LocalFiles(caching.existing(files)))
        local = caching.local(files, cache, note)
        return Companion(local.folder, local.manifest, f"folder {files.path}", "local")
    place = source_of(files, mirror, *credentials)
    entry = caching.remote(files, place, cache, note, before=lambda: check(place))
    check(LocalFiles(entry.folder))
    return Companion(entry.folder, entry.manifest, place.name, "cold" if entry.cold else "warm")


def _checker(field: str, workload: InferenceWorkload) -> Callable[[Files], None]:
    if field != "speculative":
        return _check_adapter
    speculative, vocabulary = workload.server.speculative, workload.model.vocabulary
    same = speculative is not None and speculative.method == "draft_model"

    def check_draft(files: Files) -> None:
        own = examine(files).vocabulary
        if same and None not in (own, vocabulary) and own != vocabulary:
            raise BrokenCheckpoint(f"the draft model has a vocabulary of {own}, the model one of {vocabulary}; expected the same")

    return check_draft


def _check_adapter(files: Files) -> None:
    if missing := [name for name in _ADAPTER if name not in files.sizes()]:
        raise BrokenCheckpoint(f"{missing[0]} is missing; expected a LoRA adapter: {' and '.join(_ADAPTER)}")
    try:
        rank = json.loads(files.read(_ADAPTER[0])).get("r")
    except (ValueError, AttributeError) as error:
        raise BrokenCheckpoint(f"{_ADAPTER[0]} is not a JSON object ({error}); expected the configuration of a LoRA adapter") from None
    if not isinstance(rank, int) or rank < 1:
        raise BrokenCheckpoint(f"{_ADAPTER[0]} has the rank {rank}; expected r, a number of at least 1")


def _with_folders(workload: InferenceWorkload, folders: Mapping[str, str]) -> InferenceWorkload:
    if not folders:
        return workload
    server = workload.server
    update: dict[str, object] = {}
    if "speculative" in folders and server.speculative is not None:
        update["speculative"] = server.speculative.model_copy(update={"model": folders["speculative"]})
    if server.adapters is not None:
        update["adapters"] = {name: folders.get(f"adapters.{name}", files) for name, files in server.adapters.items()}
    return workload.model_copy(update={"server": server.model_copy(update=update)})
