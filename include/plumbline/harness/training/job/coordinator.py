"""The other nodes of a job, as node 0 sees them: they join, start and stop their ranks on request, and end with node 0; the first cause of a failure."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from multiprocessing.connection import wait
from types import TracebackType
from typing import TYPE_CHECKING, Any

from plumbline.harness.gang.channel import Channel, Message, PeerDisconnected, listen
from plumbline.harness.gang.topology import Address, Topology
from plumbline.harness.gpu_monitor import NODE_GPUS, MonitoredGpus
from plumbline.harness.measurement import TrialFailed
from plumbline.harness.probes.inter_node import CollectiveSpec
from plumbline.harness.training.worker_protocol import LogLine, RunName
from plumbline.metrics import Phase
from plumbline.results import FailureClass

if TYPE_CHECKING:
    from plumbline.declarations import Trial


@dataclass(frozen=True)
class FailureCause:
    """Why a run aborted. `certain`: the cause lies here; otherwise it may be another rank's end as seen here.

    `passing`: a restart of the run may succeed."""

    failure_class: FailureClass
    detail: str
    certain: bool
    passing: bool = False


class CauseResolver:
    """Finds the first cause: a failing rank makes the others lose it, and any of them may be seen first."""

    def __init__(self, patience_s: float = 5.0) -> None:
        self._patience_s = patience_s
        self._since_s: float | None = None

    def of(self, causes: Sequence[FailureCause]) -> FailureCause | None:
        """The cause: at once if it is certain, hardware that failed first, else after some seconds without a better one."""
        certain = min((cause for cause in causes if cause.certain), key=lambda cause: cause.failure_class != "provider_fault", default=None)
        if certain is not None or not causes:
            return certain
        now = time.monotonic()
        self._since_s = self._since_s or now
        return causes[0] if now - self._since_s > self._patience_s else None


TURN_S = 0.5
_PROBE_TURN_S = 0.05
_DISCONNECT_TIMEOUT_S = 10.0


class Coordinator:
    """The other nodes, as a context whose end announces the outcome and ends them."""

    def __init__(self, trial: Trial, topology: Topology) -> None:
        self._trial, self._topology = trial, topology
        self._server: socket.socket | None = None
        self._strangers: list[Channel] = []
        self._links: dict[int, Channel] = {}
        self._names: dict[int, str] = {}
        self._inputs: dict[int, str] = {}
        self.peers: dict[int, tuple[str, int]] = {}
        """Where each node answers network probes before it starts its part."""
        self.causes: dict[int, FailureCause] = {}
        self.gpus: dict[int, MonitoredGpus | None] = dict.fromkeys(range(1, topology.nodes))
        """GPU readings of each node, complete after the context; None for a node that sent nothing."""
        self.probe_failures: dict[int, str] = {}
        """Why a node's ranks of the collective probe ended early."""
        self._ended: set[int] = set()
        self.done: set[int] = set()
        """Nodes on which the ranks of a script that report have done the last step."""
        self.logs: dict[int, Mapping[str, list[LogLine]]] = {}

    def __enter__(self) -> Coordinator:
        """Listen. TrialFailed if the port is taken."""
        address = self._topology.rendezvous
        assert address is not None
        try:
            self._server = listen(address)
        except OSError as error:
            raise TrialFailed("harness_error", f"cannot wait for the other nodes at {address}: {error.strerror or error}") from error
        self._server.setblocking(False)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._send_all("end", because=None if error is None else _describe_error(error))
        deadline = time.monotonic() + _DISCONNECT_TIMEOUT_S
        while self._links and (left := deadline - time.monotonic()) > 0:  # they hang up once they have heard
            wait(self.sources, left)
            self.receive()
        for link in [*self._links.values(), *self._strangers]:
            link.close()
        if self._server is not None:
            self._server.close()

    @property
    def sources(self) -> list[Any]:
        """Connections to wait for."""
        return [*self._links.values(), *self._strangers, *filter(None, [self._server])]

    @property
    def interface_address(self) -> str | None:
        """Our address on the network of the nodes; None before the first one joins."""
        return next((link.local_host for link in self._links.values()), None)

    def gather(self, patience_s: float, inputs: str, waiting: Callable[[str], None]) -> None:
        """Return when every node has joined with the same inputs, by their hash. TrialFailed if one does not within the patience, or cannot
        take part."""
        deadline = time.monotonic() + patience_s
        while missing := self._missing():
            if time.monotonic() > deadline:
                raise TrialFailed(
                    "launch_timeout", f"node{_format_nodes(missing)} did not join at {self._topology.rendezvous} within {patience_s:.0f} s"
                )
            waiting(f"waiting for node{_format_nodes(missing)} of {self._topology.nodes} at {self._topology.rendezvous}")
            wait(self.sources, TURN_S)
            self.receive()
            if self.causes:
                cause = next(iter(self.causes.values()))
                raise TrialFailed(cause.failure_class, cause.detail)
        for node, sha256 in self._inputs.items():
            if sha256 != inputs:
                raise TrialFailed(
                    "harness_error", f"{self._title(node)} has other training data or files than node 0 from the same declaration"
                )

    def enter(self, phase: Phase | None) -> None:
        """Have every node attribute its GPUs' work to a phase; None: to none."""
        self._send_all("phase", name=phase)

    @property
    def count(self) -> int:
        """Nodes but the first."""
        return self._topology.nodes - 1

    @property
    def all_ended(self) -> bool:
        return len(self._ended) == self.count

    def start(self, run: RunName, store: Address, *, resume: bool) -> None:
        """Have every node start its ranks of a run. `resume`: from the newest checkpoint."""
        self._ended.clear()
        self.done.clear()
        self.logs.clear()
        self.causes = self._lasting()
        self._send_all("start", run=run, port=store.port, resume=resume)

    def probe(self, orders: CollectiveSpec) -> None:
        """Have every node start its ranks of the collective probe; they end before the first run starts."""
        self._send_all("probe", orders=asdict(orders))

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

    def receive(self) -> None:
        """Receive all messages, without waiting."""
        self._welcome()
        for node, link in list(self._links.items()):
            try:
                for message in link.news():
                    self._handle(node, message)
            except PeerDisconnected as gone:
                link.close()
                del self._links[node]
                if node not in self._lasting():
                    self.causes[node] = FailureCause(
                        "interrupted",
                        f"{self._title(node)} disconnected without a message: harness killed, pod deleted or machine lost ({gone})",
                        certain=True,
                    )

    def _send_all(self, kind: str, **more: object) -> None:
        """Send every node a message; a lost node is detected on reading."""
        for link in self._links.values():
            with suppress(PeerDisconnected):
                link.send(kind, **more)

    def _welcome(self) -> None:
        """Accept connections; close those whose first message is not from a missing node of this trial."""
        assert self._server is not None
        with suppress(BlockingIOError):
            while True:
                self._strangers.append(Channel(self._server.accept()[0]))
        for link in list(self._strangers):
            try:
                messages = link.news()
            except PeerDisconnected:  # a health check, a port scanner
                messages = [{"kind": "nothing"}]
            if not messages:
                continue
            self._strangers.remove(link)
            hello, *more = messages
            node = hello.get("node")
            if hello["kind"] != "hello" or hello.get("trial") != gang_identity(self._trial) or node not in self._open_places():
                link.close()
                continue
            self._links[node], self._names[node] = link, str(hello["name"])
            for message in more:
                self._handle(node, message)

    def _handle(self, node: int, message: Message) -> None:
        kind = message["kind"]
        if kind == "joined":
            self._inputs[node] = message["data"]
            self.peers[node] = (self._links[node].remote_host, message["port"])
        elif kind == "gpus":
            self.gpus[node] = NODE_GPUS.validate_python(message["reading"])
        elif kind == "failed":
            detail = f"{self._title(node)}: {message['detail']}"
            self.causes[node] = FailureCause(message["failure_class"], detail, certain=message["certain"], passing=message["passing"])
        elif kind == "done":
            self.done.add(node)
        elif kind == "ended":
            self._ended.add(node)
            self.logs[node] = message["logs"]
        elif kind == "probe_failed":
            self.probe_failures[node] = f"{self._title(node)}: {message['detail']}"

    def _lasting(self) -> dict[int, FailureCause]:
        return {node: cause for node, cause in self.causes.items() if not cause.passing}

    def _missing(self) -> list[int]:
        return [node for node in range(1, self._topology.nodes) if node not in self._inputs]

    def _open_places(self) -> set[int]:
        return set(range(1, self._topology.nodes)) - self._names.keys()

    def _title(self, node: int) -> str:
        return f"node {node} ({self._names[node]})"


def gang_identity(trial: Trial) -> list[str | int]:
    """Identical for the harnesses of one gang only."""
    return [trial.trial_id, trial.attempt, trial.spec_hash]


def _describe_error(error: BaseException) -> str:
    return error.detail if isinstance(error, TrialFailed) else f"node 0 ended with {type(error).__name__}: {error}"


def _format_nodes(nodes: list[int]) -> str:
    return f"{'s' if len(nodes) > 1 else ''} {', '.join(map(str, nodes))}"
