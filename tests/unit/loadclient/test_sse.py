"""Events are the same however the bytes were cut."""

from __future__ import annotations

import pytest

from plumbline.loadclient.event_stream import EventStream, InvalidResponse

STREAM = b': a comment\ndata: {"a": 1}\n\nevent: x\ndata:two\r\ndata: lines\r\n\r\n\n\ndata: last\r\r'


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_wherever_the_bytes_are_cut(size: int) -> None:
    events = EventStream()
    found = [event for start in range(0, len(STREAM), size) for event in events.feed(STREAM[start : start + size])]
    # The last CR may be half of a CR LF: only the next byte tells.
    assert found + events.feed(b"x") == [b'{"a": 1}', b"two\nlines", b"last"]


def test_an_event_is_complete_only_with_its_empty_line() -> None:
    events = EventStream()
    assert events.feed(b"data: half\n") == []
    assert events.feed(b"\n") == [b"half"]


def test_an_event_without_an_end_does_not_fill_the_memory() -> None:
    events = EventStream()
    with pytest.raises(InvalidResponse):
        for _ in range(100):
            events.feed(b"data: " + b"x" * 100_000)
