"""Plain connections to an endpoint, for what is not the load: what it is, how far away it is."""

from __future__ import annotations

import http.client
import ssl
from pathlib import Path

import grpc


def tls_context() -> ssl.SSLContext:
    """TLS as a careful client speaks it: the system's authorities (or SSL_CERT_FILE's), and the server's name checked."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def address_of(address: str) -> tuple[str, int]:
    """Host and port of "host:port", IPv6 hosts in brackets."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def channel(address: str, *, tls: bool) -> grpc.Channel:
    """A gRPC channel, with the system's authorities over TLS (gRPC brings its own, which know no private one)."""
    if not tls:
        return grpc.insecure_channel(address)
    paths = ssl.get_default_verify_paths()
    roots = None
    if paths.cafile is not None:
        roots = Path(paths.cafile).read_bytes()
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(roots))


def http_connection(address: str, *, tls: bool, timeout_s: float) -> http.client.HTTPConnection:
    """A plain HTTP connection, not yet open."""
    host, port = address_of(address)
    if tls:
        return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=tls_context())
    return http.client.HTTPConnection(host, port, timeout=timeout_s)
