"""Checkpoints by `torch.distributed.checkpoint`: state that is spread over ranks, or written in the background."""

from __future__ import annotations

import inspect
import pickle
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystem, FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save, save

from plumbline.harness.training import checkpoint as folders
from plumbline.harness.training.checkpoint import (
    CheckpointCorrupt,
    CheckpointRanks,
    FileDigest,
    LoadedCheckpoint,
    Manifest,
    NothingToResume,
    SavedCheckpoint,
    SingleProcess,
    TrackedWriter,
    WritePause,
    checkpoint_name,
    digest_file,
    draft_path,
    flatten_state,
    process_cores,
    replace_leaves,
    sync_file,
    sync_folder,
)

_METADATA = ".metadata"
_DCP = "torch.distributed.checkpoint."
# By PyTorch 2.7 to 2.13. No dotted name passes: it would reach what a module imported.
_ALLOWED_CLASSES = {
    *((f"{_DCP}metadata", name) for name in ("BytesStorageMetadata", "ChunkStorageMetadata", "Metadata", "MetadataIndex", "StorageMeta")),
    *((f"{_DCP}metadata", name) for name in ("TensorProperties", "TensorStorageMetadata", "_MEM_FORMAT_ENCODING")),
    *((f"{_DCP}filesystem", name) for name in ("_StorageInfo", "StorageInfo")),
    ("torch", "Size"),
    ("torch", "device"),
    ("torch.serialization", "_get_layout"),
    ("collections", "OrderedDict"),
    *((module, name) for module in ("pathlib", "pathlib._local") for name in ("PosixPath", "PurePosixPath", "Path")),
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        # A data type is pickled as the name of a constant of `torch`.
        if (module, name) in _ALLOWED_CLASSES or (module == "torch" and _is_dtype(name)):
            return super().find_class(module, name)
        raise CheckpointCorrupt(f"{_METADATA} names {module}.{name}; expected what the outline of a checkpoint is made of")


class MetadataReader(FileSystemReader):
    """Reads a checkpoint of one folder. `read_metadata`: CheckpointCorrupt if the outline is none, or names anything else."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._outline = path / _METADATA

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        try:
            with self._outline.open("rb") as stream:
                metadata = _Unpickler(stream).load()
        except CheckpointCorrupt:
            raise
        except OSError as error:
            raise CheckpointCorrupt(f"cannot be read ({error})") from error
        except Exception as error:
            raise CheckpointCorrupt(f"{_METADATA} is not the outline of a checkpoint ({error})") from error
        if not isinstance(metadata, Metadata):
            raise CheckpointCorrupt(f"{_METADATA} holds {type(metadata).__name__}; expected Metadata")
        if metadata.storage_meta is None:
            metadata.storage_meta = StorageMeta()
        metadata.storage_meta.load_id = self.load_id
        return metadata


def _is_dtype(name: str) -> bool:
    return isinstance(getattr(torch, name, None), torch.dtype)


_VALUES = "values.pt"
warnings.filterwarnings("ignore", message="torch.distributed is disabled")  # one process alone, as meant


class ShardedCheckpoints:
    """Saves and loads with other ranks: all of them call each method, in the same order.

    Each rank writes its part; tensors that several hold are written once on each node. Nodes share no disk: each keeps the parts of its own
    ranks, with a copy of what says where which part lies. A checkpoint counts once every node has published it, and only then are older ones
    deleted: at any moment there is one that all nodes have. A node that is new has none, and says so.
    """

    def __init__(self, folder: Path, ranks: CheckpointRanks, *, keep: int, retain: frozenset[int]) -> None:
        self._folder, self._ranks, self._keep, self._retain = folder, ranks, keep, retain
        self._solo = isinstance(ranks, SingleProcess)
        self._threads = max(1, len(process_cores()) // ranks.processes)

    def begin(self, step: int, state: dict[str, Any], *, beside: bool, pause: WritePause | None = None) -> Callable[[], SavedCheckpoint]:
        """Write `state` as the checkpoint after `step` steps. What is returned waits for it.

        `beside`: from a copy, while training goes on; what is returned may then be called in another thread. Otherwise it is written at
        once. OSError, such as a full disk, from either; older checkpoints are then untouched.
        """
        began = time.monotonic_ns()
        draft, ranks = draft_path(self._folder, step), self._ranks
        # Beside the training a checksum gets one core, as the training needs the others.
        writer = _TrackedShardWriter(draft, pause, 1 if beside else self._threads)
        tensors, values = self._parted(state)
        written: Future[Any] | None = None
        if ranks.writes:
            options = {"storage_writer": writer, "process_group": ranks.replica_group, "no_dist": self._solo}
            if beside:
                written = _async_save(tensors, self._solo, options)
            else:
                written = Future()
                with _unwrap_errors(writer):
                    written.set_result(save(tensors, **options))

        def finish() -> SavedCheckpoint:
            with _unwrap_errors(writer):
                metadata = written.result() if written is not None else None
            if ranks.writes and ranks.local == 0:
                with writer.stream(draft / _VALUES) as stream:
                    torch.save(values, stream)
            if ranks.writes:
                sync_folder(draft)
            ranks.gather(None)  # durable on every node
            durable = time.monotonic_ns()
            parts = ranks.gather((ranks.node, writer.parts))
            if ranks.local == 0:
                self._publish(
                    step, draft, writer, metadata, {name: part for node, some in parts if node == ranks.node for name, part in some.items()}
                )
            ranks.gather(None)  # published on every node
            published = time.monotonic_ns()
            if ranks.local == 0:
                folders.prune(self._folder, self._keep, self._retain)
            size = sum(part.bytes for _, some in parts for part in some.values())
            return SavedCheckpoint(size, (durable - began) / 1e9, (published - durable) / 1e9)

        return finish

    def load(self, primed: dict[str, Any], *, checksums: bool = True) -> LoadedCheckpoint:
        """The newest checkpoint that is valid on every node (without `checksums`: that can be loaded), its tensors in those of `primed`.

        NothingToResume."""
        ranks, folder = self._ranks, self._folder
        if ranks.local == 0:
            folders.discard_drafts(folder)
        steps_by_node = dict(ranks.gather((ranks.node, folders.checkpoint_steps(folder))))
        rejected: list[str] = []
        checksum_s = 0.0
        for step in sorted(set().union(*steps_by_node.values()), reverse=True):
            absent = [f"not on node {node}" for node, steps in steps_by_node.items() if step not in steps]
            reasons = absent or sorted(set(filter(None, ranks.gather(self._reason_against(step)))))
            if reasons:
                rejected.append(f"{checkpoint_name(step)}: {'; '.join(reasons)}")
                continue
            path = folder / checkpoint_name(step)
            reader = MetadataReader(path)
            there = reader.read_metadata().state_dict_metadata
            tensors = {name: tensor for name, tensor in self._parted(primed)[0].items() if name in there}
            failure: Exception | None = None
            try:
                with _unwrap_errors():
                    load(tensors, storage_reader=reader, process_group=ranks.replica_group, no_dist=self._solo)
            except Exception as error:  # noqa: BLE001 - what a damaged file makes of the reader; the checksums tell
                failure = error
            # Checked before anybody uses it, and after the disk was read: from memory.
            began = time.monotonic_ns()
            damaged = ranks.gather(self._damage(step) if checksums or failure is not None else None)
            reasons = sorted(set(filter(None, damaged)))
            checksum_s += (time.monotonic_ns() - began) / 1e9
            if reasons:
                rejected.append(f"{checkpoint_name(step)}: {'; '.join(reasons)}")
                continue
            if failure is not None:
                raise failure
            values: dict[str, Any] = torch.load(path / _VALUES, weights_only=True)
            loaded = {self._original(name): tensor for name, tensor in tensors.items()}
            return LoadedCheckpoint(step, replace_leaves(primed, values | loaded), tuple(rejected), checksum_s)
        without = [f"node {node}" for node, steps in sorted(steps_by_node.items()) if not steps]
        why = (
            f"; {' and '.join(without)} has none: it is not where the parts of its ranks were saved"
            if without and any(steps_by_node.values())
            else ""
        )
        raise NothingToResume(f"no valid checkpoint in {folder.name}{why}{''.join(f'; {reason}' for reason in rejected)}")

    def on_all_ranks(self, here: bool) -> bool:
        return all(self._ranks.gather(here))

    def _publish(self, step: int, draft: Path, writer: _TrackedShardWriter, metadata: Any, parts: dict[str, FileDigest]) -> None:
        if _METADATA not in parts:  # it was written on another node of the replica
            with writer.stream(draft / _METADATA) as stream:
                pickle.dump(metadata, stream)
            parts[_METADATA] = digest_file(draft / _METADATA)
        folders.publish(draft, self._folder / checkpoint_name(step), Manifest(step, parts, self._ranks.part))

    def _reason_against(self, step: int) -> str | None:
        """Why this node's part of a checkpoint cannot be loaded, as far as its manifest, its outline and its files' sizes show."""
        path, ranks = self._folder / checkpoint_name(step), self._ranks
        try:
            manifest = folders.read_manifest(path)
            if manifest.part_of != ranks.part:
                raise CheckpointCorrupt(f"is of {manifest.part_of}; expected {ranks.part}")
            if absent := {_METADATA, _VALUES} - manifest.files.keys():
                raise CheckpointCorrupt(f"has an unusable manifest (no {', '.join(sorted(absent))})")
            for name, part in manifest.files.items():
                (folders.verify_file if name in (_METADATA, _VALUES) else folders.verify_size)(path, name, part)
            MetadataReader(path).read_metadata()
        except CheckpointCorrupt as error:
            return str(error)
        return None

    def _damage(self, step: int) -> str | None:
        path, ranks = self._folder / checkpoint_name(step), self._ranks
        try:
            files = folders.read_manifest(path).files
            for name in sorted(files.keys() - {_METADATA, _VALUES})[ranks.local :: ranks.processes]:
                folders.verify_file(path, name, files[name], self._threads)
        except CheckpointCorrupt as error:
            return str(error)
        return None

    def _parted(self, state: dict[str, Any]) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """(tensors, all else) by path. Of tensors that are not sharded each node keeps its own."""
        leaves = flatten_state(state)
        tensors = {name: leaf for name, leaf in leaves.items() if isinstance(leaf, torch.Tensor)}
        values = {name: leaf for name, leaf in leaves.items() if name not in tensors}
        return {name if hasattr(leaf, "to_local") else self._own_path(name): leaf for name, leaf in tensors.items()}, values

    def _own_path(self, name: str) -> str:
        return f"node{self._ranks.node}/{name}"

    def _original(self, name: str) -> str:
        return name.removeprefix(self._own_path(""))


def _async_save(tensors: dict[str, torch.Tensor], solo: bool, options: dict[str, Any]) -> Future[Any]:
    """`async_save`, also where it takes no `no_dist`, as in PyTorch 2.7: there one process alone copies and saves in a thread by itself."""
    if "no_dist" in inspect.signature(async_save).parameters:
        return cast("Future[Any]", async_save(tensors, **options))
    if not solo:
        return cast("Future[Any]", async_save(tensors, **{name: value for name, value in options.items() if name != "no_dist"}))
    copies = {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}
    with_one = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
    try:
        return with_one.submit(save, copies, **options)
    finally:
        with_one.shutdown(wait=False)


class _TrackedShardWriter(FileSystemWriter):
    def __init__(self, draft: Path, pause: WritePause | None, threads: int) -> None:
        """`threads`: of the checksums."""
        super().__init__(draft, sync_files=True, overwrite=True)
        self._draft, self._threads = draft, threads
        self.fs = self._files = _TrackedFileSystem(pause)

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Any:
        sizes = [item.tensor_data for item in plan.items if item.tensor_data is not None]
        self._files.expected = sum(data.chunk.sizes.numel() * data.properties.dtype.itemsize for data in sizes)
        return super().write_data(plan, planner)

    @property
    def parts(self) -> dict[str, FileDigest]:
        """The files that were written, by their final names; reads them."""
        names = {name.removesuffix(".tmp") for name in self._files.streams}
        return {name: digest_file(self._draft / name, self._threads) for name in sorted(names)}

    @property
    def error(self) -> OSError | None:
        return next((stream.error for stream in self._files.streams.values() if stream.error is not None), None)

    @contextmanager
    def stream(self, path: Path) -> Iterator[Any]:
        with self._files.create_stream(path, "wb") as stream:
            yield stream
            sync_file(stream)


class _TrackedFileSystem(FileSystem):
    def __init__(self, pause: WritePause | None) -> None:
        self.streams: dict[str, TrackedWriter] = {}
        self.expected = 0
        self._pause = pause

    @contextmanager
    def create_stream(self, path: Any, mode: str) -> Iterator[Any]:
        raw: Any
        with Path(path).open(mode) as raw:
            if mode != "wb":
                yield raw
                return
            stream = self.streams[Path(path).name] = TrackedWriter(raw, expected=self.expected, pause=self._pause)
            yield stream


@contextmanager
def _unwrap_errors(writer: _TrackedShardWriter | None = None) -> Iterator[None]:
    """Raise the disk's error: torch's own exception holds those of all ranks, and is not an `Exception`."""
    try:
        yield
    except CheckpointException as error:
        cause = (writer and writer.error) or next(iter(error.failures.values()))[0]
        raise cause from error
