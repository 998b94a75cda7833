"""Messages between two nodes, and the end of them."""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Iterator

import pytest

from plumbline.harness.gang.channel import Channel, PeerDisconnected, connect, listen
from plumbline.harness.gang.topology import Address


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    with listen(Address("127.0.0.1", 0)) as server:
        one = connect(Address("127.0.0.1", server.getsockname()[1]), 5, lambda why: None)
        other = Channel(server.accept()[0])
    yield one, other
    one.close()
    other.close()


def heard(link: Channel, messages: int) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    deadline = time.monotonic() + 10
    while len(found) < messages and time.monotonic() < deadline:
        found += link.news()
    return found


def test_messages_come_whole_and_in_order(ends: tuple[Channel, Channel]) -> None:
    one, other = ends
    assert other.news() == []
    one.send("hello", node=1)
    one.send("joined", data="ab\n\u00e9")
    assert heard(other, 2) == [{"kind": "hello", "node": 1}, {"kind": "joined", "data": "ab\né"}]
    assert other.news() == []


def test_what_was_said_before_the_end_is_heard_and_then_the_end(ends: tuple[Channel, Channel]) -> None:
    one, other = ends
    one.send("ended", logs={})
    one.close()
    assert heard(other, 1) == [{"kind": "ended", "logs": {}}]
    with pytest.raises(PeerDisconnected, match="closed"):
        heard(other, 1)


def test_nothing_can_be_said_to_who_is_gone(ends: tuple[Channel, Channel]) -> None:
    one, other = ends
    other.close()
    with pytest.raises(PeerDisconnected, match="its connection broke"):
        for _ in range(1000):
            one.send("hello")


@pytest.mark.parametrize("noise", [b"GET / HTTP/1.1\r\n\r\n", b"[1]\n", b'{"no": "kind"}\n'])
def test_who_speaks_otherwise_is_gone(noise: bytes) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with listen(Address("127.0.0.1", 0)) as server:
        ours, theirs = socket.create_connection(server.getsockname()), server.accept()[0]
    theirs.sendall(noise)
    link = Channel(ours)
    with pytest.raises(PeerDisconnected, match="invalid message"):
        heard(link, 1)
    theirs.close()
    link.close()


def test_a_large_message_waits_for_room(ends: tuple[Channel, Channel]) -> None:
    import threading

    one, other = ends
    text = "x" * (8 << 20)
    sender = threading.Thread(target=lambda: one.send("ended", logs=text))
    sender.start()
    (message,) = heard(other, 1)
    sender.join()
    assert message["logs"] == text


def test_a_name_that_appears_late_is_waited_for_and_then_given_up() -> None:
    said: list[str] = []
    with pytest.raises(PeerDisconnected, match=r"gang-0\.nowhere\.invalid.* 1 s"):
        connect(Address("gang-0.nowhere.invalid", 29400), 1, said.append)
    assert "gang-0.nowhere.invalid" in said[0]


def test_a_harness_that_is_not_up_yet_is_waited_for() -> None:
    with listen(Address("127.0.0.1", 0)) as server:
        address = Address("127.0.0.1", server.getsockname()[1])
    opened: list[socket.socket] = []

    def waiting(why: str) -> None:
        assert why.startswith(f"{address} ") and os.strerror(errno.ECONNREFUSED) in why
        if not opened:
            opened.append(listen(address))

    connect(address, 30, waiting).close()
    opened[0].close()


def test_the_nodes_meet_on_every_interface_unless_they_are_one_machine() -> None:
    with listen(Address("gang-0.gang", 0)) as everywhere, listen(Address("localhost", 0)) as here:
        assert everywhere.getsockname()[0] in ("::", "0.0.0.0")
        assert here.getsockname()[0] == "127.0.0.1"
        Channel(socket.create_connection(("127.0.0.1", everywhere.getsockname()[1]))).close()
