"""The file of images and the batches."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from plumbline.harness.training import dataset
from plumbline.harness.training.dataset import DataCorrupt, DataFile, map_data
from plumbline.harness.training.dataset.synthetic import ImageBatches, generate_images
from plumbline.harness.training.worker_protocol import DataSpec


def small(cache: Path, **changed: int) -> DataFile:
    return generate_images(cache, **{"classes": 4, "edge": 16, "images": 400, "seed": 5, **changed})


def told(file: DataFile, count: int | None = None) -> DataSpec:
    return DataSpec(str(file.path), file.dtype, count or file.count, file.item)


def test_the_same_seed_gives_the_same_images_elsewhere(tmp_path: Path) -> None:
    here, there, other = small(tmp_path / "a"), small(tmp_path / "b"), small(tmp_path / "a", seed=6)
    assert here.sha256 == there.sha256 != other.sha256
    assert map_data(told(here)).shape == (400, 3, 16, 16) and map_data(told(here)).dtype == np.uint8


@pytest.mark.parametrize("threads", [1, 3])
def test_the_bytes_are_those_that_series_began_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    """By one thread, in blocks of whole images, as IMAGES_VERSION 1 began. The checksum is taken on the way."""
    read: list[Path] = []
    monkeypatch.setattr(dataset, "sha256_file", lambda path: read.append(path))
    file = small(tmp_path, threads=threads)
    assert file.sha256 == "8c03f2e07cc06fa2ad04fbc181ad61ae5320ada918a33a3023159f209ad583e6"
    assert hashlib.sha256(file.path.read_bytes()).hexdigest() == file.sha256 and read == []


def test_a_file_in_the_cache_is_used_again(tmp_path: Path) -> None:
    first = small(tmp_path)
    written = first.path.stat().st_mtime_ns
    assert small(tmp_path) == first and first.path.stat().st_mtime_ns == written


def test_images_of_a_class_look_more_alike_than_others(tmp_path: Path) -> None:
    pixels = map_data(told(small(tmp_path))).astype(float).reshape(100, 4, -1)
    means = pixels.mean(axis=0)
    guessed = np.array([[np.argmin(((means - image) ** 2).sum(axis=1)) for image in row] for row in pixels[:20]])
    assert (guessed == np.arange(4)).mean() > 0.95
    assert pixels.std(axis=0).min() > 20, "a single pixel tells nothing"


def test_a_step_has_its_batch_whatever_came_before(tmp_path: Path) -> None:
    file = small(tmp_path)

    def batches(seed: int = 1) -> ImageBatches:
        return ImageBatches(told(file), classes=4, images=6, seed=seed)

    straight = batches()
    for step in range(5):
        straight.of(step)
    images, classes = straight.of(5)
    again, same = batches().of(5)
    assert np.array_equal(images, again) and np.array_equal(classes, same)
    assert not np.array_equal(images, straight.of(6)[0])
    assert not np.array_equal(images, batches(seed=2).of(5)[0])


def test_an_image_has_its_class(tmp_path: Path) -> None:
    file = small(tmp_path)
    pixels = map_data(told(file))
    images, classes = ImageBatches(told(file), classes=4, images=50, seed=1).of(0)
    for image, its_class in zip(images, classes, strict=True):
        (number,) = np.flatnonzero((pixels == image).all(axis=(1, 2, 3)))
        assert number % 4 == its_class


def test_ranks_read_stretches_that_share_nothing(tmp_path: Path) -> None:
    file = small(tmp_path)
    pixels = np.zeros((400, 3, 16, 16), dtype=np.uint8)
    pixels[:, 0, 0, 0], pixels[:, 0, 0, 1] = np.arange(400) % 256, np.arange(400) // 256  # each image says where it stands
    file.path.write_bytes(pixels.tobytes())
    for replica in range(3):
        batches = ImageBatches(told(file), classes=4, images=20, seed=1, replica=replica, replicas=3)
        numbers = np.concatenate([b[:, 0, 0, 0] + 256 * b[:, 0, 0, 1].astype(int) for b in (batches.of(step)[0] for step in range(50))])
        assert numbers.min() >= replica * 133 and numbers.max() < (replica + 1) * 133
        assert numbers.max() - numbers.min() > 120


def test_a_file_of_another_size_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataCorrupt, match=r"\b384000\b.*\b500\b.*\[3, 16, 16\]"):
        ImageBatches(told(small(tmp_path), 500), classes=4, images=6, seed=1)
