"""Files of a checkpoint while they are written and before they are read: sums, syncs, and the page cache."""

from __future__ import annotations

import ctypes
import hashlib
import io
import mmap
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

_READ = 1 << 20
_LEFT = 0.01
"""Share of a file's pages that may still be in memory: some are being looked at by others."""


@dataclass(frozen=True)
class Part:
    """One file of a checkpoint."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Pause:
    """Where a checkpoint that is to be killed half way says so and waits: `call` does both, once half of the bytes are written."""

    call: Callable[[], None]


class Written(io.RawIOBase):
    """A file that is written once, from its beginning."""

    def __init__(self, raw: IO[bytes], *, expected: int = 0, pause: Pause | None = None) -> None:
        """`pause` comes when half of the `expected` bytes have passed."""
        self._raw, self._half, self._pause = raw, expected // 2, pause
        self._bytes = 0
        self.error: OSError | None = None
        """Why a write failed: torch reports it as an error of its own and drops the cause."""

    def write(self, data: Any) -> int:
        try:
            written = self._raw.write(data)
        except OSError as error:
            self.error = error
            raise
        self._bytes += written
        if self._pause is not None and self._bytes >= self._half:
            self._raw.flush()
            self._pause.call()
        return written

    def tell(self) -> int:
        return self._bytes

    def fileno(self) -> int:
        return self._raw.fileno()

    def flush(self) -> None:
        if not self._raw.closed:
            self._raw.flush()


def part_of(path: Path) -> Part:
    """Size and checksum of a file that was written. Read back for it: a checksum while writing would take longer than a fast disk."""
    with path.open("rb") as file:
        return Part(os.fstat(file.fileno()).st_size, sum_of(file))


def sum_of(file: IO[bytes]) -> str:
    """SHA-256 of the rest of a file."""
    summed = hashlib.sha256()
    while piece := file.read(_READ):
        summed.update(piece)
    return summed.hexdigest()


def sync(file: IO[bytes]) -> None:
    """What was written to the file is on the disk."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """The folder's names are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def dropped_from_page_cache(paths: Iterable[Path]) -> bool:
    """Ask the kernel to forget these files' pages, so that they are read from the disk. Whether it did, as far as it tells.

    No privilege is needed for one's own files. A file system that lives in memory keeps them, and so may others.
    """
    gone = True
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            gone &= _share_in_page_cache(handle) <= _LEFT
        except (AttributeError, OSError):  # no such call on this system or for this file
            gone = False
        finally:
            os.close(handle)
    return gone


def _share_in_page_cache(handle: int) -> float:
    """How much of an open file is in memory, 0…1; OSError if the kernel does not tell."""
    size = os.fstat(handle).st_size
    if not size:
        return 0.0
    if sys.platform != "linux":
        raise OSError("only Linux tells which pages are in memory")
    with mmap.mmap(handle, size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE) as mapped:
        pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
        first = ctypes.c_char.from_buffer(mapped)
        try:
            told = ctypes.CDLL(None, use_errno=True).mincore(ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(size), pages)
        finally:
            del first  # the mapping cannot be closed while something points into it
        if told:
            raise OSError(ctypes.get_errno(), "mincore")
        return sum(page & 1 for page in pages) / len(pages)
