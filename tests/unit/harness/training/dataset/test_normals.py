"""Normals by several threads: those of the generator alone."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from plumbline.harness.training.dataset import normals as drawn
from plumbline.harness.training.dataset.normals import normals


def generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


@pytest.mark.parametrize(("count", "words"), [(1, 128), (5_000, 128), (60_000, 256), (60_000, 1 << 20)])
@pytest.mark.parametrize("seed", [0, 7])
def test_the_numbers_are_those_that_one_thread_draws(seed: int, count: int, words: int) -> None:
    """Of stretches of 128 words some hundred begin in the middle of a normal."""
    random = generator(seed)
    random.integers(0, 100, size=10)
    found = np.concatenate(list(normals(random, count, threads=3, words=words)))
    expected = random.standard_normal(count, dtype=np.float32)
    assert found.tobytes() == expected.tobytes()


def test_stretches_are_drawn_in_other_threads_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two stretches wait for each other: one thread alone would never come to the second."""
    both, plain = threading.Barrier(2), drawn._drawn_stretch
    seen = set()

    def meet(state: object, begin: int, words: int) -> object:
        seen.add(threading.get_ident())
        if begin in (0, words):
            both.wait(timeout=60)
        return plain(state, begin, words)  # type: ignore[arg-type]

    monkeypatch.setattr(drawn, "_drawn_stretch", meet)
    assert sum(len(piece) for piece in normals(generator(1), 1_000, threads=2, words=256)) == 1_000
    assert threading.get_ident() not in seen


def test_another_kind_of_generator_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Philox.*PCG64"):
        next(normals(np.random.Generator(np.random.Philox(1)), 10, threads=1))
    half = generator(1)
    half.standard_normal(dtype=np.float32)
    with pytest.raises(ValueError, match="half a word"):
        next(normals(half, 10, threads=1))
