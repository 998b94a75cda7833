"""The standard normals of one numpy generator, drawn by several threads: bit for bit the numbers that it would draw alone.

How much of the generator's stream a normal takes is known only once it is drawn. Each thread therefore starts at a fixed place of the stream, as
if a normal began there. Where the thread before it ends elsewhere, what was drawn until both agree is thrown away: a few numbers at most.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

_MULTIPLIER, _MASK = 0x2360ED051FC65DA44385DF649FCCF645, (1 << 128) - 1
"""Of numpy's PCG64: state × multiplier + increment, modulo 2^128."""
_WORDS = 1 << 21
_FIRST = 32
"""Normals of a stretch whose places are known: one of them is where the stretch before it ends."""
_ONE_BY_ONE = 64
_WORDS_PER_NORMAL = 1.15
"""More than the ziggurat method takes on average (1.02), so that a bulk draw stays inside its stretch."""


def normals(generator: np.random.Generator, count: int, threads: int, words: int = _WORDS) -> Iterator[Floats]:
    """The next `count` standard normals of a generator over PCG64, float32, in arrays one after the other.

    `words`: 32-bit words of the stream that a thread takes at a time (even). The generator itself stays where it is.
    """
    state: dict[str, Any] = generator.bit_generator.state  # type: ignore[assignment]
    if state["bit_generator"] != "PCG64" or state["has_uint32"]:
        raise ValueError(f"{state['bit_generator']} with half a word in store; expected a PCG64 that gave whole ones")
    with ThreadPoolExecutor(threads, thread_name_prefix="normals") as pool:
        pending: deque[Future[_Stretch]] = deque(pool.submit(_drawn_stretch, state, i * words, words) for i in range(threads + 1))
        following, left = threads + 1, count
        before: _Stretch | None = None
        while left > 0:
            stretch = pending.popleft().result()
            pending.append(pool.submit(_drawn_stretch, state, following * words, words))
            following += 1
            piece = stretch.values if before is None else _joined(before, stretch)
            before = stretch
            yield piece[:left]
            left -= len(piece)
        for future in pending:
            future.cancel()


class _Stretch:
    """Normals that begin in `words` 32-bit words of the stream from `begin` on: all of them if the first begins there. Places count in words."""

    def __init__(self, state: dict[str, Any], begin: int, words: int) -> None:
        source = np.random.PCG64()
        source.state = state
        source.advance(begin // 2)
        self._source, self._random = source, np.random.Generator(source)
        self._state, self._place = source.state["state"]["state"], begin
        self._increment, self._steps = source.state["state"]["inc"], begin // 2
        self.end = begin + words
        self.values: Floats = np.empty(words, dtype=np.float32)
        self.starts: dict[int, int] = {}
        """Where each of the first normals begins → its number."""

    @property
    def place(self) -> int:
        """Where the next normal begins."""
        now: Any = self._source.state
        self._steps += _distance(self._state, now["state"]["state"], self._increment)
        self._state = now["state"]["state"]
        return 2 * self._steps - int(now["has_uint32"])

    def draw(self) -> None:
        """Fill `values`."""
        n = 0
        while (place := self.place) < self.end:
            if n < _FIRST:
                self.starts[place] = n
            left = self.end - place
            # One by one at the end: the last one may reach beyond it, and no other may begin there.
            some = 1 if n < _FIRST or left <= _ONE_BY_ONE else int(left / _WORDS_PER_NORMAL)
            self._random.standard_normal(out=self.values[n : n + some], dtype=np.float32)
            n += some
        self.values = self.values[:n]

    def further(self) -> np.float32:
        """The next normal beyond the end."""
        return self._random.standard_normal(dtype=np.float32)  # type: ignore[no-any-return]


def _drawn_stretch(state: dict[str, Any], begin: int, words: int) -> _Stretch:
    stretch = _Stretch(state, begin, words)
    stretch.draw()
    return stretch


def _joined(before: _Stretch, stretch: _Stretch) -> Floats:
    """The normals of `stretch` that follow on the last one of the stretch before it."""
    more: list[np.float32] = []
    while (place := before.place) not in stretch.starts:
        if place >= stretch.end:
            raise RuntimeError(f"two stretches of normals agree nowhere in {stretch.end - place} words; expected numpy's ziggurat method")
        more.append(before.further())
    rest = stretch.values[stretch.starts[place] :]
    return np.concatenate([np.array(more, dtype=np.float32), rest]) if more else rest


def _distance(first: int, then: int, increment: int) -> int:
    """Steps of the generator from one state to a later one (F. Brown, "Random number generation with arbitrary strides", 1994)."""
    multiplier, plus, bit, steps = _MULTIPLIER, increment, 1, 0
    while first != then:
        if (first ^ then) & bit:
            first = (first * multiplier + plus) & _MASK
            steps |= bit
        bit <<= 1
        plus = (multiplier + 1) * plus & _MASK
        multiplier = multiplier * multiplier & _MASK
    return steps
