"""Decode HTTP bodies that a server compressed."""

from __future__ import annotations

import zlib
from typing import Any

from plumbline.loadclient.event_stream import InvalidResponse


class ContentDecoder:
    """Decodes a body that was compressed although that was not asked for. Each piece may be a stream of its own."""

    def __init__(self, coding: bytes) -> None:
        self._coding = coding
        self._stream: Any = None

    def decoded(self, data: bytes) -> bytes:
        """InvalidResponse for an unknown coding, and for bytes that are not in it."""
        if self._coding not in (b"gzip", b"x-gzip", b"deflate"):
            raise InvalidResponse("server_error", f"Content-Encoding {self._coding.decode('latin-1')} came where identity was asked for")
        out = b""
        try:
            while data:
                if self._stream is None or self._stream.eof:
                    # Deflate is zlib's format by its definition, and a bare stream in practice.
                    bare = self._coding == b"deflate" and (data[0] & 0x0F != 8 or data[0] >> 4 > 7)
                    self._stream = zlib.decompressobj(-zlib.MAX_WBITS if bare else zlib.MAX_WBITS | 32)
                out += self._stream.decompress(data)
                data = self._stream.unused_data if self._stream.eof else b""
        except zlib.error as error:
            raise InvalidResponse(
                "server_error", f"the body is not in its Content-Encoding {self._coding.decode('latin-1')}: {error}"
            ) from error
        return out
