"""The token file and the batches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from plumbline.harness.training.dataset import DataCorrupt, DataFile
from plumbline.harness.training.dataset.synthetic import TokenBatches, generate_tokens
from plumbline.harness.training.worker_protocol import DataSpec


def small(cache: Path, **changed: int) -> DataFile:
    return generate_tokens(cache, **{"vocabulary": 64, "tokens": 300_000, "seed": 5, **changed})


def told(file: DataFile, count: int | None = None) -> DataSpec:
    return DataSpec(str(file.path), file.dtype, count or file.count)


def read(file: DataFile) -> np.ndarray:
    return np.fromfile(file.path, dtype=file.dtype)


def test_the_same_seed_gives_the_same_tokens_elsewhere(tmp_path: Path) -> None:
    here, there, other = small(tmp_path / "a"), small(tmp_path / "b"), small(tmp_path / "a", seed=6)
    assert here.sha256 == there.sha256 != other.sha256
    ids = read(here)
    assert len(ids) == 300_000 and ids.max() < 64


def test_a_file_in_the_cache_is_used_again(tmp_path: Path) -> None:
    first = small(tmp_path)
    written = first.path.stat().st_mtime_ns
    assert small(tmp_path) == first
    assert first.path.stat().st_mtime_ns == written


@pytest.mark.parametrize("damage", ["flip", "cut"])
def test_a_damaged_file_in_the_cache_is_made_again(tmp_path: Path, damage: str) -> None:
    first = small(tmp_path)
    raw = bytearray(first.path.read_bytes())
    raw[1000] ^= 1
    first.path.write_bytes(raw if damage == "flip" else raw[:1000])
    assert small(tmp_path) == first
    assert small(tmp_path / "fresh").path.read_bytes() == first.path.read_bytes()
    assert sorted(p.suffix for p in first.path.parent.iterdir()) == [".sha256", ".tokens"]


def test_ids_beyond_16_bits_get_32(tmp_path: Path) -> None:
    file = small(tmp_path, vocabulary=100_000, tokens=5000)
    assert file.dtype == "<u4"
    assert read(file).max() > 1 << 16


def test_there_is_something_to_learn_first_how_common_then_what_follows(tmp_path: Path) -> None:
    ids = read(small(tmp_path)).astype(int)
    pairs = np.zeros((64, 64))
    np.add.at(pairs, (ids[:-1], ids[1:]), 1)
    joint = pairs / pairs.sum()
    single = joint.sum(axis=1)
    entropy = -np.sum(single * np.log(single))
    conditional = -np.nansum(joint * np.log(np.where(joint > 0, joint / single[:, None], 1.0)))
    assert conditional < 0.6 * entropy
    assert entropy < np.log(64)


def test_a_step_has_its_batch_whatever_came_before(tmp_path: Path) -> None:
    file = small(tmp_path)

    def batches(seed: int = 1) -> TokenBatches:
        return TokenBatches(told(file), sequences=6, sequence=16, seed=seed)

    straight = batches()
    for step in range(5):
        straight.of(step)
    assert np.array_equal(straight.of(5), batches().of(5))
    assert not np.array_equal(straight.of(5), straight.of(6))
    assert not np.array_equal(straight.of(5), batches(seed=2).of(5))


def test_a_batch_is_made_of_stretches_of_the_file(tmp_path: Path) -> None:
    file = small(tmp_path, tokens=2000)
    batch = TokenBatches(told(file), sequences=6, sequence=16, seed=1).of(3)
    assert batch.shape == (6, 17) and batch.dtype == np.int64
    text = read(file).tobytes()
    assert all(row.astype(file.dtype).tobytes() in text for row in batch)


def test_the_shortest_file_allowed_still_gives_batches(tmp_path: Path) -> None:
    file = small(tmp_path, tokens=17)
    assert np.array_equal(TokenBatches(told(file, 17), sequences=1, sequence=16, seed=1).of(0)[0], read(file))


def test_a_file_of_another_size_is_refused(tmp_path: Path) -> None:
    file = small(tmp_path, tokens=2000)
    with pytest.raises(DataCorrupt, match=r"4000 bytes.*6000.*3000"):
        TokenBatches(told(file, 3000), sequences=6, sequence=16, seed=1)


def test_ranks_read_stretches_that_share_nothing(tmp_path: Path) -> None:
    file = small(tmp_path, tokens=3000)
    ids = np.arange(3000, dtype=file.dtype)
    file.path.write_bytes(ids.tobytes())  # each token says where it stands

    def read_by(rank: int) -> TokenBatches:
        return TokenBatches(told(file, 3000), sequences=6, sequence=16, seed=1, replica=rank, replicas=3)

    for rank in range(3):
        seen = np.concatenate([read_by(rank).of(step) for step in range(200)])
        assert seen.min() >= rank * 1000 and seen.max() < (rank + 1) * 1000
        assert seen.max() - seen.min() > 900
    starts = [read_by(rank).of(0)[:, 0] - rank * 1000 for rank in range(3)]
    assert not np.array_equal(starts[0], starts[1])
