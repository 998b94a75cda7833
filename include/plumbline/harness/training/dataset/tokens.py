"""Token ids that are generated once, and the windows of each step.

The text is a Markov chain: each token has a few likely successors, and some tokens are common, so a model first learns which
tokens are common and then what follows what, and the loss falls. It consists of documents that are generated side by side, which
keeps memory constant for any size.
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
"""Raised when the same seed would give other tokens."""

_DOCUMENT = 256
_BESIDE = 1024
_SUCCESSORS = 4
_ODDS = (0.55, 0.25, 0.15, 0.05)


def prepare(cache: Path, *, vocabulary: int, tokens: int, seed: int) -> DataFile:
    """The token file for these parameters: from the cache if its checksum still holds, else generated."""
    return generated(
        cache / "training-data",
        ".tokens",
        ["markov", GENERATOR, vocabulary, tokens, seed],
        dtype="<u2" if vocabulary <= 1 << 16 else "<u4",
        count=tokens,
        item=(),
        pieces=lambda: _pieces(vocabulary, tokens, seed),
    )


def successors(vocabulary: int, seed: int) -> npt.NDArray[np.int64]:
    """What may follow each token in the text of these parameters: (vocabulary, 4) token ids; one that stands twice is likelier."""
    return _Chain(vocabulary, seed).successors


class _Chain:
    """How the text of one seed goes on."""

    def __init__(self, vocabulary: int, seed: int) -> None:
        self.random = np.random.Generator(np.random.PCG64(seed))
        # Zipf's law, flattened a little at the head: the most common token is a few per cent of the text.
        popularity = 1.0 / (np.arange(vocabulary) + 10.0)
        self.popularity = popularity / popularity.sum()
        self.names = self.random.permutation(vocabulary)
        self.successors: npt.NDArray[np.int64] = self.names[
            self.random.choice(vocabulary, size=(vocabulary, _SUCCESSORS), p=self.popularity)
        ]


def _pieces(vocabulary: int, tokens: int, seed: int) -> Iterator[npt.NDArray[np.int64]]:
    chain = _Chain(vocabulary, seed)
    odds = np.cumsum(_ODDS)[:-1]
    left = tokens
    while left > 0:
        block = np.empty((_BESIDE, _DOCUMENT), dtype=np.int64)
        state = chain.names[chain.random.choice(vocabulary, size=_BESIDE, p=chain.popularity)]
        for column in range(_DOCUMENT):
            block[:, column] = state
            state = chain.successors[state, np.searchsorted(odds, chain.random.random(_BESIDE))]
        piece = block.reshape(-1)[:left]
        left -= piece.size
        yield piece


class Batches:
    """Batches by step number: the same step gives the same batch in every process of that replica, whatever came before it."""

    def __init__(self, data: DataOrders, *, sequences: int, sequence: int, seed: int, replica: int = 0, replicas: int = 1) -> None:
        """`sequences` windows of `sequence` + 1 tokens a step, out of this replica's stretch of the file: one of `replicas` that share nothing.

        DamagedData if the file has another size.
        """
        self._tokens = mapped(data)
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
