"""Frames, byte by byte as the RFCs' texts have them."""

from __future__ import annotations

import hpack
import pytest

from plumbline.loadclient import http2
from plumbline.loadclient.kserve_grpc import StreamState


def test_a_frame() -> None:
    assert http2.frame(http2.PING, http2.ACK, 0, b"12345678") == b"\0\0\x08\x06\x01\0\0\0\x00" + b"12345678"
    assert http2.unpack_head(http2.frame(http2.DATA, 0, 5, bytes(70_000)), 0) == (273, 112, 0, 0, 5), "70,000 is 273 times 256 and 112"


def test_settings_there_and_back() -> None:
    frame = http2.settings({http2.HEADER_TABLE_SIZE: 0, http2.INITIAL_WINDOW_SIZE: 2**31 - 1})
    assert frame == b"\0\0\x0c\x04\0\0\0\0\0" + b"\0\x01\0\0\0\0" + b"\0\x04\x7f\xff\xff\xff"
    assert http2.read_settings(frame[9:]) == {1: 0, 4: 2**31 - 1}
    with pytest.raises(http2.ProtocolError, match=r"SETTINGS .*5 bytes"):
        http2.read_settings(bytes(5))


def test_padding_and_priority_are_taken_off() -> None:
    assert http2.without_padding(http2.PADDED, b"\x02abc\0\0") == b"abc"
    assert http2.without_padding(http2.WITH_PRIORITY, b"\0\0\0\0\x10abc") == b"abc"
    assert http2.without_padding(http2.PADDED | http2.WITH_PRIORITY, b"\x01\0\0\0\0\x10abc\0") == b"abc"
    for payload in (b"", b"\x05abc"):
        with pytest.raises(http2.ProtocolError, match="padding"):
            http2.without_padding(http2.PADDED, payload)


def test_a_request_block_says_what_was_meant_and_leaves_no_trace() -> None:
    headers = [(":method", "POST"), (":path", "/a.b/C"), ("authorization", "Bearer " + "k" * 200)]
    block = http2.request_block(headers)
    decoder = hpack.Decoder()
    for _ in range(2):
        assert decoder.decode(block) == headers
    assert not decoder.header_table.dynamic_entries


def test_heads() -> None:
    blocks = http2.HeaderBlocks()
    encoder = hpack.Encoder()
    encoder.header_table_size = 0
    for _ in range(2):
        assert blocks.read(encoder.encode({":status": "200", "content-type": "application/grpc"})) == http2.Head("200", None, "")
    assert blocks.read(encoder.encode({"grpc-status": "13", "grpc-message": "no"})) == http2.Head(None, 13, "no")
    with pytest.raises(http2.ProtocolError, match="grpc-status is 'x'"):
        blocks.read(encoder.encode({"grpc-status": "x"}))
    with pytest.raises(http2.ProtocolError, match="unreadable headers"):
        blocks.read(b"\xff\xff\xff\xff\xff")


def test_a_server_that_uses_the_table_it_was_denied() -> None:
    encoder = hpack.Encoder()
    encoder.encode({"x-server": "a"})
    with pytest.raises(http2.ProtocolError, match="unreadable headers"):
        http2.HeaderBlocks().read(encoder.encode({"x-server": "a"}))


def test_numbers_and_names() -> None:
    assert http2.uint31(b"\xff\xff\xff\xff\0\0\0\x08", 0) == 2**31 - 1
    assert http2.uint31(b"\xff\xff\xff\xff\0\0\0\x08", 4) == 8
    with pytest.raises(http2.ProtocolError, match=r"\b3 bytes.* 4$"):
        http2.uint31(bytes(3), 0)
    assert (http2.error_name(8), http2.error_name(99)) == ("CANCEL", "error 99")


def test_messages_whatever_pieces_they_come_in() -> None:
    sent = b"".join(b"\0" + len(text).to_bytes(4, "big") + text for text in (b"one", b"", b"three"))
    for size in range(1, len(sent) + 1):
        call = StreamState(0, 1)
        pieces = [sent[at : at + size] for at in range(0, len(sent), size)]
        assert [message for piece in pieces for message in call.messages(piece)] == [b"one", b"", b"three"]
        assert call.partial is None
    call = StreamState(0, 1)
    assert list(call.messages(b"\x01\0\0\0\x01x" + b"\0\0")) == [None]
    assert call.partial == b"\0\0"


def test_only_headers_that_tell_of_nothing_wrong_are_known_as_such() -> None:
    def block(*headers: tuple[str, str]) -> bytes:
        return bytes(hpack.Encoder().encode([hpack.NeverIndexedHeaderTuple(*header) for header in headers]))

    begun, ended = block((":status", "200")), block(("grpc-status", "0"))
    wrong = [block((":status", "503")), block(("grpc-status", "14")), block((":status", "404"), ("grpc-status", "0")), block(("x", "y"))]
    blocks = http2.HeaderBlocks()
    for each in (begun, ended, *wrong):
        blocks.read(each)
    assert blocks.well_begun == {begun}
    assert blocks.well_ended == {ended}
