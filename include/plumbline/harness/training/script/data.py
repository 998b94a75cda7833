"""A script's data where the trial runs: fetched before its command starts and measured apart, or an address that the command reads itself."""

from __future__ import annotations

import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from pydantic_core import from_json, to_json

from plumbline.declarations import Provider
from plumbline.declarations.data_places import address_of, fetched_source
from plumbline.declarations.workloads.checkpoints import FolderCheckpoint
from plumbline.declarations.workloads.script import ScriptWorkload
from plumbline.harness.inference.checkpoint.cache import Credentials, Note, download
from plumbline.harness.inference.checkpoint.contents import BrokenCheckpoint
from plumbline.harness.inference.checkpoint.fetched import failures_of
from plumbline.harness.inference.checkpoint.sources import source_of
from plumbline.harness.training.checkpoint.folder import drop_from_page_cache
from plumbline.results import Scalar
from plumbline.whole_file import write_whole


@dataclass(frozen=True)
class PlacedData:
    """`place`: the path or address that the command gets. `sha256`: see `ScriptData`, None of what is streamed. `values`: by metric."""

    place: str
    sha256: str | None = None
    facts: dict[str, Scalar] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)


def place_data(workload: ScriptWorkload, provider: Provider, folder: Path, credentials: Credentials, note: Note) -> PlacedData | None:
    """Fetch a script's data into `folder`, unless an earlier pod of the trial did, or name its address. Raises TrialFailed:
    bad_declaration   nothing is there, no access, other data than declared
    unreachable       its source does not answer
    quota_exceeded    the scratch disk is too small"""
    data, placed = workload.task.data, folder / "data.json"
    if data is None:
        return None
    facts: dict[str, Scalar] = {"data.source": address_of(data, provider), "data.read": data.read}
    if data.read == "stream":  # a data set of the hub by the address that its own libraries and fsspec read
        return PlacedData(address_of(data, provider).replace("hub:", "hf://datasets/", 1), facts=facts)
    if not placed.exists():
        with failures_of("task.data"):
            fetched = _fetch(workload, provider, folder / "data", credentials, note, facts)
        write_whole(placed, to_json(fetched))
    return PlacedData(**from_json(placed.read_bytes()))


def _fetch(workload: ScriptWorkload, provider: Provider, into: Path, keys: Credentials, note: Note, facts: dict[str, Scalar]) -> PlacedData:
    declared, source = workload.task.data, fetched_source(workload, provider)
    assert declared is not None and source is not None
    shutil.rmtree(into, ignore_errors=True)
    place = source_of(source, provider.launcher.model_access.mirror, *keys, kind="dataset")
    folder = Path(source.path) if isinstance(source, FolderCheckpoint) else None
    paths = [] if folder is None else [folder / name if folder.is_dir() else folder for name in place.sizes()]
    if paths:
        facts["data.page_cache"] = "dropped" if drop_from_page_cache(paths) else "kept"
    fetched = download(place, into, note)
    files, moved = fetched.manifest.files, float(fetched.downloaded_bytes)
    sha256 = files[0].sha256 if len(files) == 1 else fetched.manifest.sha256
    if declared.sha256 not in (None, sha256):
        shutil.rmtree(into)
        raise BrokenCheckpoint(f"{place.name} has SHA-256 {sha256}; expected task.data.sha256 {declared.sha256}")
    values = {"data_fetch_time": fetched.seconds, "data_fetch_bytes": moved, "data_fetch_bandwidth": moved / fetched.seconds}
    if paths:
        began = time.monotonic()
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(_read, paths))
        values["data_warm_read_time"] = again_s = time.monotonic() - began
        values["data_warm_read_bandwidth"] = moved / again_s
    facts |= {"data.sha256": sha256, "data.bytes": fetched.manifest.bytes, "data.files": len(files)}
    return PlacedData(str(into), sha256, facts, values)


def _read(path: Path) -> None:
    with path.open("rb") as file, Path(os.devnull).open("wb") as nowhere:
        shutil.copyfileobj(file, nowhere, 1 << 20)
