"""Files of a web server, in pieces: whatever it names as their size, and whether it knows ranges or not, no more than a piece is in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, BinaryIO

PIECE = 1 << 20
MAX_WHOLE = 64 << 20
"""Bytes of a file that is read whole: a tokenizer takes twenty million."""


class WrongLength(OSError):
    """The server sent more or less than it had named, or something else than was asked for."""


def is_web(fs: Any) -> bool:
    """Whether fsspec's client speaks HTTP."""
    protocols = fs.protocol if isinstance(fs.protocol, (tuple, list)) else (fs.protocol,)
    return bool({"http", "https"} & set(protocols))


def gives_ranges(fs: Any, path: str) -> bool:
    """Whether the server answers a request for one byte with that byte."""
    with closing(_opened(fs, path, 0, 1)) as file:
        return bool(file.r.status == 206)


def read_part(fs: Any, path: str, start: int = 0, end: int | None = None) -> bytes:
    """The bytes from `start` to `end` (exclusive; None: to the end of the file, at most MAX_WHOLE), also of a server that sends the whole file.

    WrongLength for one that sends more, and for a body that is compressed."""
    wanted, out = (MAX_WHOLE if end is None else end - start), bytearray()
    with closing(_opened(fs, path, start, end)) as file:
        left = 0 if file.r.status == 206 else start  # without ranges what comes before is read and dropped
        for piece in _pieces(file):
            dropped = min(left, len(piece))
            left -= dropped
            out += piece[dropped:]
            if len(out) >= wanted and (file.r.status != 206 or len(out) > wanted):
                break
    if end is None and len(out) > MAX_WHOLE:
        raise WrongLength(f"it has more than {MAX_WHOLE:,} bytes; expected a file that fits into memory")
    if end is not None and len(out) > wanted and file.r.status == 206:
        raise WrongLength(f"the server sent {len(out):,} bytes and more for a range of {wanted:,}; expected those that were asked for")
    return bytes(out[:wanted])


def write_part(fs: Any, path: str, start: int, end: int, out: BinaryIO) -> int:
    """The bytes from `start` to `end` at their place in `out`, of a server that gives ranges; how many came. WrongLength if they are more."""
    at = start
    with closing(_opened(fs, path, start, end)) as file:
        for piece in _pieces(file):
            if at + len(piece) > end:
                raise WrongLength(f"the server sent more than the {end - start:,} bytes of a range; expected those that were asked for")
            os.pwrite(out.fileno(), piece, at)
            at += len(piece)
    return at - start


def stream(fs: Any, path: str, size: int, out: BinaryIO, on_bytes: Callable[[int], None]) -> int:
    """The whole file into `out`, one piece after the other; its bytes. WrongLength if they are not `size`."""
    moved = 0
    with closing(_opened(fs, path, 0, None, whole=True)) as file:
        for piece in _pieces(file):
            moved += len(piece)
            if moved > size:
                raise WrongLength(f"the server sent more than the {size:,} bytes that it named; expected as many")
            out.write(piece)
            on_bytes(len(piece))
    if moved < size:
        raise WrongLength(f"the body ended after {moved:,} of {size:,} bytes")
    out.flush()
    os.fdatasync(out.fileno())
    return moved


def _opened(fs: Any, path: str, start: int, end: int | None, *, whole: bool = False) -> Any:
    """fsspec's stream of the answer, before its body."""
    headers = {**(fs.kwargs.get("headers") or {}), "Accept-Encoding": "identity"}
    if not whole:
        headers["Range"] = f"bytes={start}-{'' if end is None else end - 1}"
    # A size of its own keeps fsspec from asking for one; a block size of 0 is its stream.
    file = fs.open(path, "rb", block_size=0, size=1, headers=headers)
    coding = file.r.headers.get("Content-Encoding", "identity")
    if coding not in ("identity", ""):
        file.close()
        raise WrongLength(f"the server sent its Content-Encoding {coding}, which was not asked for; expected the file as it is")
    return file


def _pieces(file: Any) -> Iterator[bytes]:
    while piece := file.read(PIECE):
        yield piece
