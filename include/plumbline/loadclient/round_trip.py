"""Round-trip times between client and server: TCP connect, and a liveness request on an idle connection."""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc import service_pb2_grpc

from plumbline.loadclient.transport import Target

_TRIP_S, _KIND_LIMIT_S = 2.0, 5.0


@dataclass(frozen=True)
class RoundTrips:
    """Seconds of each completed round trip: TCP's handshake [n], a small request [m]."""

    connect_s: tuple[float, ...]
    request_s: tuple[float, ...]


def measure_round_trip(target: Target, n: int = 20) -> RoundTrips:
    """`n` sequential round trips of each kind, fewer if a kind takes longer than _KIND_LIMIT_S; never raises for the network."""
    limit = time.monotonic() + _KIND_LIMIT_S
    try:
        # The name is looked up once: its server is not on the target.
        resolved = socket.getaddrinfo(*split_address(target.address), type=socket.SOCK_STREAM)[0]
    except OSError:
        return RoundTrips((), ())
    connects = _timed(lambda: _connect(resolved[0], resolved[4]), n, limit)
    try:
        with _pings(target) as ping:
            ping()  # the connection itself, TLS's handshake included
            return RoundTrips(connects, _timed(ping, n, limit + _KIND_LIMIT_S))
    except (OSError, http.client.HTTPException, grpc.RpcError):
        return RoundTrips(connects, ())


def _timed(trip: Callable[[], None], n: int, deadline: float) -> tuple[float, ...]:
    seconds = []
    for _ in range(n):
        began = time.perf_counter()
        if time.monotonic() > deadline:
            break
        try:
            trip()
        except (OSError, http.client.HTTPException, grpc.RpcError):
            continue
        seconds.append(time.perf_counter() - began)
    return tuple(seconds)


def _connect(family: int, address: Any) -> None:
    with socket.socket(family, socket.SOCK_STREAM) as opened:
        opened.settimeout(_TRIP_S)
        opened.connect(address)


@contextmanager
def _pings(target: Target) -> Iterator[Callable[[], None]]:
    with ExitStack() as stack:
        if target.protocol == "kserve_grpc":
            service = service_pb2_grpc.GRPCInferenceServiceStub(stack.enter_context(grpc_channel(target)))
            metadata = [(name.lower(), value) for name, value in target.headers.items()]

            def live() -> None:
                try:
                    service.ServerLive(messages.ServerLiveRequest(), timeout=_TRIP_S, metadata=metadata)
                except grpc.RpcError as error:
                    if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                        raise  # any other answer is a round trip too

            yield live
            return
        connection = http_connection(target, _TRIP_S)
        stack.callback(connection.close)
        path = target.url("/v2/health/live" if target.protocol == "kserve_http" else "/models")

        def ask() -> None:
            connection.request("GET", path, headers=dict(target.headers))
            answer = connection.getresponse()
            for _ in range(_PIECES):  # all of an honest answer, so that the connection can be used again
                if not answer.read(_PIECE):
                    return
            connection.close()

        yield ask


_PIECE, _PIECES = 1 << 16, 64
"""Bytes and pieces of an answer that are read, and dropped."""


def tls_context() -> ssl.SSLContext:
    """The system's authorities (or SSL_CERT_FILE's), the server's name checked."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def split_address(address: str) -> tuple[str, int]:
    """Host and port of "host:port"; an IPv6 host is in brackets."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def grpc_channel(target: Target) -> grpc.Channel:
    credentials = grpc_credentials(target)
    return grpc.insecure_channel(target.address) if credentials is None else grpc.secure_channel(target.address, credentials)


def grpc_credentials(target: Target) -> grpc.ChannelCredentials | None:
    """The system's authorities over TLS (gRPC brings its own, which know no private one); None without TLS."""
    if not target.tls:
        return None
    paths = ssl.get_default_verify_paths()
    roots = None if paths.cafile is None else Path(paths.cafile).read_bytes()
    return grpc.ssl_channel_credentials(roots)


def http_connection(target: Target, timeout_s: float) -> http.client.HTTPConnection:
    """A plain HTTP connection, not yet open."""
    host, port = split_address(target.address)
    if target.tls:
        return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=tls_context())
    return http.client.HTTPConnection(host, port, timeout=timeout_s)
