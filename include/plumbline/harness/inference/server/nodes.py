"""A server that an engine runs on several nodes, as node 0 sees it: its own part, and the parts that the other nodes start, watch and stop."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from plumbline.declarations import Trial
from plumbline.harness.gang.channel import Message, gloo_environment
from plumbline.harness.gang.coordinator import TURN_S, Coordinator, FailureCause
from plumbline.harness.gang.topology import Address, Topology
from plumbline.harness.inference.server.local_server import StartUp
from plumbline.harness.inference.server.openai_server import OpenAiModel, OpenAiServer, engine_environment
from plumbline.harness.measurement import TrialFailed
from plumbline.results import Scalar

_STOP_WITHIN_S = 30.0
_CAUSE_WITHIN_S = 3.0
"""Seconds that a failed node may need to report why, after the server on node 0 ended because of it."""


class ServingNodes(Coordinator):
    """For any thread: a fault restarts the server beside the load."""

    other_inputs = "runs another workload than node 0"

    def __init__(self, trial: Trial, topology: Topology) -> None:
        super().__init__(trial, topology)
        self.nodes = topology.nodes
        self.facts: dict[int, dict[str, Scalar]] = {}
        """Versions and devices of each node."""
        self.logs: dict[int, str] = {}
        """The end of each engine's log."""
        self.leader_ended_first = False
        self.leader_end = ""
        """How node 0's part ended, where another had ended by the time that was seen; which was the first is then not known."""
        self._manifests: dict[int, str] = {}
        self._stopped: set[int] = set()
        self._starts = 0
        self._lock = threading.RLock()

    def prepare(self) -> None:
        """Have every node fetch the model."""
        self._send_all("prepare")

    def await_prepared(self, manifest: str, waiting: Callable[[str], None]) -> None:
        """Return when every node has the model. TrialFailed if one cannot have it, or has another."""
        while missing := sorted(set(range(1, self.nodes)) - self._manifests.keys()):
            if (cause := self.failure()) is not None:
                raise TrialFailed(cause.failure_class, cause.detail)
            waiting(f"waiting for the model on node {', '.join(map(str, missing))}")
            wait(self.sources, TURN_S)
        for node, own in self._manifests.items():
            if own != manifest:
                raise TrialFailed(
                    "bad_declaration", f"{self._title(node)} has other files of the model than node 0; expected the same on all nodes"
                )

    def start(self, leader: Address) -> None:
        """Have every node start its part, which joins the first node's at `leader`."""
        with self._lock:
            self._starts += 1
            self._stopped.clear()
            self._send_all("start", number=self._starts, host=leader.host, port=leader.port)

    def serving(self) -> None:
        """Have every node watch the processes that its part has now."""
        self._send_all("serving")

    def release(self) -> None:
        """Have every node end its part; that a part ends from now on is no failure."""
        with self._lock:
            self._starts += 1
            self._send_all("stop")

    def await_stopped(self) -> None:
        """Wait until every node that is left has ended its part."""
        deadline = time.monotonic() + _STOP_WITHIN_S
        while self._links.keys() - self._stopped and (left := deadline - time.monotonic()) > 0:
            wait(self.sources, min(left, TURN_S))
            self.receive()

    def failure(self) -> FailureCause | None:
        """Why a node failed, or None; without waiting."""
        self.receive()
        return next(iter(self.causes.values()), None)

    def explained(self, failure: TrialFailed) -> TrialFailed:
        """The failure of the server with the node that caused it, if one did."""
        deadline = time.monotonic() + _CAUSE_WITHIN_S
        while (cause := self.failure()) is None and (left := deadline - time.monotonic()) > 0:
            wait(self.sources, left)
        if cause is None:
            return failure
        if self.leader_ended_first:
            return TrialFailed(failure.failure_class, f"node 0: {failure.detail}; then {cause.detail}", failure.partial)
        own = self.leader_end or ("" if cause.detail in failure.detail else failure.detail)
        return TrialFailed(cause.failure_class, f"{cause.detail}; node 0: {own}" if own else cause.detail, failure.partial)

    def receive(self) -> None:
        with self._lock:
            super().receive()

    def _send_all(self, kind: str, **more: object) -> None:
        with self._lock:
            super()._send_all(kind, **more)

    def _handle(self, node: int, message: Message) -> None:
        kind = message["kind"]
        if kind == "prepared":
            self._manifests[node], self.facts[node] = message["manifest"], message["facts"]
        elif kind == "stopped":
            self._stopped.add(node)
            self.logs[node] = message["log"]
        elif kind != "failed" or message.get("start") in (None, self._starts):  # else a part that was to end
            super()._handle(node, message)


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
        elif not alive and not self._nodes.leader_ended_first:
            self._nodes.leader_end = super().state()
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
        self._nodes.leader_ended_first, self._nodes.leader_end = False, ""
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
