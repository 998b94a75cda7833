"""Files that are generated once and used for as long as their checksum holds."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from plumbline.harness.training.dataset import DataFile

_READ = 1 << 20


def generated(
    folder: Path,
    suffix: str,
    identity: list[Any],
    *,
    dtype: str,
    count: int,
    item: tuple[int, ...],
    pieces: Callable[[], Iterator[npt.NDArray[Any]]],
) -> DataFile:
    """The file of this `identity` in `folder`: the one that is there if it is whole, else made of the pieces, one after the other.

    Two trials that prepare the same file at once do no harm: each writes its own draft and the last rename wins.
    """
    path = folder / f"{hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:24]}{suffix}"
    sums = path.with_suffix(".sha256")
    size = count * int(np.prod(item)) * np.dtype(dtype).itemsize
    if path.is_file() and sums.is_file() and path.stat().st_size == size:
        promised = sums.read_text().strip()
        if sha256_of(path) == promised:
            return DataFile(path, dtype, count, promised, item)
    folder.mkdir(parents=True, exist_ok=True)
    summed = hashlib.sha256()
    draft = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with draft.open("wb") as file:
            for piece in pieces():
                raw = piece.astype(dtype, copy=False).tobytes()
                summed.update(raw)
                file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        draft.write_text(summed.hexdigest())
        draft.replace(sums)
    finally:
        draft.unlink(missing_ok=True)
    return DataFile(path, dtype, count, summed.hexdigest(), item)


def sha256_of(path: Path) -> str:
    """SHA-256 (hex) of a file, read piece by piece."""
    summed = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_READ):
            summed.update(piece)
    return summed.hexdigest()
