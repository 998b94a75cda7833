"""The answer to a request for a file of a shelf: streamed, with its length, and never as a page of Plumbline's origin."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import IO

from fastapi import HTTPException
from fastapi.responses import StreamingResponse

_PIECE = 2**16


def file_answer(file: IO[bytes] | None, missing: str, media_type: str, policy: str, download_as: str | None = None) -> StreamingResponse:
    """The file under a Content-Security-Policy, closed once it is sent; 404 with `missing` without one. `download_as`: saved under this name."""
    if file is None:
        raise HTTPException(404, missing)
    headers = {
        "Content-Length": str(os.fstat(file.fileno()).st_size),
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
    }
    if download_as is not None:
        headers["Content-Disposition"] = f'attachment; filename="{download_as}"'
    return StreamingResponse(_pieces(file), media_type=media_type, headers=headers)


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while piece := file.read(_PIECE):
            yield piece
