"""Language-like text by rule: words of syllables, used as often as words are, in sentences. Nothing is downloaded, nothing is anybody's."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

WORDS = 6000
_SEED = 20261101
_ONSETS = ("b", "br", "c", "ch", "d", "dr", "f", "fl", "g", "gr", "h", "j", "k", "l", "m", "n", "p", "pl", "qu", "r", "s", "st", "t", "tr", "v", "w")  # fmt: skip
_NUCLEI = ("a", "e", "i", "o", "u", "ai", "ea", "ou", "ie", "é", "ü")
_CODAS = ("", "", "", "l", "m", "n", "nd", "r", "rt", "s", "st", "t", "x")
_ENDINGS = ("", "", "", "ed", "er", "ing", "ly", "ness", "s", "tion")
_COMMA, _STOP = 0.08, 0.07
MARKS = ("", ",", ".")

Indices = NDArray[np.int64]


@cache
def words() -> tuple[str, ...]:
    """The word list, the most frequent first: short words lead, as in languages. The same on every machine."""
    rng = np.random.Generator(np.random.PCG64(_SEED))

    def pick(parts: tuple[str, ...]) -> str:
        return parts[int(rng.integers(len(parts)))]

    found: dict[str, None] = {}
    while len(found) < WORDS:
        syllables = 1 + min(3, len(found) * 5 // WORDS)
        word = "".join(pick(_ONSETS) + pick(_NUCLEI) + pick(_CODAS) for _ in range(int(rng.integers(1, syllables + 1))))
        found[word + (pick(_ENDINGS) if syllables > 1 else "")] = None
    return tuple(found)


@cache
def pieces() -> tuple[str, ...]:
    """What text is made of: every word with a space before it, small and capital, followed by nothing, a comma or a full stop.

    Piece (word · 2 + capital) · 3 + mark. The words' order is that of `words`.
    """
    return tuple(f" {form}{mark}" for word in words() for form in (word, word.capitalize()) for mark in MARKS)


def stream(n: int, rng: np.random.Generator) -> Indices:
    """Text of `n` pieces, int64 [n] into `pieces`: words by Zipf's law, sentences of random length that begin with a capital."""
    weights = 1.0 / np.arange(3, WORDS + 3)
    word = np.searchsorted(np.cumsum(weights / weights.sum())[:-1], rng.random(n), side="right")
    chance = rng.random(n)
    mark = np.where(chance < _STOP, 2, np.where(chance < _STOP + _COMMA, 1, 0))
    capital = np.concatenate([[True], mark[:-1] == 2])[:n]
    index: Indices = (word * 2 + capital) * len(MARKS) + mark
    return index


def text(n: int, seed: int) -> str:
    """`n` pieces of running text."""
    known = pieces()
    return "".join(known[i] for i in stream(n, np.random.Generator(np.random.PCG64(seed))))
