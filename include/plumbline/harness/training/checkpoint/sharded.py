"""Checkpoints by `torch.distributed.checkpoint`: state that is spread over ranks."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystem, FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save, save

from plumbline.harness.training.checkpoint.folder import CheckpointCorrupt, FileDigest, digest_file, sync_file
from plumbline.harness.training.checkpoint.state import flatten_state, replace_leaves
from plumbline.harness.training.checkpoint.store import CheckpointStore, DraftFiles

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


_STRUCTURE = "structure.pt"
"""The nested state, with None in the place of each tensor."""


class ShardedStore(CheckpointStore):
    """Each rank writes its part; tensors that several hold are written once on each node, with a copy of what says where which part lies."""

    described_by = contents = (_METADATA, _STRUCTURE)

    def _writer(self, files: DraftFiles, state: dict[str, Any], beside: bool) -> Callable[[], None]:
        tensors, structure = self._parted(state)
        options: dict[str, Any] = {"storage_writer": _TrackedWriter(files), "process_group": self._ranks.replica_group}
        saving = async_save(tensors, **options) if beside else None

        def write() -> None:
            with _unwrap_errors(files):
                self._metadata = saving.result() if saving is not None else save(tensors, **options)  # type: ignore[union-attr]
            if self._ranks.local == 0:
                files.write(_STRUCTURE, structure)

        return write

    def _complete(self, draft: Path, parts: dict[str, FileDigest]) -> None:
        if _METADATA not in parts:  # it was written on another node of the replica
            with (draft / _METADATA).open("wb") as stream:
                pickle.dump(self._metadata, stream)
                sync_file(stream)
            parts[_METADATA] = digest_file(draft / _METADATA)

    def _check_described(self, path: Path) -> None:
        MetadataReader(path).read_metadata()

    def _read(self, path: Path, live: dict[str, Any], device: torch.device) -> dict[str, Any]:
        reader = MetadataReader(path)
        there = reader.read_metadata().state_dict_metadata
        tensors = {name: tensor for name, tensor in self._parted(live)[0].items() if name in there}
        with _unwrap_errors():
            load(tensors, storage_reader=reader, process_group=self._ranks.replica_group)
        structure: dict[str, Any] = torch.load(path / _STRUCTURE, weights_only=True)
        loaded = {name.removeprefix(self._own_path("")): tensor for name, tensor in tensors.items()}
        restored: dict[str, Any] = replace_leaves(structure, flatten_state(structure) | loaded)
        return restored

    def _parted(self, state: dict[str, Any]) -> tuple[dict[str, torch.Tensor], Any]:
        """(tensors by path, structure). Of tensors that are not sharded each node keeps its own."""
        leaves = flatten_state(state)
        tensors = {name: leaf for name, leaf in leaves.items() if isinstance(leaf, torch.Tensor)}
        structure = replace_leaves(state, leaves | dict.fromkeys(tensors))
        return {name if hasattr(leaf, "to_local") else self._own_path(name): leaf for name, leaf in tensors.items()}, structure

    def _own_path(self, name: str) -> str:
        return f"node{self._ranks.node}/{name}"


class _TrackedWriter(FileSystemWriter):
    def __init__(self, files: DraftFiles) -> None:
        super().__init__(files.folder, sync_files=True, overwrite=True)
        self.fs = _TrackedFileSystem(files)
        self._files = files

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Any:
        sizes = [item.tensor_data for item in plan.items if item.tensor_data is not None]
        self._files.expected = sum(data.chunk.sizes.numel() * data.properties.dtype.itemsize for data in sizes)
        return super().write_data(plan, planner)


class _TrackedFileSystem(FileSystem):
    def __init__(self, files: DraftFiles) -> None:
        self._files = files

    @contextmanager
    def create_stream(self, path: Any, mode: str) -> Iterator[Any]:
        with self._files.open(Path(path)) if mode == "wb" else Path(path).open(mode) as stream:
            yield stream


@contextmanager
def _unwrap_errors(files: DraftFiles | None = None) -> Iterator[None]:
    """Raise the disk's error: torch's own exception holds those of all ranks, and is not an `Exception`."""
    try:
        yield
    except CheckpointException as error:
        cause = (files and files.error) or next(iter(error.failures.values()))[0]
        raise cause from error
