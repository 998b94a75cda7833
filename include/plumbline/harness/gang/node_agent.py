"""The harness of any node but the first: joins node 0, does its part on request, and ends with node 0. It stores no document."""

from __future__ import annotations

import os
import sys
import tempfile
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path

from plumbline.declarations import Trial
from plumbline.harness import environment
from plumbline.harness.gang.channel import Channel, Message, PeerDisconnected, connect
from plumbline.harness.gang.coordinator import FailureCause, gang_identity
from plumbline.harness.gang.topology import Topology
from plumbline.harness.gpu_monitor import NODE_GPUS, GpuPhaseMonitor
from plumbline.harness.interruption import Interrupted, interruptible
from plumbline.harness.measurement import TrialFailed, scratch_folder
from plumbline.harness.probes import inter_node
from plumbline.metrics import Phase
from plumbline.results import FailureClass, Scalar

_REPEAT_S = 15.0


class NodeAgent(ABC):
    """One node's part of a trial. `link`: to node 0; `folder`: its working folder, which ends with it."""

    def __init__(self, trial: Trial, topology: Topology, link: Channel, folder: Path, gpus: GpuPhaseMonitor) -> None:
        self._trial, self._topology, self._link, self._folder, self._gpus = trial, topology, link, folder, gpus
        self._phase: Phase | None = None
        self._before_start = ExitStack()
        """Ends when the node's part starts, or the node ends."""
        self.facts: dict[str, Scalar] = {}

    @abstractmethod
    def _prepare(self) -> str:
        """Prepare the inputs that all nodes must share, and return their hash."""

    @abstractmethod
    def _wait(self) -> None:
        """Return as soon as node 0 sent something or a process ended, else after a moment."""

    @abstractmethod
    def _handle(self, message: Message) -> None:
        """Do what node 0 asks."""

    @abstractmethod
    def _check(self) -> str | None:
        """Report what happened here; why the node must end, or None."""

    def end(self) -> None:
        """End its processes."""
        self._before_start.close()

    def serve(self) -> str | None:
        """Follow node 0 until it ends the trial; None if that is done, else the failure in a sentence."""
        name = os.environ.get("PLUMBLINE_POD_NAME") or os.uname().nodename
        self._link.send("hello", node=self._topology.node, name=name, trial=gang_identity(self._trial))
        self.facts = environment.collect_facts()
        environment.require_driver(self.facts)
        environment.check_accelerators(self._trial.provider, self._trial.workload.gpus, self.facts)
        self._gpus.before = environment.hardware_judgements(self.facts, self._topology.node)
        inputs = self._prepare()
        answering = self._before_start.enter_context(inter_node.PeerServer())
        self._link.send("joined", data=inputs, port=answering.port)
        while True:
            self._wait()
            for message in self._link.news():
                if message["kind"] == "phase":
                    self._enter(message["name"])
                elif message["kind"] == "end":
                    because: str | None = message["because"]
                    return because
                else:
                    self._handle(message)
            if (why := self._check()) is not None:
                return why

    def fail(self, failure_class: FailureClass, detail: str) -> None:
        self._report(FailureCause(failure_class, detail, certain=True))

    def report_gpus(self) -> None:
        self._enter(None)
        with suppress(PeerDisconnected):
            self._link.send("gpus", reading=NODE_GPUS.dump_python(self._gpus.reading(), mode="json"))

    def _report(self, cause: FailureCause) -> None:
        with suppress(PeerDisconnected):
            self._link.send("failed", **asdict(cause))

    def _enter(self, phase: Phase | None) -> None:
        if phase != self._phase:
            self._gpus.change(self._phase, phase)
            self._phase = phase


MakeAgent = Callable[[Trial, Topology, Channel, Path, GpuPhaseMonitor], NodeAgent]


def run_node_agent(make: MakeAgent, trial: Trial, topology: Topology) -> str | None:
    """Take part in the trial as node `topology.node` until node 0 ends it.

    None if the trial is done; else the failure, in a sentence. No process and no working folder is left behind."""
    try:
        with interruptible():
            return _join_and_serve(make, trial, topology)
    except Interrupted as stop:
        return f"node {topology.node} was asked to stop by {stop.signal}"


def _join_and_serve(make: MakeAgent, trial: Trial, topology: Topology) -> str | None:
    assert topology.rendezvous is not None
    try:
        link = connect(topology.rendezvous, trial.provider.launcher.gang_assembly_s, _ConnectionNotes())
    except PeerDisconnected as gone:
        return f"node {topology.node} never reached node 0: {gone}"
    with ExitStack() as stack:
        stack.callback(link.close)
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="node-", dir=scratch_folder(), ignore_cleanup_errors=True))
        gpus = stack.enter_context(GpuPhaseMonitor(node=topology.node))
        node = make(trial, topology, link, Path(folder), gpus)
        stack.callback(node.report_gpus)
        stack.callback(node.end)
        try:
            return node.serve()
        except PeerDisconnected as gone:
            return f"node 0 disconnected without a message ({gone})"
        except Interrupted as stop:
            node.fail("interrupted", f"its harness was asked to stop by {stop.signal}")
            raise
        except TrialFailed as failure:
            node.fail(failure.failure_class, failure.detail)
            return failure.detail
        except Exception as error:  # noqa: BLE001 - whatever it is, node 0 writes it down
            traceback.print_exc()
            detail = f"{type(error).__name__}: {error}"
            node.fail("harness_error", detail)
            return detail


class _ConnectionNotes:
    """Logs why there is no connection yet: new reasons at once, repeated ones now and then."""

    def __init__(self) -> None:
        self._said, self._at_s = "", 0.0

    def __call__(self, why: str) -> None:
        now = time.monotonic()
        if why != self._said or now - self._at_s >= _REPEAT_S:
            self._said, self._at_s = why, now
            log(f"waiting for node 0: {why}")


def log(note: str) -> None:
    # Not a progress line: the fraction of the trial is node 0's to report.
    sys.stderr.write(f"{note}\n")
    sys.stderr.flush()
