"""Generated data and the batches of each step: token windows, text pairs, images. The same step gives the same batch in every process of a replica."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt

from plumbline.harness.training.dataset import DataFile, cached_array, map_data
from plumbline.harness.training.worker_protocol import DataSpec

TOKENS_VERSION = 1
"""Raised when the same seed would give other tokens."""

_DOCUMENT = 256
_PARALLEL_DOCUMENTS = 1024
_SUCCESSORS = 4
_SUCCESSOR_ODDS = (0.55, 0.25, 0.15, 0.05)


def generate_tokens(cache: Path, *, vocabulary: int, tokens: int, seed: int) -> DataFile:
    """The token file for these parameters: from the cache if its checksum still holds, else generated."""
    identity = ["markov", TOKENS_VERSION, vocabulary, tokens, seed]
    dtype = "<u2" if vocabulary <= 1 << 16 else "<u4"
    return cached_array(cache, ".tokens", identity, dtype, (tokens,), lambda: _token_blocks(vocabulary, tokens, seed))


def successors(vocabulary: int, seed: int) -> npt.NDArray[np.int64]:
    """Possible successors of each token in the text of these parameters: (vocabulary, 4) token ids; a repeated one is likelier."""
    return _MarkovChain(vocabulary, seed).successors


class _MarkovChain:
    def __init__(self, vocabulary: int, seed: int) -> None:
        self.random = np.random.Generator(np.random.PCG64(seed))
        # Zipf's law, flattened a little at the head: the most common token is a few per cent of the text.
        popularity = 1.0 / (np.arange(vocabulary) + 10.0)
        self.popularity = popularity / popularity.sum()
        self.names = self.random.permutation(vocabulary)
        self.successors: npt.NDArray[np.int64] = self.names[
            self.random.choice(vocabulary, size=(vocabulary, _SUCCESSORS), p=self.popularity)
        ]


def _token_blocks(vocabulary: int, tokens: int, seed: int) -> Iterator[npt.NDArray[np.int64]]:
    chain = _MarkovChain(vocabulary, seed)
    odds = np.cumsum(_SUCCESSOR_ODDS)[:-1]
    left = tokens
    while left > 0:
        block = np.empty((_PARALLEL_DOCUMENTS, _DOCUMENT), dtype=np.int64)
        state = chain.names[chain.random.choice(vocabulary, size=_PARALLEL_DOCUMENTS, p=chain.popularity)]
        for column in range(_DOCUMENT):
            block[:, column] = state
            state = chain.successors[state, np.searchsorted(odds, chain.random.random(_PARALLEL_DOCUMENTS))]
        piece = block.reshape(-1)[:left]
        left -= piece.size
        yield piece


class TokenBatches:
    """Batches by step number: the same step gives the same batch in every process of that replica, whatever came before it."""

    def __init__(self, data: DataSpec, *, sequences: int, sequence: int, seed: int, replica: int = 0, replicas: int = 1) -> None:
        """`sequences` windows of `sequence` + 1 tokens a step, out of this replica's stretch of the file: one of `replicas` that share nothing.

        DataCorrupt if the file has another size.
        """
        self._tokens = map_data(data)
        self._sequences = sequences
        self._window = np.arange(sequence + 1)
        stretch = data.count // replicas
        self._first_start = replica * stretch
        self._last_start = self._first_start + stretch - sequence - 1
        self._seed = seed
        self._replica = replica

    def of(self, step: int) -> npt.NDArray[np.int64]:
        """Token ids (sequences, sequence + 1) of one step: inputs are all but the last column, targets all but the first."""
        random = self.random(step)
        starts = random.integers(self._first_start, self._last_start, size=self._sequences, endpoint=True)
        windows: npt.NDArray[np.int64] = self._tokens[starts[:, None] + self._window].astype(np.int64)
        return windows

    def random(self, step: int, stream: int = 0) -> np.random.Generator:
        """Chance of one step of this replica; each `stream` is independent of the others."""
        return np.random.Generator(np.random.Philox(key=self._seed, counter=[0, stream, self._replica, step]))


class TextPairs:
    """Pairs of texts by step number: two crops of the same stretch, which share half of it or more. Encoders are trained so without labels."""

    def __init__(self, data: DataSpec, *, pairs: int, sequence: int, seed: int, replica: int = 0, replicas: int = 1) -> None:
        """`pairs` a step of `sequence` tokens each, out of this replica's stretch of the file. DataCorrupt if it has another size."""
        self._stretches = TokenBatches(
            data, sequences=pairs, sequence=sequence + sequence // 2, seed=seed, replica=replica, replicas=replicas
        )
        self._pairs, self._sequence = pairs, sequence

    def of(self, step: int) -> npt.NDArray[np.int64]:
        """Token ids (pairs, 2, sequence): the second text begins after the first, and before its second half does."""
        stretches = self._stretches.of(step)
        shift = self._stretches.random(step, stream=1).integers(1, max(self._sequence // 2, 1), size=self._pairs, endpoint=True)
        starts = np.stack([np.zeros_like(shift), shift], axis=1)
        columns = starts[:, :, None] + np.arange(self._sequence)
        crops: npt.NDArray[np.int64] = stretches[np.arange(self._pairs)[:, None, None], columns]
        return crops


IMAGES_VERSION = 1
"""Raised when the same seed would give other images."""

_CELLS = 4
_CONTRAST = 40.0
_NOISE = 50.0
_BLOCK = 1 << 22
"""Numbers that are drawn at once."""
Floats = npt.NDArray[np.float32]


def generate_images(cache: Path, *, classes: int, edge: int, images: int, seed: int, threads: int = 1) -> DataFile:
    """The file of images uint8 (3, edge, edge): from the cache if its checksum still holds, else generated.

    Image i is of class i modulo the number of classes: its class's coarse pattern of colours, under noise that hides it from a single pixel.
    """
    identity = ["patterns", IMAGES_VERSION, classes, edge, images, seed]
    return cached_array(
        cache, ".images", identity, "|u1", (images, 3, edge, edge), lambda: _image_pieces(classes, edge, images, seed, threads)
    )


def _image_pieces(classes: int, edge: int, images: int, seed: int, threads: int) -> Iterator[npt.NDArray[np.uint8]]:
    """The bytes of all images, one after the other; a piece may begin and end inside an image."""
    random = np.random.Generator(np.random.PCG64(seed))
    patterns = random.choice(np.array([-_CONTRAST, _CONTRAST], dtype=np.float32), size=(classes, 3, _CELLS, _CELLS))
    total, pending = images * 3 * edge * edge, deque[Future[npt.NDArray[np.uint8]]]()
    with ThreadPoolExecutor(threads, thread_name_prefix="images") as pool:
        for first in range(0, total, _BLOCK):
            noise = random.standard_normal(min(_BLOCK, total - first), dtype=np.float32)
            pending.append(pool.submit(_pixels, noise, first, patterns, edge))
            if len(pending) > threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def _pixels(noise: Floats, first: int, patterns: Floats, edge: int) -> npt.NDArray[np.uint8]:
    """The bytes from number `first` on, of as many as there is `noise`, which is overwritten."""
    size, cell, at = 3 * edge * edge, np.arange(edge) * _CELLS // edge, 0
    pixels = np.empty(noise.size, dtype=np.uint8)
    while at < noise.size:
        image, inside = divmod(first + at, size)
        part = noise[at : at + size - inside]
        # Not by one index array for rows and columns: that takes longer than to draw the noise.
        pattern = (127.5 + patterns[image % len(patterns)]).take(cell, axis=2).take(cell, axis=1)
        part *= _NOISE
        part += pattern.reshape(-1)[inside : inside + part.size]
        pixels[at : at + part.size] = np.clip(part, 0, 255, out=part)
        at += part.size
    return pixels


class ImageBatches:
    """Batches by step number: the same step gives the same images in every process of that replica."""

    def __init__(self, data: DataSpec, *, classes: int, images: int, seed: int, replica: int = 0, replicas: int = 1) -> None:
        """`images` a step out of this replica's stretch of the file: one of `replicas` that share nothing. DataCorrupt if it has another size."""
        self._pixels = map_data(data)
        self._classes, self._images, self._seed, self._replica = classes, images, seed, replica
        stretch = data.count // replicas
        self._first, self._end = replica * stretch, (replica + 1) * stretch

    def of(self, step: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """Images (images, 3, edge, edge) and their classes (images)."""
        random = np.random.Generator(np.random.Philox(key=self._seed, counter=[0, 0, self._replica, step]))
        numbers = random.integers(self._first, self._end, size=self._images)
        return self._pixels[numbers], numbers % self._classes
