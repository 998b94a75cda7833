"""One raw file of a trial, handed out exactly as the archive lists it: its size and its SHA-256 are checked before a byte leaves."""

from __future__ import annotations

import hashlib
import tempfile
import threading
import weakref
from collections.abc import Iterator
from datetime import datetime
from typing import IO

from plumbline.reports.figures import size
from plumbline.results import ResultStore, addresses
from plumbline.results.document import Evidence

MOST_BYTES = 2**30
MOST_AT_ONCE = 4
"""Files that one process hands out at the same time: each of them lies whole in its temporary folder until the last byte has left."""
_IN_MEMORY = 8 * 2**20
_places = threading.BoundedSemaphore(MOST_AT_ONCE)


class Unavailable(LookupError):
    """The file cannot be handed out; `status` is what HTTP calls that."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def fetched(folder: str, item: Evidence, expired: tuple[datetime, str] | None) -> IO[bytes]:
    """The file, at its beginning; the caller closes it. `folder`: the attempt's, as the archive names it. Raises Unavailable.

    It is read whole first: whoever gets it gets what was measured, and nothing that somebody put in its place. So a row that was made up
    to point at another file leads nowhere either.
    """
    address = f"{folder}/{item.uri}"
    if expired is not None:
        raise Unavailable(410, f"{address} is kept no longer: {expired[1]}, {expired[0]:%Y-%m-%d}. Its checksum stays in the archive.")
    if item.bytes > MOST_BYTES:
        raise Unavailable(413, f"{address} has {size(item.bytes)}, more than a page hands out ({size(MOST_BYTES)}); read it from there.")
    if not _places.acquire(blocking=False):
        raise Unavailable(503, f"{MOST_AT_ONCE} files are being handed out, and no more at a time: try it again in a moment.")
    file: IO[bytes] = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 (it outlives this function)
    # With the file itself, so that also somebody who goes away before the first byte leaves room for the next.
    weakref.finalize(file, _places.release)
    try:
        digest, count = hashlib.sha256(), 0
        for piece in ResultStore(addresses.permitted(folder), patience_s=0.0).pieces(item.uri):
            count += len(piece)
            if count > item.bytes:
                break
            digest.update(piece)
            file.write(piece)
        if (count, digest.hexdigest()) != (item.bytes, item.sha256):
            raise Unavailable(502, f"{address} is not the file of {item.bytes:,} bytes with SHA-256 {item.sha256} that the archive lists.")
    except FileNotFoundError:
        file.close()
        raise Unavailable(404, f"{address} is missing. `plumbline archive verify` lists what else is.") from None
    except (OSError, ValueError, ImportError) as error:
        file.close()
        raise Unavailable(502, f"{address} cannot be read: {error}") from error
    except BaseException:
        file.close()
        raise
    file.seek(0)
    return file


def pieces(file: IO[bytes]) -> Iterator[bytes]:
    """The file a piece at a time; closes it at the end, or when nobody listens any longer."""
    with file:
        while piece := file.read(2**18):
            yield piece
