"""Disk bandwidth: sequential writes and reads, several streams past the page cache, and random reads of a memory-mapped file."""

from __future__ import annotations

import errno
import mmap
import os
import random
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from plumbline.harness.environment.disk import is_memory_filesystem
from plumbline.results import MetricRow, metric_row

_SIZE, _BLOCK, _TIMES = 64 * 2**20, 4 * 2**20, 3
LARGE_BYTES = 8 * 2**30
"""Bytes on a node with GPUs, if a quarter of the free space allows it: more than a disk's own cache."""
_SPACE_SHARE = 4
_WINDOW, _WINDOWS_S = 16 * 2**10, 0.3
"""Bytes of a sample of some thousand tokens; how long samples are read."""
_CACHED_REASON = "the file system kept in memory what had just been written"


def disk_rows(workdir: Path, *, large: bool = False) -> list[MetricRow]:
    """`disk_write_bandwidth` and `disk_read_bandwidth`; reads are absent where the system keeps the written data in memory.

    Small: the median of three files of 64 MiB, written in order and flushed with fsync, and of reading them again.
    `large`: 8 GiB over several streams at once, past the page cache. OSError if the disk cannot be written."""
    if large:
        speeds = measure_streams(workdir, min(LARGE_BYTES, shutil.disk_usage(workdir).free // _SPACE_SHARE))
        return _rows([speeds.write], [] if speeds.read is None else [speeds.read], speeds.method)
    writes, reads = [], []
    for _ in range(_TIMES):
        with _written_file(workdir) as (file, seconds):
            writes.append(_SIZE / seconds)
            if is_cold(file) is True:
                reads.append(_SIZE / _time_sequential_read(file))
    return _rows(writes, reads, f"1 stream, buffered, {_TIMES} files of {_SIZE // 2**20} MiB")


def _rows(writes: Sequence[float], reads: Sequence[float], method: str) -> list[MetricRow]:
    read = statistics.median(reads) if reads else None
    return [
        metric_row("disk_write_bandwidth", statistics.median(writes), len(writes), phase="environment", method=method),
        metric_row("disk_read_bandwidth", read, len(reads), phase="environment", reason=_CACHED_REASON, method=method),
    ]


def dataset_rows(workdir: Path) -> list[MetricRow]:
    """`dataset_read_bandwidth`: distinct windows of 16 KiB at random places of a memory-mapped file of 64 MiB. Absent where the system keeps the
    file in memory."""
    with _written_file(workdir) as (file, _):
        if is_cold(file) is not True:
            return [metric_row("dataset_read_bandwidth", None, 0, phase="environment", reason=_CACHED_REASON)]
        places = random.Random(1).sample(range(_SIZE // _WINDOW), _SIZE // _WINDOW)
        read = 0
        with file.open("rb") as source, mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            started = time.perf_counter()
            for place in places:
                read += len(mapped[place * _WINDOW : (place + 1) * _WINDOW])
                if time.perf_counter() - started > _WINDOWS_S:
                    break
            seconds = time.perf_counter() - started
        return [metric_row("dataset_read_bandwidth", read / seconds, read // _WINDOW, phase="environment")]


@contextmanager
def _written_file(workdir: Path) -> Iterator[tuple[Path, float]]:
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


def _time_sequential_read(file: Path) -> float:
    buffer = bytearray(_BLOCK)
    started = time.perf_counter()
    with file.open("rb", buffering=0) as source:
        while source.readinto(buffer):
            pass
    return time.perf_counter() - started


STREAMS, _STREAM_BLOCK = 8, 8 * 2**20
_STREAM_SECONDS = 30.0
"""Most seconds of writing, and of reading: slow disks show in fewer bytes."""
_DIRECT = getattr(os, "O_DIRECT", 0)


@dataclass(frozen=True)
class StreamResult:
    """Rates in bytes/s over all streams. `read` is None where the system answers from memory."""

    write: float
    read: float | None
    method: str


def measure_streams(workdir: Path, size: int, streams: int = STREAMS, seconds: float = _STREAM_SECONDS) -> StreamResult:
    """Write `size` bytes in all over the streams, flush, read and delete them. OSError if the disk cannot be written."""
    # Such a file system takes direct I/O and has no disk to reach.
    memory = is_memory_filesystem(workdir)
    direct = not memory and _supports_direct_io(workdir)
    each = max(size // streams // _STREAM_BLOCK, 1)
    files = [workdir / f"plumbline-disk-probe-{i}" for i in range(streams)]
    try:
        blocks, took = _in_parallel(files, lambda file: _write_stream(file, each, direct, seconds))
        total = sum(blocks) * _STREAM_BLOCK
        method = f"{streams} streams, {'direct I/O' if direct else 'buffered (direct I/O is not supported)'}, {total / 2**30:.3g} GiB"
        write = total / took
        if not direct and not all(is_cold(file) is True for file in files):
            return StreamResult(write, None, method)
        read, took = _in_parallel(files, lambda file: _read_stream(file, direct, seconds))
        return StreamResult(write, sum(read) * _STREAM_BLOCK / took, method)
    finally:
        for file in files:
            file.unlink(missing_ok=True)


def _in_parallel(files: Sequence[Path], work: Callable[[Path], int]) -> tuple[list[int], float]:
    with ThreadPoolExecutor(len(files)) as pool:
        started = time.perf_counter()
        done = list(pool.map(work, files))
        return done, time.perf_counter() - started


def _supports_direct_io(workdir: Path) -> bool:
    """A block is tried, since some file systems refuse direct I/O only then."""
    if not _DIRECT:
        return False
    file = workdir / "plumbline-disk-probe-direct"
    try:
        _write_stream(file, 1, True, _STREAM_SECONDS)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.EOPNOTSUPP):
            return False
        raise
    finally:
        file.unlink(missing_ok=True)
    return True


def _write_stream(file: Path, blocks: int, direct: bool, seconds: float) -> int:
    target = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | (_DIRECT if direct else 0), 0o600)
    try:
        with mmap.mmap(-1, _STREAM_BLOCK) as block:  # page-aligned, as direct I/O takes it
            block.write(os.urandom(_STREAM_BLOCK))  # no file system or disk can compress it
            deadline, done = time.perf_counter() + seconds, 0
            while done < blocks and (done == 0 or time.perf_counter() < deadline):
                if os.write(target, block) != _STREAM_BLOCK:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))
                done += 1
            os.fsync(target)
            return done
    finally:
        os.close(target)


def _read_stream(file: Path, direct: bool, seconds: float) -> int:
    source = os.open(file, os.O_RDONLY | (_DIRECT if direct else 0))
    try:
        with mmap.mmap(-1, _STREAM_BLOCK) as block:
            deadline, done = time.perf_counter() + seconds, 0
            while (done == 0 or time.perf_counter() < deadline) and os.preadv(source, [block], done * _STREAM_BLOCK) == _STREAM_BLOCK:
                done += 1
            return done
    finally:
        os.close(source)


def is_cold(file: Path) -> bool | None:
    """Drop the file's pages; whether the system did, which a file system in memory never does. None if it cannot be asked."""
    if not hasattr(os, "posix_fadvise") or not hasattr(os, "RWF_NOWAIT"):
        return None
    with file.open("rb", buffering=0) as source:
        os.posix_fadvise(source.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        try:
            # Answers only from memory. The last page: what may be read ahead after this question is what the probe reads last.
            os.preadv(source.fileno(), [bytearray(1)], max(os.fstat(source.fileno()).st_size - 1, 0), os.RWF_NOWAIT)
        except BlockingIOError:
            return True
        except OSError:
            return None  # a file system that cannot be asked
        return False
