"""Several files written and read at once, past the page cache where the file system allows it: what a node's disks hold, not its memory."""

from __future__ import annotations

import errno
import mmap
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from plumbline.harness.environment.disk import in_memory
from plumbline.harness.probes.page_cache import is_cold

STREAMS, _BLOCK = 8, 8 * 2**20
_SECONDS = 30.0
"""How long is written, and then read, at most: slow disks show in fewer bytes."""
_DIRECT = getattr(os, "O_DIRECT", 0)


@dataclass(frozen=True)
class Found:
    """Rates in bytes/s over all streams. `read` is None where the system answers from memory."""

    write: float
    read: float | None
    method: str


def measure(workdir: Path, size: int, streams: int = STREAMS, seconds: float = _SECONDS) -> Found:
    """Write `size` bytes in all over the streams, flush them, read them again, and delete them. OSError if the disk cannot be written."""
    # Such a file system takes direct I/O and has no disk to reach.
    memory = in_memory(workdir)
    direct = not memory and _takes_direct(workdir)
    each = max(size // streams // _BLOCK, 1)
    files = [workdir / f"plumbline-disk-probe-{i}" for i in range(streams)]
    try:
        blocks, took = _at_once(files, lambda file: _write(file, each, direct, seconds))
        total = sum(blocks) * _BLOCK
        method = f"{streams} streams, {'direct I/O' if direct else 'buffered (direct I/O is not supported)'}, {total / 2**30:.3g} GiB"
        write = total / took
        if not direct and not all(is_cold(file) is True for file in files):
            return Found(write, None, method)
        read, took = _at_once(files, lambda file: _read(file, direct, seconds))
        return Found(write, sum(read) * _BLOCK / took, method)
    finally:
        for file in files:
            file.unlink(missing_ok=True)


def _at_once(files: Sequence[Path], work: Callable[[Path], int]) -> tuple[list[int], float]:
    """What the work returned for each file, and the seconds until the last was done."""
    with ThreadPoolExecutor(len(files)) as pool:
        started = time.perf_counter()
        done = list(pool.map(work, files))
        return done, time.perf_counter() - started


def _takes_direct(workdir: Path) -> bool:
    """Whether a file there can be written past the page cache: a block is tried, since some file systems refuse only then."""
    if not _DIRECT:
        return False
    file = workdir / "plumbline-disk-probe-direct"
    try:
        _write(file, 1, True, _SECONDS)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.EOPNOTSUPP):
            return False
        raise
    finally:
        file.unlink(missing_ok=True)
    return True


def _write(file: Path, blocks: int, direct: bool, seconds: float) -> int:
    """Blocks written and durable: as many as wanted, or as fit into the time."""
    target = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | (_DIRECT if direct else 0), 0o600)
    try:
        with mmap.mmap(-1, _BLOCK) as block:  # page-aligned, as direct I/O takes it
            block.write(os.urandom(_BLOCK))  # no file system or disk can compress it
            deadline, done = time.perf_counter() + seconds, 0
            while done < blocks and (done == 0 or time.perf_counter() < deadline):
                if os.write(target, block) != _BLOCK:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))
                done += 1
            os.fsync(target)
            return done
    finally:
        os.close(target)


def _read(file: Path, direct: bool, seconds: float) -> int:
    """Whole blocks read, in order: all of the file, or as many as fit into the time."""
    source = os.open(file, os.O_RDONLY | (_DIRECT if direct else 0))
    try:
        with mmap.mmap(-1, _BLOCK) as block:
            deadline, done = time.perf_counter() + seconds, 0
            while (done == 0 or time.perf_counter() < deadline) and os.preadv(source, [block], done * _BLOCK) == _BLOCK:
                done += 1
            return done
    finally:
        os.close(source)
