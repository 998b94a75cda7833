"""The disk that checkpoints go to and data comes from."""

from __future__ import annotations

import mmap
import os
import random
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from plumbline.results import MetricRow, row

_SIZE, _BLOCK, _TIMES = 64 * 2**20, 4 * 2**20, 3
_WINDOW, _WINDOWS_S = 16 * 2**10, 0.3
"""Bytes of a sample of some thousand tokens; how long samples are read."""


def rows(workdir: Path) -> list[MetricRow]:
    """`disk_write_bandwidth`: median of three files of 64 MiB, written in order and flushed to the device with fsync; `disk_read_bandwidth`:
    of reading them again in order. Its value is absent where the system would not forget what it had just written."""
    writes, reads = [], []
    for _ in range(_TIMES):
        with _file(workdir) as (file, seconds):
            writes.append(_SIZE / seconds)
            if _forgotten(file):
                reads.append(_SIZE / _read(file))
    return [
        row("disk_write_bandwidth", statistics.median(writes), len(writes), phase="environment"),
        row("disk_read_bandwidth", statistics.median(reads) if reads else None, len(reads), phase="environment"),
    ]


def dataset_rows(workdir: Path) -> list[MetricRow]:
    """`dataset_read_bandwidth`: windows of 16 KiB at random places of a memory-mapped file of 64 MiB, none of them twice. Absent where the
    system would not forget the file."""
    with _file(workdir) as (file, _):
        if not _forgotten(file):
            return [row("dataset_read_bandwidth", None, 0, phase="environment")]
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


def _forgotten(file: Path) -> bool:
    """Have the system drop the file's pages, and say whether it did: a file system in memory keeps them, and some systems cannot be asked."""
    if not hasattr(os, "posix_fadvise") or not hasattr(os, "RWF_NOWAIT"):
        return False
    with file.open("rb", buffering=0) as source:
        os.posix_fadvise(source.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        try:
            # Answers only from memory. The last page: what may be read ahead after this question is what the probe reads last.
            os.preadv(source.fileno(), [bytearray(1)], _SIZE - 1, os.RWF_NOWAIT)
        except BlockingIOError:
            return True
        except OSError:
            return False  # a file system that cannot be asked
        return False


def _read(file: Path) -> float:
    """Seconds of reading the whole file in order."""
    buffer = bytearray(_BLOCK)
    started = time.perf_counter()
    with file.open("rb", buffering=0) as source:
        while source.readinto(buffer):
            pass
    return time.perf_counter() - started
