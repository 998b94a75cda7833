"""Training data: files that are generated (or fetched) once and memory-mapped by every process, so that input I/O is real.

tokens   a Markov chain's token ids, and the windows of each step
images   patterns and noise, and the images of each step
files    a team's own token ids
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from plumbline.harness.training.plan import DataOrders

if TYPE_CHECKING:
    from plumbline.declarations.training import TrainingWorkload


class DamagedData(Exception):
    """The data file is not what was promised."""


@dataclass(frozen=True)
class DataFile:
    """`count` items of shape `item` (() is one token id) and little-endian type `dtype`, one after the other; SHA-256 of the bytes."""

    path: Path
    dtype: str
    count: int
    sha256: str
    item: tuple[int, ...] = ()


def prepare(workload: TrainingWorkload, cache: Path) -> DataFile:
    """The data file of a workload below `cache`: the one that is there if its checksum still holds, else made anew.

    OSError if it cannot be written.
    """
    from plumbline.declarations.architectures import HubModel, VitShape
    from plumbline.harness.training.dataset import tokens

    data, model = workload.data, workload.model
    if data.source == "synthetic" and not isinstance(model, VitShape | HubModel):
        return tokens.prepare(cache, vocabulary=model.vocabulary, tokens=data.tokens, seed=data.seed)
    raise NotImplementedError(data.source)


def mapped(data: DataOrders) -> npt.NDArray[Any]:
    """The file in memory as far as it is looked at: `count` items. DamagedData if it has another size."""
    path, shape = Path(data.path), (data.count, *data.item)
    expected = int(np.prod(shape)) * np.dtype(data.dtype).itemsize
    if path.stat().st_size != expected:
        raise DamagedData(
            f"{path.name} has {path.stat().st_size} bytes; expected {expected} for {data.count} items of shape {list(data.item)}"
        )
    return np.memmap(path, dtype=data.dtype, mode="r", shape=shape)
