"""Images that are generated once, and those of each step.

Image i is of class i modulo the number of classes: its class's coarse pattern of colours, under noise that hides it from a single pixel.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from plumbline.harness.training.dataset import DataFile, mapped
from plumbline.harness.training.dataset.generated import generated
from plumbline.harness.training.plan import DataOrders

GENERATOR = 1
"""Raised when the same seed would give other images."""

_CELLS = 4
_CONTRAST = 40.0
_NOISE = 50.0
_BLOCK_BYTES = 32 << 20


def prepare(cache: Path, *, classes: int, edge: int, images: int, seed: int) -> DataFile:
    """The file of images uint8 (3, edge, edge): from the cache if its checksum still holds, else generated."""
    return generated(
        cache / "training-data",
        ".images",
        ["patterns", GENERATOR, classes, edge, images, seed],
        dtype="|u1",
        count=images,
        item=(3, edge, edge),
        pieces=lambda: _pieces(classes, edge, images, seed),
    )


def _pieces(classes: int, edge: int, images: int, seed: int) -> Iterator[npt.NDArray[np.uint8]]:
    random = np.random.Generator(np.random.PCG64(seed))
    patterns = random.choice(np.array([-_CONTRAST, _CONTRAST], dtype=np.float32), size=(classes, 3, _CELLS, _CELLS))
    cell = np.arange(edge) * _CELLS // edge
    block = max(1, _BLOCK_BYTES // (4 * 3 * edge * edge))
    for first in range(0, images, block):
        numbers = np.arange(first, min(first + block, images))
        pattern = patterns[numbers % classes][:, :, cell[:, None], cell[None, :]]
        noise = random.standard_normal(pattern.shape, dtype=np.float32) * _NOISE
        yield np.clip(127.5 + pattern + noise, 0, 255).astype(np.uint8)


class Images:
    """Batches by step number: the same step gives the same images in every process of that replica."""

    def __init__(self, data: DataOrders, *, classes: int, images: int, seed: int, replica: int = 0, replicas: int = 1) -> None:
        """`images` a step out of this replica's stretch of the file: one of `replicas` that share nothing. DamagedData if it has another size."""
        self._pixels = mapped(data)
        self._classes, self._images, self._seed, self._replica = classes, images, seed, replica
        stretch = data.count // replicas
        self._first, self._end = replica * stretch, (replica + 1) * stretch

    def of(self, step: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """Images (images, 3, edge, edge) and their classes (images)."""
        random = np.random.Generator(np.random.Philox(key=self._seed, counter=[0, 0, self._replica, step]))
        numbers = random.integers(self._first, self._end, size=self._images)
        return self._pixels[numbers], numbers % self._classes
