"""Draft models and LoRA adapters that are served with a checkpoint: fetched and identified as the checkpoint is."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from plumbline.declarations import InferenceWorkload
from plumbline.declarations.workloads.checkpoints import Checkpoint, FolderCheckpoint
from plumbline.harness.inference.checkpoint import Credentials, failures_of
from plumbline.harness.inference.checkpoint import cache as caching
from plumbline.harness.inference.checkpoint.contents import Files, examine
from plumbline.harness.inference.checkpoint.manifest import BrokenCheckpoint, Manifest
from plumbline.harness.inference.checkpoint.sources import LocalFiles, source_of
from plumbline.results import Scalar

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
    found: dict[str, Companion] = {}
    for field, files in workload.server.fetched_files.items():
        with failures_of(f"server.{field}"):
            found[field] = _fetch(files, cache, mirror, credentials, note, _checker(field, workload))
    return _with_folders(workload, {field: str(each.folder) for field, each in found.items()}), found


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
    found = caching.remote(files, place, cache, note, before=lambda: check(place))
    check(LocalFiles(found.folder))
    return Companion(found.folder, found.manifest, place.name, "cold" if found.cold else "warm")


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
