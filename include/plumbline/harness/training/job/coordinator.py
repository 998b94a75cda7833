"""The other nodes of a training job, as node 0 sees them: they start and stop their ranks on request, and report how it went."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import wait

from plumbline.declarations import Trial
from plumbline.harness.gang.channel import Message
from plumbline.harness.gang.coordinator import TURN_S, Coordinator
from plumbline.harness.gang.topology import Address, Topology
from plumbline.harness.measurement import TrialFailed
from plumbline.harness.probes.inter_node import CollectiveSpec
from plumbline.harness.training.worker_protocol import LogLine, RunName

_PROBE_TURN_S = 0.05


class JobCoordinator(Coordinator):
    """The other nodes of a job."""

    other_inputs = "generated other training data than node 0 from the same seed"

    def __init__(self, trial: Trial, topology: Topology) -> None:
        super().__init__(trial, topology)
        self.probe_failures: dict[int, str] = {}
        """Why a node's ranks of the collective probe ended early."""
        self._ended: set[int] = set()
        self.logs: dict[int, Mapping[str, list[LogLine]]] = {}

    @property
    def all_ended(self) -> bool:
        return len(self._ended) == self._topology.nodes - 1

    def start(self, run: RunName, store: Address, *, resume: bool) -> None:
        """Have every node start its ranks of a run. `resume`: from the newest checkpoint."""
        self._ended.clear()
        self.logs.clear()
        self.causes = self._lasting()
        self._send_all("start", run=run, port=store.port, resume=resume)

    def probe(self, orders: CollectiveSpec, store: Address) -> None:
        """Have every node start its ranks of the collective probe; they end before the first run starts."""
        spec = {"nodes": orders.nodes, "processes": orders.processes, "device": orders.device, "limit_s": orders.limit_s}
        self._send_all("probe", port=store.port, **spec)

    def probe_failure(self) -> str | None:
        """Wait a moment; why another node cannot take part in the collective probe, or None."""
        wait(self.sources, _PROBE_TURN_S)
        self.receive()
        gone = [cause.detail for cause in self.causes.values()]
        return next(iter([*self.probe_failures.values(), *gone]), None)

    def stop(self, patience_s: float, meanwhile: Callable[[], None]) -> None:
        """Have every node end its ranks at once; returns with their logs.

        TrialFailed if one does not answer or cannot continue; ranks that ended for a passing cause are fine."""
        self._send_all("stop")
        deadline = time.monotonic() + patience_s
        while not self.all_ended:
            for cause in self._lasting().values():
                raise TrialFailed(cause.failure_class, cause.detail)
            if time.monotonic() > deadline:
                raise TrialFailed("harness_error", f"not every node stopped its ranks within {patience_s:.0f} s")
            wait(self.sources, TURN_S)
            self.receive()
            meanwhile()

    def _take(self, node: int, message: Message) -> None:
        if message["kind"] == "ended":
            self._ended.add(node)
            self.logs[node] = message["logs"]
        elif message["kind"] == "probe_failed":
            self.probe_failures[node] = f"{self._title(node)}: {message['detail']}"
        else:
            super()._take(node, message)
