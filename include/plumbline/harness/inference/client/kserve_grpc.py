"""KServe v2 over gRPC, spoken by hand: requests are HTTP/2 frames that were serialised before the load.

gRPC's own clients cost several times the CPU of the server's answer, and a client that is busy is late. What they check is checked here
too: statuses, flow control in both directions, the peer's limits.
"""

from __future__ import annotations

import asyncio
import ssl

from plumbline.harness.inference.arrivals import PhaseLoad
from plumbline.harness.inference.client import http2
from plumbline.harness.inference.client.answers import Answers, Messages
from plumbline.harness.inference.client.grpc_connection import GrpcConnection
from plumbline.harness.inference.client.target import Bodies, Target
from plumbline.harness.inference.client.transport import Connection, Sink

_SERVICE = "/inference.GRPCInferenceService/"


class Transport:
    """Opens connections to one server for one phase's load; `bodies[i]` is request i, serialised."""

    # Over one connection all that is due at a moment leaves with one call of the system; a server that limits its streams may need more.
    first, most = 1, 32

    def __init__(self, target: Target, load: PhaseLoad, bodies: Bodies) -> None:
        self._target, self._load, self._bodies = target, load, bodies
        # Tritonserver up to 24.11 can crash when the cancellation of a unary request meets its answer. Whoever waits no longer for one just
        # does not listen any more; the answer to a stream is long, and there our models see to it that the two do not meet.
        self._cancels = target.wire.method == "stream"
        self._tls = ssl.create_default_context() if target.tls else None
        if self._tls is not None:
            self._tls.set_alpn_protocols(["h2"])
        host, _, port = target.address.rpartition(":")
        self._host, self._port = host.strip("[]"), int(port)
        self._block = http2.request_block(
            [
                (":method", "POST"),
                (":scheme", "https" if target.tls else "http"),
                (":path", _SERVICE + ("ModelStreamInfer" if target.wire.method == "stream" else "ModelInfer")),
                (":authority", target.address),
                ("te", "trailers"),
                ("content-type", "application/grpc"),
                *((name.lower(), value) for name, value in target.headers.items()),
            ]
        )

    async def connect(self, loop: asyncio.AbstractEventLoop, sink: Sink, *, stalled: bool = False) -> Connection:
        reader = Messages(self._target.wire, answers := Answers(self._target.wire, self._load, sink), sink)
        made = loop.create_connection(
            lambda: GrpcConnection(sink, self._block, self._bodies, reader, answers, cancels=self._cancels, stalled=stalled),
            self._host,
            self._port,
            ssl=self._tls,
        )
        transport, connection = await made
        try:
            await connection.ready
        except BaseException:
            transport.abort()
            raise
        return connection
