"""Pairs of texts: two crops of a stretch, which overlap."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from plumbline.harness.training.dataset.synthetic import TextPairs
from plumbline.harness.training.worker_protocol import DataSpec


def told(folder: Path, count: int = 3000) -> DataSpec:
    path = folder / "numbers"
    path.write_bytes(np.arange(count, dtype="<u2").tobytes())  # each token says where it stands
    return DataSpec(str(path), "<u2", count)


def test_crops_are_stretches_that_have_half_in_common(tmp_path: Path) -> None:
    pairs = TextPairs(told(tmp_path), pairs=200, sequence=16, seed=1).of(0)
    assert pairs.shape == (200, 2, 16) and pairs.dtype == np.int64
    assert (np.diff(pairs, axis=2) == 1).all()
    shift = pairs[:, 1, 0] - pairs[:, 0, 0]
    assert set(shift) == set(range(1, 9))


def test_a_step_has_its_pairs_whatever_came_before(tmp_path: Path) -> None:
    data = told(tmp_path)
    straight = TextPairs(data, pairs=6, sequence=16, seed=1)
    straight.of(4)
    assert np.array_equal(straight.of(5), TextPairs(data, pairs=6, sequence=16, seed=1).of(5))
    assert not np.array_equal(straight.of(5), straight.of(6))
    assert not np.array_equal(straight.of(5), TextPairs(data, pairs=6, sequence=16, seed=2).of(5))


def test_ranks_read_stretches_that_share_nothing(tmp_path: Path) -> None:
    data = told(tmp_path)
    for replica in range(3):
        seen = TextPairs(data, pairs=500, sequence=16, seed=1, replica=replica, replicas=3).of(0)
        assert seen.min() >= replica * 1000 and seen.max() < (replica + 1) * 1000
