"""Bodies that come compressed: read within bounds, and refused beyond them before they take memory."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Callable

import pytest

from plumbline.loadclient import http_responses
from plumbline.loadclient.event_stream import InvalidResponse
from plumbline.loadclient.http_responses import MAX_INFLATED_BODY, MAX_INFLATED_PIECE, ContentDecoder

SOCKET = 256 * 1024
"""Bytes of one read of asyncio's."""


def bare(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "bare deflate": bare,
}


def decoder(name: str) -> ContentDecoder:
    return ContentDecoder(name.split()[-1].encode())


@pytest.fixture(scope="module")
def zeros() -> bytes:
    """Much more than a body may become."""
    return bytes(8 * MAX_INFLATED_BODY)


@pytest.mark.fault("an endpoint answers with a gzip bomb", ends="refused", keeps="the client's memory")
@pytest.mark.parametrize("name", PACKERS)
@pytest.mark.parametrize("piece", [SOCKET, 4096])
def test_a_bomb_is_refused_before_it_takes_memory(zeros: bytes, name: str, piece: int) -> None:
    bomb = PACKERS[name](zeros)
    assert len(bomb) < len(zeros) / 900
    under_test, got = decoder(name), 0
    tracemalloc.start()
    try:
        with pytest.raises(InvalidResponse, match="inflates beyond") as refused:
            for at in range(0, len(bomb), piece):
                got += len(under_test.decoded(bomb[at : at + piece]))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert refused.value.error == "server_error"
    assert got <= MAX_INFLATED_BODY
    # The collected bytes, their copy, and what zlib grows its own buffer by.
    assert peak < 4 * MAX_INFLATED_PIECE
    for _ in range(3):  # a refused body's rest is not inflated again
        with pytest.raises(InvalidResponse):
            under_test.decoded(bomb[:piece])


@pytest.mark.fault("a bomb comes as many small gzip streams", ends="refused", keeps="the client's memory")
def test_many_streams_count_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_responses, "MAX_INFLATED_PIECE", 1000)
    with pytest.raises(InvalidResponse, match="inflates beyond"):
        decoder("gzip").decoded(gzip.compress(bytes(300)) * 4)


@pytest.mark.parametrize("name", PACKERS)
def test_a_body_up_to_the_bounds_is_read(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(http_responses, "MAX_INFLATED_PIECE", 1000)
    monkeypatch.setattr(http_responses, "MAX_INFLATED_BODY", 3000)
    under_test, body = decoder(name), bytes(range(250)) * 4
    for _ in range(3):  # each piece a stream of its own
        assert under_test.decoded(PACKERS[name](body)) == body
    with pytest.raises(InvalidResponse, match="inflates beyond"):
        under_test.decoded(PACKERS[name](b"x"))
    with pytest.raises(InvalidResponse, match="inflates beyond"):
        decoder(name).decoded(PACKERS[name](body + b"x"))


def test_a_long_answer_fits_in_single_bytes() -> None:
    body = b'data: {"id": "1", "choices": [{"text": " token"}]}\n\n' * 200
    under_test = decoder("gzip")
    assert b"".join(under_test.decoded(bytes([each])) for each in gzip.compress(body)) == body
