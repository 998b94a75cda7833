"""The disk that checkpoints go to and data comes from."""

from __future__ import annotations

import mmap
import os
import random
import shutil
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from plumbline.harness.probes import disk_streams
from plumbline.harness.probes.page_cache import is_cold
from plumbline.results import MetricRow, row

_SIZE, _BLOCK, _TIMES = 64 * 2**20, 4 * 2**20, 3
LARGE_BYTES = 8 * 2**30
"""What the probe writes on a node with GPUs, if a quarter of the free space allows it: more than a disk's own cache holds."""
_SPACE_SHARE = 4
_WINDOW, _WINDOWS_S = 16 * 2**10, 0.3
"""Bytes of a sample of some thousand tokens; how long samples are read."""
_CACHED = "the file system kept in memory what had just been written"


def rows(workdir: Path, *, large: bool = False) -> list[MetricRow]:
    """`disk_write_bandwidth` and `disk_read_bandwidth`; a reading is absent where the system would not forget what it had just written.

    Small: the median of three files of 64 MiB, written in order and flushed to the device with fsync, and of reading them again in order.
    `large`: 8 GiB over several streams at once, past the page cache (`disk_streams`). OSError if the disk cannot be written.
    """
    if large:
        return _large(workdir)
    writes, reads = [], []
    for _ in range(_TIMES):
        with _file(workdir) as (file, seconds):
            writes.append(_SIZE / seconds)
            if is_cold(file) is True:
                reads.append(_SIZE / _read(file))
    method = f"1 stream, buffered, {_TIMES} files of {_SIZE // 2**20} MiB"
    return [
        row("disk_write_bandwidth", statistics.median(writes), len(writes), phase="environment", method=method),
        row(
            "disk_read_bandwidth",
            statistics.median(reads) if reads else None,
            len(reads),
            phase="environment",
            reason=_CACHED,
            method=method,
        ),
    ]


def _large(workdir: Path) -> list[MetricRow]:
    size = min(LARGE_BYTES, shutil.disk_usage(workdir).free // _SPACE_SHARE)
    found = disk_streams.measure(workdir, size)
    return [
        row("disk_write_bandwidth", found.write, 1, phase="environment", method=found.method),
        row("disk_read_bandwidth", found.read, int(found.read is not None), phase="environment", reason=_CACHED, method=found.method),
    ]


def dataset_rows(workdir: Path) -> list[MetricRow]:
    """`dataset_read_bandwidth`: windows of 16 KiB at random places of a memory-mapped file of 64 MiB, none of them twice. Absent where the
    system would not forget the file."""
    with _file(workdir) as (file, _):
        if is_cold(file) is not True:
            return [row("dataset_read_bandwidth", None, 0, phase="environment", reason=_CACHED)]
        places = random.Random(1).sample(range(_SIZE // _WINDOW), _SIZE // _WINDOW)
        read = 0
        with file.open("rb") as source, mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            started = time.perf_counter()
            for place in places:
                read += len(mapped[place * _WINDOW : (place + 1) * _WINDOW])
                if time.perf_counter() - started > _WINDOWS_S:
                    break
            seconds = time.perf_counter() - started
        return [row("dataset_read_bandwidth", read / seconds, read // _WINDOW, phase="environment")]


@contextmanager
def _file(workdir: Path) -> Iterator[tuple[Path, float]]:
    """A file of 64 MiB, and the seconds until it was durable; deleted at the end."""
    file = workdir / "plumbline-disk-probe"
    block = os.urandom(_BLOCK)  # no file system or disk can compress it
    try:
        started = time.perf_counter()
        with file.open("wb", buffering=0) as target:
            for _ in range(_SIZE // len(block)):
                target.write(block)
            os.fsync(target.fileno())
        yield file, time.perf_counter() - started
    finally:
        file.unlink(missing_ok=True)


def _read(file: Path) -> float:
    """Seconds of reading the whole file in order."""
    buffer = bytearray(_BLOCK)
    started = time.perf_counter()
    with file.open("rb", buffering=0) as source:
        while source.readinto(buffer):
            pass
    return time.perf_counter() - started
