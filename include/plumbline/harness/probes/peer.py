"""TCP between two nodes: latency of a small message and bandwidth of one connection.

One node runs `PeerServer`, the other one `peer_rows`. A request is a command and a size: `e` echoes as many bytes, `t` acknowledges them with
one byte.
"""

from __future__ import annotations

import socket
import statistics
import struct
import threading
import time
from collections.abc import Iterable
from contextlib import suppress

from plumbline.results import MetricRow, metric_row

_HEADER = struct.Struct("!cQ")
_ECHO_BYTES, _MOST_ECHOED = 8, 1 << 16
_TRIPS, _WARMUP_TRIPS = 200, 10
_PIECE, _CHUNK = 1 << 24, 1 << 18
_SECONDS, _PATIENCE_S = 0.5, 10.0


class PeerServer:
    """A context manager that answers on its own `port`, on all interfaces, one connection at a time."""

    def __init__(self) -> None:
        both = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if both else socket.AF_INET
        self._listener = socket.create_server(("", 0), family=family, dualstack_ipv6=both)
        self.port: int = self._listener.getsockname()[1]
        self._current: socket.socket | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="peer-probe", daemon=True)

    def __enter__(self) -> PeerServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        for open_socket in (self._listener, self._current):
            if open_socket is not None:
                with suppress(OSError):  # its other end may have hung up already
                    open_socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                self._current, _ = self._listener.accept()
            except OSError:
                return  # closed: nobody will ask any more
            with self._current, suppress(OSError):  # who asks may go away at any time
                if self._closing.is_set():
                    return
                self._current.settimeout(_PATIENCE_S)
                self._current.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                _serve_connection(self._current)


def peer_rows(peers: Iterable[tuple[str, int]]) -> list[MetricRow]:
    """`peer_round_trip_time` (median of 200) and `peer_bandwidth` (best) to the slowest of the (host, port) pairs, which a job waits for; absent
    if one cannot be reached. Empty without peers."""
    found = [_measure_peer(host, port) for host, port in peers]
    if not found:
        return []
    reached = [one for one in found if one is not None]
    if len(reached) < len(found):
        return [metric_row(name, None, 0, phase="environment") for name in ("peer_round_trip_time", "peer_bandwidth")]
    rate, pieces = min((rate, n) for _, rate, n in reached)
    return [
        metric_row("peer_round_trip_time", max(trip for trip, _, _ in reached), _TRIPS, phase="environment"),
        metric_row("peer_bandwidth", rate, pieces, phase="environment"),
    ]


def _measure_peer(host: str, port: int) -> tuple[float, float, int] | None:
    """Median round trip in seconds, best rate in bytes/s, number of pieces; None without an answer."""
    try:
        with socket.create_connection((host, port), timeout=_PATIENCE_S) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            trips = [_time_round_trip(connection) for _ in range(_WARMUP_TRIPS + _TRIPS)][_WARMUP_TRIPS:]
            piece, times = bytes(_PIECE), [0.0]
            while sum(times) < _SECONDS:
                began = time.perf_counter()
                connection.sendall(_HEADER.pack(b"t", len(piece)))
                connection.sendall(piece)
                _receive(connection, 1)
                times.append(time.perf_counter() - began)
            return statistics.median(trips), _PIECE / min(times[1:]), len(times) - 1
    except OSError:
        return None


def _time_round_trip(connection: socket.socket) -> float:
    began = time.perf_counter()
    connection.sendall(_HEADER.pack(b"e", _ECHO_BYTES) + bytes(_ECHO_BYTES))
    _receive(connection, _ECHO_BYTES)
    return time.perf_counter() - began


def _serve_connection(connection: socket.socket) -> None:
    while True:
        command, size = _HEADER.unpack(_receive(connection, _HEADER.size, keep=True))
        if command == b"e" and size <= _MOST_ECHOED:
            connection.sendall(_receive(connection, size, keep=True))
        elif command == b"t":
            _receive(connection, size)
            connection.sendall(b"\0")
        else:
            return  # somebody who speaks something else


def _receive(connection: socket.socket, size: int, *, keep: bool = False) -> bytes:
    """Exactly `size` bytes, returned if `keep`. ConnectionError at an early end."""
    kept, buffer = bytearray(), bytearray(min(size, _CHUNK))
    while size > 0:
        n = connection.recv_into(buffer, min(size, len(buffer)))
        if n == 0:
            raise ConnectionError("the other end hung up")
        if keep:
            kept += buffer[:n]
        size -= n
    return bytes(kept)
