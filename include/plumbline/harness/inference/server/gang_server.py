"""The first node's part of an OpenAI-compatible server that its engine runs on several nodes."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

from plumbline.harness.gang.channel import gloo_environment
from plumbline.harness.gang.topology import Address
from plumbline.harness.inference.server.local_server import StartUp
from plumbline.harness.inference.server.nodes import ServingNodes
from plumbline.harness.inference.server.openai_server import OpenAiModel, OpenAiServer, engine_environment


class GangServer(OpenAiServer):
    """The other nodes start and stop their parts with it. It runs as long as all parts do."""

    def __init__(self, command: tuple[str, ...], model: OpenAiModel, workdir: Path, nodes: ServingNodes, **options: Any) -> None:
        super().__init__(command, model, workdir, **options)
        self._nodes, self.nodes = nodes, nodes.nodes
        self._leader = Address("", 0)

    def running(self) -> bool:
        failed, alive = self._nodes.failure() is not None, super().running()
        if not alive and not failed:
            self._nodes.leader_ended_first = True
        return alive and not failed

    def state(self) -> str:
        failure = None if self._nodes.leader_ended_first else self._nodes.failure()
        return super().state() if failure is None else failure.detail

    def kill(self) -> float:
        self._nodes.release()
        return super().kill()

    def _values(self) -> dict[str, str | int]:
        return {**super()._values(), **node_placeholders(0, self.nodes, self._leader)}

    def _environment(self) -> dict[str, str]:
        return gang_environment(self._leader.host)

    def _ready(self, started: float) -> StartUp:
        self._nodes.leader_ended_first = False
        self._leader = Address(node_address(self._nodes.interface_address), _free_port())  # its last one may linger
        self._nodes.start(self._leader)
        start = super()._ready(started)
        self._nodes.serving()
        return start

    def _stop(self) -> None:
        self._nodes.release()
        super()._stop()

    def _close(self) -> None:
        self._nodes.release()
        try:
            super()._close()
        finally:
            self._nodes.await_stopped()


def node_placeholders(node: int, nodes: int, leader: Address) -> dict[str, str | int]:
    """Values of a command's placeholders that only a server on several nodes has."""
    return {"nodes": nodes, "node_rank": node, "leader_address": leader.host, "leader_port": leader.port}


def gang_environment(address: str) -> dict[str, str]:
    """Of an engine on a node with this address among the nodes: engines otherwise guess the interface by the host's name or its route to the
    internet."""
    return {"VLLM_HOST_IP": address, **gloo_environment(address), **engine_environment()}


def node_address(address: str | None) -> str:
    """A channel's address without the prefix that an IPv4 address has on a socket of both families."""
    return (address or "127.0.0.1").removeprefix("::ffff:")


def _free_port() -> int:
    """On all interfaces."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
