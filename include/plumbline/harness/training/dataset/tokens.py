"""Training data: a file of token ids that is generated once, and the batch of each step.

The text is a Markov chain: each token has a few likely successors, and some tokens are common, so a model first learns which
tokens are common and then what follows what, and the loss falls. It consists of documents that are generated side by side, which
keeps memory constant for any size.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from plumbline.harness.training.dataset import DataFile, mapped
from plumbline.harness.training.plan import DataOrders

GENERATOR = 1
"""Raised when the same seed would give other tokens."""

_DOCUMENT = 256
_BESIDE = 1024
_SUCCESSORS = 4
_ODDS = (0.55, 0.25, 0.15, 0.05)
_READ = 1 << 20


def prepare(cache: Path, *, vocabulary: int, tokens: int, seed: int) -> DataFile:
    """The token file for these parameters: from the cache if its checksum still holds, else generated.

    Two trials that prepare the same file at once do no harm: each writes its own draft and the last rename wins.
    """
    dtype = "<u2" if vocabulary <= 1 << 16 else "<u4"
    identity = json.dumps(["markov", GENERATOR, vocabulary, tokens, seed])
    path = cache / "training-data" / f"{hashlib.sha256(identity.encode()).hexdigest()[:24]}.tokens"
    sums = path.with_suffix(".sha256")
    if path.is_file() and sums.is_file() and path.stat().st_size == tokens * np.dtype(dtype).itemsize:
        promised = sums.read_text().strip()
        if _sha256(path) == promised:
            return DataFile(path, dtype, tokens, promised)
    path.parent.mkdir(parents=True, exist_ok=True)
    summed = hashlib.sha256()
    draft = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with draft.open("wb") as file:
            for piece in _pieces(vocabulary, tokens, seed):
                raw = piece.astype(dtype).tobytes()
                summed.update(raw)
                file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        draft.write_text(summed.hexdigest())
        draft.replace(sums)
    finally:
        draft.unlink(missing_ok=True)
    return DataFile(path, dtype, tokens, summed.hexdigest())


def _pieces(vocabulary: int, tokens: int, seed: int) -> Iterator[npt.NDArray[np.int64]]:
    random = np.random.Generator(np.random.PCG64(seed))
    # Zipf's law, flattened a little at the head: the most common token is a few per cent of the text.
    popularity = 1.0 / (np.arange(vocabulary) + 10.0)
    popularity /= popularity.sum()
    names = random.permutation(vocabulary)
    successors = names[random.choice(vocabulary, size=(vocabulary, _SUCCESSORS), p=popularity)]
    odds = np.cumsum(_ODDS)[:-1]
    left = tokens
    while left > 0:
        block = np.empty((_BESIDE, _DOCUMENT), dtype=np.int64)
        state = names[random.choice(vocabulary, size=_BESIDE, p=popularity)]
        for column in range(_DOCUMENT):
            block[:, column] = state
            state = successors[state, np.searchsorted(odds, random.random(_BESIDE))]
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
        random = np.random.Generator(np.random.Philox(key=self._seed, counter=[0, 0, self._replica, step]))
        starts = random.integers(self._first_start, self._last_start, size=self._sequences, endpoint=True)
        windows: npt.NDArray[np.int64] = self._tokens[starts[:, None] + self._window].astype(np.int64)
        return windows


def _sha256(path: Path) -> str:
    summed = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_READ):
            summed.update(piece)
    return summed.hexdigest()
