"""Stretches of prompt of exactly so many tokens: random ids, or text that the shipped tokenizer turns into exactly these ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from plumbline.declarations import InferenceWorkload
from plumbline.harness.inference import corpus

TokenIds = NDArray[np.int32]


@dataclass(frozen=True)
class Prompt:
    """`ids` int32 [tokens], and the text that the shipped tokenizer turns into exactly these ids, if prompts go out as text."""

    ids: TokenIds
    text: str | None = None

    def __add__(self, other: Prompt) -> Prompt:
        """One after the other. Holds for the text too: segments end where the tokenizer splits, whatever follows."""
        text = None if self.text is None or other.text is None else self.text + other.text
        return Prompt(np.concatenate([self.ids, other.ids]), text)


class Source(Protocol):
    """Where segments come from."""

    def segments(self, counts: Sequence[int], rng: np.random.Generator) -> list[Prompt]:
        """A segment for each count, of exactly so many tokens."""


@dataclass(frozen=True)
class Ids:
    """Token ids drawn evenly from a vocabulary."""

    vocabulary: int

    def segments(self, counts: Sequence[int], rng: np.random.Generator) -> list[Prompt]:
        """As `Source`: views into one array."""
        ends = np.cumsum(counts)
        ids = rng.integers(0, self.vocabulary, int(ends[-1]) if len(ends) else 0, dtype=np.int32)
        return [Prompt(ids[end - count : end]) for count, end in zip(counts, ends.tolist(), strict=True)]


class Text:
    """Text of the corpus. Every piece is a word with the space before it (and a mark after it), which the tokenizer splits from its
    neighbours before it merges anything: so a text's ids are those of its pieces, one after the other."""

    @cached_property
    def _ids(self) -> tuple[TokenIds, NDArray[np.int64], NDArray[np.int64]]:
        """All pieces' ids in a row, where each begins in it, and how many each has."""
        from plumbline.harness.inference.tokenizer import shipped  # a trial that sends ids needs no tokenizer

        encoded = [encoding.ids for encoding in shipped().encode_batch(list(corpus.pieces()))]
        counts = np.array([len(ids) for ids in encoded], np.int64)
        return np.concatenate([np.array(ids, np.int32) for ids in encoded]), np.cumsum(counts) - counts, counts

    def segments(self, counts: Sequence[int], rng: np.random.Generator) -> list[Prompt]:
        """As `Source`. A segment is running text as long as whole pieces fit, and then words of one token each."""
        every, begins, sizes = self._ids
        texts = corpus.pieces()
        total = sum(counts)
        stream = corpus.stream(total, rng)  # a piece has at least one token
        stream = stream[: int(np.searchsorted(np.cumsum(sizes[stream]), total, side="right")) + 1]
        size = sizes[stream]
        ends = np.cumsum(size)
        ids = every[np.repeat(begins[stream] - (ends - size), size) + np.arange(int(ends[-1]) if len(ends) else 0)]
        written = [texts[piece] for piece in stream]
        ones = np.flatnonzero(sizes == 1)
        fillers = ones[rng.integers(0, len(ones), len(counts) * (int(sizes.max()) - 1))]

        found: list[Prompt] = []
        piece = token = filled = 0
        for count in counts:
            last = int(np.searchsorted(ends, token + count, side="right"))
            until = int(ends[last - 1]) if last else 0
            short = count - (until - token)
            rest = fillers[filled : filled + short]
            text = "".join(written[piece:last]) + "".join(texts[i] for i in rest)
            found.append(Prompt(np.concatenate([ids[token:until], every[begins[rest]]]), text))
            piece, token, filled = last, until, filled + short
        return found


_TEXT = Text()  # one for all: a search asks for prompts again and again, and the pieces' ids are the same


def source_of(workload: InferenceWorkload) -> Source:
    """Where the workload's prompts come from."""
    return _TEXT if workload.requests.text else Ids(workload.model.vocabulary)
