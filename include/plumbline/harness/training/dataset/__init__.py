"""Training data: files that are generated (or fetched) once and memory-mapped by every process, so that input I/O is real.

tokens   a Markov chain's token ids, and the windows of each step
pairs    pairs of texts out of a token file
images   patterns and noise, and the images of each step
files    a team's own token ids
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
    """`count` items of shape `item` (() is one token id) and little-endian type `dtype`, one after the other; SHA-256 of the bytes.

    `weights`: where the weights lie that training on it starts from, if it draws none.
    """

    path: Path
    dtype: str
    count: int
    sha256: str
    item: tuple[int, ...] = ()
    weights: Path | None = None


def prepare(workload: TrainingWorkload, cache: Path) -> DataFile:
    """What the training of a workload reads, below `cache`: what is there if its checksum still holds, else made (or fetched) anew.

    OSError if it cannot be written, TrialFailed if a team's own file or a model of the hub cannot be used.
    """
    from plumbline.harness.training import weights

    initial = weights.prepare(workload, cache)
    return replace(_data_of(workload, cache, initial), weights=initial)


def _data_of(workload: TrainingWorkload, cache: Path, initial: Path | None) -> DataFile:
    # Imported here: a training process reads files and makes none.
    from plumbline.declarations.architectures import HubModel, VitShape
    from plumbline.harness.training.dataset import files, images, tokens
    from plumbline.harness.training.weights import vocabulary

    data, model = workload.data, workload.model
    if isinstance(model, VitShape):
        if data.source != "images":
            raise TypeError(f"data.source {data.source} for a model of images; the declaration refuses it")
        return images.prepare(cache, classes=model.classes, edge=model.image, images=data.images, seed=data.seed)
    if isinstance(model, HubModel):
        assert initial is not None
        ids = vocabulary(initial)
    else:
        ids = model.vocabulary
    if data.source == "file":
        return files.prepare(cache, data, vocabulary=ids)
    if data.source == "images":
        raise TypeError("data.source images for a model of texts; the declaration refuses it")
    return tokens.prepare(cache, vocabulary=ids, tokens=data.tokens, seed=data.seed)


def mapped(data: DataOrders) -> npt.NDArray[Any]:
    """The file in memory as far as it is looked at: `count` items. DamagedData if it has another size."""
    path, shape = Path(data.path), (data.count, *data.item)
    expected = int(np.prod(shape)) * np.dtype(data.dtype).itemsize
    if path.stat().st_size != expected:
        raise DamagedData(
            f"{path.name} has {path.stat().st_size} bytes; expected {expected} for {data.count} items of shape {list(data.item)}"
        )
    return np.memmap(path, dtype=data.dtype, mode="r", shape=shape)
