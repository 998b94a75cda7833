from __future__ import annotations

import socket
import threading
import time
from contextlib import ExitStack, suppress

from plumbline.harness.probes import inter_node


def test_a_peer_is_measured_both_ways() -> None:
    with inter_node.PeerServer() as answering:
        trip, bandwidth = inter_node.peer_rows([("127.0.0.1", answering.port)])
    assert (trip.metric, trip.phase, trip.statistic, trip.n) == ("peer_round_trip_time", "environment", "median", 200)
    assert trip.value is not None and 0 < trip.value < 1
    assert (bandwidth.metric, bandwidth.n >= 1) == ("peer_bandwidth", True)
    assert bandwidth.value is not None and 1e5 < bandwidth.value < 1e13


def test_the_slowest_peer_counts() -> None:
    delay = 0.005

    def passed_on(listener: socket.socket, port: int) -> None:
        """A way to the peer on which each bit of news is late."""
        near, _ = listener.accept()
        far = socket.create_connection(("127.0.0.1", port))
        back = threading.Thread(target=pump, args=(far, near, 0.0), daemon=True)
        back.start()
        pump(near, far, delay)
        far.close()
        back.join()

    def pump(source: socket.socket, target: socket.socket, late_s: float) -> None:
        try:
            while data := source.recv(1 << 20):
                time.sleep(late_s)
                target.sendall(data)
        except OSError:
            return

    with inter_node.PeerServer() as near, inter_node.PeerServer() as far, socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=passed_on, args=(listener, far.port), daemon=True).start()
        trip, _ = inter_node.peer_rows([("127.0.0.1", near.port), ("127.0.0.1", listener.getsockname()[1])])
    assert trip.value is not None and trip.value >= delay


def test_without_peers_there_is_nothing_to_say_and_one_that_does_not_answer_leaves_the_figures_open() -> None:
    assert inter_node.peer_rows([]) == []
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with inter_node.PeerServer() as answering:
        found = inter_node.peer_rows([("127.0.0.1", answering.port), ("127.0.0.1", port)])
    assert [(row.metric, row.value, row.n) for row in found] == [("peer_round_trip_time", None, 0), ("peer_bandwidth", None, 0)]


def test_strangers_are_hung_up_on_and_the_next_one_is_served() -> None:
    with inter_node.PeerServer() as answering:
        with socket.create_connection(("127.0.0.1", answering.port), timeout=10) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
            with suppress(ConnectionResetError):  # what it said was not read to its end
                assert stranger.recv(1) == b""
        assert inter_node.peer_rows([("127.0.0.1", answering.port)])[0].value is not None


def test_the_end_does_not_wait_for_who_keeps_silent() -> None:
    with ExitStack() as stack:
        with inter_node.PeerServer() as answering:
            silent = stack.enter_context(socket.create_connection(("127.0.0.1", answering.port), timeout=10))
            silent.sendall(b"e")
        with suppress(ConnectionResetError):  # what it said may not have been read
            assert silent.recv(1) == b""
