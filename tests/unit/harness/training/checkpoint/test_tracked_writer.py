"""Files of a checkpoint: summed once they are written, forgotten by the kernel before they are read."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

import pytest

from plumbline.harness.training.checkpoint import FileDigest, TrackedWriter, WritePause, digest_file, drop_from_page_cache, sync_file


def written(path: Path, size: int = 3_000_000) -> Path:
    with path.open("wb") as raw:
        raw.write(os.urandom(size))
        sync_file(raw)
    return path


def test_the_sum_is_of_all_that_was_written(tmp_path: Path) -> None:
    with (tmp_path / "x").open("wb") as raw:
        file = TrackedWriter(raw)
        assert [file.write(b"abc"), file.write(memoryview(b"de")), file.tell()] == [3, 2, 5]
    assert digest_file(tmp_path / "x") == FileDigest(5, hashlib.sha256(hashlib.sha256(b"abcde").digest()).hexdigest())


def test_what_the_disk_said_is_kept() -> None:
    with Path("/dev/full").open("wb", buffering=0) as raw:
        file = TrackedWriter(raw)
        with pytest.raises(OSError, match="No space left"):
            file.write(b"abc")
        assert file.error is not None and file.tell() == 0


def test_the_pause_comes_once_half_is_written(tmp_path: Path) -> None:
    sizes: list[int] = []
    path = tmp_path / "x"
    with path.open("wb") as raw:
        file = TrackedWriter(raw, expected=8, pause=WritePause(lambda: sizes.append(path.stat().st_size)))
        file.write(b"abc")
        assert sizes == []
        file.write(b"d")
        assert sizes == [4]


def test_pages_are_gone_where_there_is_a_disk_behind_them(tmp_path: Path) -> None:
    if "tmpfs" in _kind_of(tmp_path):
        pytest.skip("temporary files are in memory here")
    assert drop_from_page_cache([written(tmp_path / "a"), written(tmp_path / "b"), written(tmp_path / "empty", 0)])


def test_files_in_memory_stay_there() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        assert not drop_from_page_cache([written(Path(folder) / "a")])


def _kind_of(path: Path) -> str:
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    return max((where, kind) for where, kind in mounts if path.is_relative_to(where))[1]
