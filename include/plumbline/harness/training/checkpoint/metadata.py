"""The outline of a sharded checkpoint, read without running what it holds.

`torch.distributed.checkpoint` pickles it, and loading a pickle calls whatever the pickle names. A checkpoint on a provider's volume may have
been written by another pod, so only the classes that an outline is made of are built.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta

from plumbline.harness.training.checkpoint.folder import Damaged

_NAME = ".metadata"
_DCP = "torch.distributed.checkpoint."
# By PyTorch 2.7 to 2.13. No dotted name passes: it would reach what a module imported.
_CLASSES = {
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
        if (module, name) in _CLASSES or (module == "torch" and _is_dtype(name)):
            return super().find_class(module, name)
        raise Damaged(f"{_NAME} names {module}.{name}; expected what the outline of a checkpoint is made of")


class MetadataReader(FileSystemReader):
    """Reads a checkpoint of one folder. `read_metadata`: Damaged if the outline is none, or names anything else."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._outline = path / _NAME

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        try:
            with self._outline.open("rb") as stream:
                metadata = _Unpickler(stream).load()
        except Damaged:
            raise
        except OSError as error:
            raise Damaged(f"cannot be read ({error})") from error
        except Exception as error:
            raise Damaged(f"{_NAME} is not the outline of a checkpoint ({error})") from error
        if not isinstance(metadata, Metadata):
            raise Damaged(f"{_NAME} holds {type(metadata).__name__}; expected Metadata")
        if metadata.storage_meta is None:
            metadata.storage_meta = StorageMeta()
        metadata.storage_meta.load_id = self.load_id
        return metadata


def _is_dtype(name: str) -> bool:
    import torch

    return isinstance(getattr(torch, name, None), torch.dtype)
