"""The way between client and server, measured apart from the server's work: by what takes next to none of it.

A connect is answered by the server's kernel, whatever its process does: that is the network's round trip. A small request on an idle
connection (the server's liveness) goes through TLS, proxies and the server's front end: what every request pays at least.
"""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import numpy as np
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc import service_pb2_grpc

from plumbline.declarations.phases import LoadPhase
from plumbline.harness.inference.endpoint.talk import address_of, channel, http_connection
from plumbline.harness.inference.statistics import PERCENTILES, interval, percentile, supported
from plumbline.results import MetricRow, row

_TRIP_S = 2.0


@dataclass(frozen=True)
class Way:
    """To whom, and how it is spoken to there. `path`: what stands before the protocol's own, over HTTP."""

    address: str
    protocol: str = "kserve_grpc"
    tls: bool = False
    path: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class RoundTrips:
    """Seconds of each round trip that came back: of TCP's handshake [n], of a small request [m]. Lost ones are missing."""

    connect_s: tuple[float, ...]
    request_s: tuple[float, ...]


def measure_round_trip(way: Way, n: int = 20, within_s: float = 10.0) -> RoundTrips:
    """`n` round trips of each kind, one after the other, fewer if they take longer than `within_s` in all; never raises for the network."""
    half = time.monotonic() + within_s / 2
    try:
        # The name is looked up once: its server is not on the way.
        found = socket.getaddrinfo(*address_of(way.address), type=socket.SOCK_STREAM)[0]
    except OSError:
        return RoundTrips((), ())
    connects = _timed(lambda: _connect(found[0], found[4]), n, half)
    try:
        with _pings(way) as ping:
            ping()  # the connection itself, TLS's handshake included
            return RoundTrips(connects, _timed(ping, n, half + within_s / 2))
    except (OSError, http.client.HTTPException, grpc.RpcError):
        return RoundTrips(connects, ())


def round_trip_rows(phase: LoadPhase, measured: Sequence[RoundTrips]) -> list[MetricRow]:
    """`network_round_trip_time` and `protocol_round_trip_time` of a phase, from what was measured before and after it."""
    rows = []
    for metric, kind in (("network_round_trip_time", "connect_s"), ("protocol_round_trip_time", "request_s")):
        ordered = np.sort(np.array([value for trips in measured for value in getattr(trips, kind)], np.float64))
        n = len(ordered)
        for name in ("p50", "p95"):
            q = PERCENTILES[name]
            value = percentile(ordered, q) if supported(n, q) else None
            rows.append(row(metric, value, n, phase=phase, statistic=name, ci=interval(ordered, q)))
    return rows


def _timed(trip: Callable[[], None], n: int, deadline: float) -> tuple[float, ...]:
    found = []
    for _ in range(n):
        began = time.perf_counter()
        if time.monotonic() > deadline:
            break
        try:
            trip()
        except (OSError, http.client.HTTPException, grpc.RpcError):
            continue
        found.append(time.perf_counter() - began)
    return tuple(found)


def _connect(family: int, address: Any) -> None:
    with socket.socket(family, socket.SOCK_STREAM) as opened:
        opened.settimeout(_TRIP_S)
        opened.connect(address)


@contextmanager
def _pings(way: Way) -> Iterator[Callable[[], None]]:
    with ExitStack() as stack:
        if way.protocol == "kserve_grpc":
            service = service_pb2_grpc.GRPCInferenceServiceStub(stack.enter_context(channel(way.address, tls=way.tls)))
            metadata = [(name.lower(), value) for name, value in way.headers.items()]

            def live() -> None:
                try:
                    service.ServerLive(messages.ServerLiveRequest(), timeout=_TRIP_S, metadata=metadata)
                except grpc.RpcError as error:
                    if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                        raise  # any other answer is a round trip too

            yield live
            return
        connection = http_connection(way.address, tls=way.tls, timeout_s=_TRIP_S)
        stack.callback(connection.close)
        path = f"{way.path}{'/v2/health/live' if way.protocol == 'kserve_http' else '/models'}"

        def ask() -> None:
            connection.request("GET", path, headers=dict(way.headers))
            connection.getresponse().read()

        yield ask
