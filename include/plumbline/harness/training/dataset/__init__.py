"""Training data as files that every process maps into memory; generated once and reused while the checksum holds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from plumbline.harness.training.worker_protocol import DataSpec, ExitCode, WorkerError
from plumbline.whole_file import sha256_file, whole_file, write_whole


class DataCorrupt(WorkerError):
    """The data file is not what was promised."""

    exit_code = ExitCode.DAMAGED_DATA


@dataclass(frozen=True)
class DataFile:
    """`count` items of shape `item` (() is one token id) and little-endian type `dtype`, one after the other; SHA-256 of the bytes.

    `weights`: where the weights lie that training on it starts from, if it draws none.
    """

    path: Path
    dtype: str
    count: int
    sha256: str
    item: tuple[int, ...] = ()
    weights: Path | None = None


def map_data(data: DataSpec) -> npt.NDArray[Any]:
    """The file in memory as far as it is looked at: `count` items. DataCorrupt if it has another size."""
    path, shape = Path(data.path), (data.count, *data.item)
    expected = int(np.prod(shape)) * np.dtype(data.dtype).itemsize
    if path.stat().st_size != expected:
        raise DataCorrupt(
            f"{path.name} has {path.stat().st_size} bytes; expected {expected} for {data.count} items of shape {list(data.item)}"
        )
    return np.memmap(path, dtype=data.dtype, mode="r", shape=shape)


_READ_BYTES = 1 << 20


def cached_file(folder: Path, identity: str, suffix: str, write: Callable[[Path], str | None]) -> tuple[Path, str]:
    """The file of this `identity` in `folder` and its SHA-256: the one that is there if its checksum holds, else what `write` writes.

    `write` returns the SHA-256 if it took it on the way; else the file is read for it.
    Two trials that prepare the same file at once do no harm: each writes its own draft and the last rename wins.
    """
    path = folder / f"{hashlib.sha256(identity.encode()).hexdigest()[:24]}{suffix}"
    sums = path.with_suffix(".sha256")
    if path.is_file() and sums.is_file():
        promised = sums.read_text().strip()
        if sha256_file(path) == promised:
            return path, promised
    folder.mkdir(parents=True, exist_ok=True)
    with whole_file(path, durable=True) as draft:
        sha256 = write(draft) or sha256_file(draft)
    write_whole(sums, sha256)
    return path, sha256


def cached_array(
    cache: Path, suffix: str, identity: list[Any], dtype: str, shape: tuple[int, ...], pieces: Callable[[], Iterator[npt.NDArray[Any]]]
) -> DataFile:
    """The data file of this `identity` below `cache`; made of the pieces, one after the other, unless it is there. `shape`: (count, *item)."""

    def write(draft: Path) -> str:
        summed = hashlib.sha256()
        with draft.open("wb") as file:
            for piece in pieces():
                data = np.ascontiguousarray(piece, dtype=dtype).data.cast("B")
                file.write(data)
                summed.update(data)
        return summed.hexdigest()

    path, sha256 = cached_file(cache / "training-data", json.dumps(identity), suffix, write)
    return DataFile(path, dtype, shape[0], sha256, shape[1:])
