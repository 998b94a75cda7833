"""Files of a checkpoint: summed in blocks, and forgotten by the kernel before they are read."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from plumbline.harness.training.checkpoint import folder
from plumbline.harness.training.checkpoint.folder import FileDigest, digest_file, drop_from_page_cache, sync_file


def written(path: Path, size: int = 3_000_000) -> Path:
    with path.open("wb") as raw:
        raw.write(os.urandom(size))
        sync_file(raw)
    return path


def test_the_sum_is_of_all_that_was_written(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abcde")
    assert digest_file(tmp_path / "x") == FileDigest(5, hashlib.sha256(hashlib.sha256(b"abcde").digest()).hexdigest())


def test_blocks_of_a_file_are_summed_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first two blocks wait for each other: one thread alone would never come to the second."""
    monkeypatch.setattr(folder, "_BLOCK_BYTES", 1000)
    file = tmp_path / "file"
    file.write_bytes(bytes(range(250)) * 9)
    alone = folder.blocks_sha256(file, 1)
    both, plain = threading.Barrier(2), folder._block_sha256

    def meet(path: Path, start: int) -> bytes:
        if start < 2000:
            both.wait(timeout=60)
        return plain(path, start)

    monkeypatch.setattr(folder, "_block_sha256", meet)
    assert folder.blocks_sha256(file, 2) == alone


@pytest.mark.parametrize("place", [0, 999, 1000, 2249])
def test_a_flipped_bit_in_any_block_changes_the_checksum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int) -> None:
    monkeypatch.setattr(folder, "_BLOCK_BYTES", 1000)
    data = bytearray(2250)
    (tmp_path / "file").write_bytes(data)
    before = folder.blocks_sha256(tmp_path / "file", 2)
    data[place] = 1
    (tmp_path / "file").write_bytes(data)
    assert folder.blocks_sha256(tmp_path / "file", 2) != before


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a thread's cores")
def test_a_checksum_uses_the_cores_of_the_process_and_not_of_a_bound_thread() -> None:
    everywhere = os.sched_getaffinity(0)
    found = list[frozenset[int]]()

    def bound() -> None:
        os.sched_setaffinity(0, {min(everywhere)})
        found.append(folder.process_cores())

    thread = threading.Thread(target=bound)
    thread.start()
    thread.join()
    assert found == [frozenset(everywhere)]


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
