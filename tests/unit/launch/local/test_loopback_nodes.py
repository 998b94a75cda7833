"""The port on which the nodes of a trial on this machine meet."""

from __future__ import annotations

import socket

import pytest

from plumbline.launch.local.loopback_nodes import reserved_port


def test_node_0_listens_on_a_port_that_refuses_calls_until_then() -> None:
    with reserved_port() as held:
        address = held.getsockname()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)
        with socket.create_server(address), socket.create_connection(address) as caller:
            assert caller.getpeername() == address
