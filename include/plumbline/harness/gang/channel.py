"""Network of a gang: JSON lines over TCP between two harnesses, the interface for gloo, and the store where ranks find each other."""

from __future__ import annotations

import json
import os
import select
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import psutil
from pydantic_core import from_json

from plumbline.harness.gang.topology import Address

if TYPE_CHECKING:
    from torch._C._distributed_c10d import TCPStore


Message = dict[str, Any]

_IDLE_S, _INTERVAL_S, _PROBES = 10, 5, 4
_SEND_TIMEOUT_S = 30.0
_RETRY_S = 0.5
_CONNECT_TIMEOUT_S = 5.0
_CHUNK = 1 << 16


class PeerDisconnected(Exception):
    """The other end is gone or violates the protocol."""


class Channel:
    """One end of a connection. Never blocks on receiving; waits at most half a minute for room to send."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._buffer = b""
        self._ended: str | None = None
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (("TCP_KEEPIDLE", _IDLE_S), ("TCP_KEEPINTVL", _INTERVAL_S), ("TCP_KEEPCNT", _PROBES)):
            if hasattr(socket, name):  # other systems have other names; their kernels give up later
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # the same for bytes that are never acknowledged
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, (_IDLE_S + _INTERVAL_S * _PROBES) * 1000)

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def local_host(self) -> str:
        """This end's address on the network of the nodes."""
        return str(self._socket.getsockname()[0])

    @property
    def remote_host(self) -> str:
        return str(self._socket.getpeername()[0])

    def send(self, kind: str, **more: Any) -> None:
        """Send one message; PeerDisconnected if it cannot be."""
        view = memoryview((json.dumps({"kind": kind, **more}) + "\n").encode())
        deadline = time.monotonic() + _SEND_TIMEOUT_S
        while view:
            try:
                view = view[self._socket.send(view) :]
            except BlockingIOError:
                self._wait_for_room(deadline)
            except OSError as error:
                raise PeerDisconnected(_describe_error(error)) from error

    def news(self) -> list[Message]:
        """The messages that came since the last call; PeerDisconnected once the connection has ended and all of them are taken."""
        if self._ended is not None:
            raise PeerDisconnected(self._ended)
        while True:
            try:
                data = self._socket.recv(_CHUNK)
            except BlockingIOError:
                break
            except OSError as error:
                self._ended = _describe_error(error)
                break
            if not data:
                self._ended = "it closed the connection"
                break
            self._buffer += data
        *whole, self._buffer = self._buffer.split(b"\n")
        if self._ended is not None and not whole:
            raise PeerDisconnected(self._ended)
        return [_parse_message(line) for line in whole]

    def close(self) -> None:
        self._socket.close()

    def _wait_for_room(self, deadline: float) -> None:
        poll = select.poll()
        poll.register(self._socket, select.POLLOUT)
        if not poll.poll(max(deadline - time.monotonic(), 0) * 1000):
            raise PeerDisconnected(f"it accepted no data for {_SEND_TIMEOUT_S:.0f} s")


def listen(address: Address) -> socket.socket:
    """A socket that takes connections for `address`: on loopback if that is one, else on every interface. OSError if the port is taken."""
    if address.host in ("127.0.0.1", "localhost"):
        return socket.create_server(("127.0.0.1", address.port), backlog=1024)
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", address.port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024)
    return socket.create_server(("", address.port), backlog=1024)


def free_port() -> int:
    """A port on which no process listens, on any interface."""
    with listen(Address("", 0)) as server:
        return int(server.getsockname()[1])


def connect(address: Address, patience_s: float, waiting: Callable[[str], None]) -> Channel:
    """A connection to node 0, tried until `patience_s` is over: its name and its harness appear some time after the pods do.

    `waiting(why)` is called after each attempt that failed. Raises PeerDisconnected with the last reason.
    """
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return Channel(socket.create_connection((address.host, address.port), timeout=_CONNECT_TIMEOUT_S))
        except socket.gaierror:
            why = f"{address.host} cannot be resolved yet"
        except OSError as error:
            why = f"{address} does not answer yet ({error.strerror or error})"
        if time.monotonic() >= deadline:
            raise PeerDisconnected(f"{why}, after {patience_s:.0f} s")
        waiting(why)
        time.sleep(_RETRY_S)


def _parse_message(line: bytes) -> Message:
    try:
        message = from_json(line)
    except ValueError as error:
        raise PeerDisconnected(f"invalid message: {line[:80]!r}") from error
    if not isinstance(message, dict) or "kind" not in message:
        raise PeerDisconnected(f"invalid message: {line[:80]!r}")
    return message


def _describe_error(error: OSError) -> str:
    return f"its connection broke ({error.strerror or error})"


_GLOO = "GLOO_SOCKET_IFNAME"


def gloo_environment(address: str) -> dict[str, str]:
    """The variable that makes gloo use the interface of a local IP address: the one through which the nodes reach each other.

    Without it gloo takes the address of the host's name, and loopback where that has none. Empty if the variable is set already.
    """
    plain = address.removeprefix("::ffff:")
    if _GLOO in os.environ:
        return {}
    return next(
        ({_GLOO: name} for name, addresses in psutil.net_if_addrs().items() if any(item.address == plain for item in addresses)), {}
    )


def serve_rendezvous_store(host: str) -> tuple[TCPStore, int]:
    """The store through which ranks find each other, and its port: on loopback for a loopback `host`, else on every interface.

    It lives in the harness of node 0 and so outlives the ranks of one run: the next run's use other keys in it.
    """
    # Imported here: the harness needs torch for this alone, and only in a job of several ranks.
    from torch._C._distributed_c10d import TCPStore  # torch.distributed re-exports it untyped

    server = listen(Address(host, 0))
    port = int(server.getsockname()[1])
    # The socket is the store's from here on.
    options: dict[str, Any] = {"is_master": True, "wait_for_workers": False, "master_listen_fd": server.detach()}
    try:
        return TCPStore("localhost", port, **options), port
    except NotImplementedError:  # the libuv backend of older releases, such as 2.7, takes no socket
        return TCPStore("localhost", port, use_libuv=False, **options), port
