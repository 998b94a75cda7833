"""The harness of any node but the first: joins node 0, starts and stops its own ranks on request, and ends with node 0. It stores no document."""

from __future__ import annotations

import os
import sys
import tempfile
import time
import traceback
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path

from plumbline.declarations import Trial, installation_paths
from plumbline.declarations.workloads.container import ContainerWorkload
from plumbline.declarations.workloads.training import TrainingJob
from plumbline.harness import environment
from plumbline.harness.environment.cpu import cpu_limit, usable_cores
from plumbline.harness.gang.channel import Channel, Message, PeerDisconnected, connect, gloo_environment
from plumbline.harness.gang.topology import Address, Topology
from plumbline.harness.gpu_monitor import NODE_GPUS, GpuPhaseMonitor
from plumbline.harness.interruption import Interrupted, interruptible
from plumbline.harness.measurement import TrialFailed, scratch_folder
from plumbline.harness.probes import inter_node
from plumbline.harness.training import plan
from plumbline.harness.training.job.coordinator import TURN_S, CauseResolver, FailureCause, gang_identity
from plumbline.harness.training.job.inputs import prepare
from plumbline.harness.training.job.job import isolate_fault_checkpoint
from plumbline.harness.training.job.supervisor import RankProcess, failure_causes, finished, rank_processes, started, wait_for_any
from plumbline.harness.training.plan import share_cores
from plumbline.harness.training.worker_protocol import LogLine, RunName, run_kind
from plumbline.metrics import Phase
from plumbline.results import FailureClass

_REPEAT_S = 15.0


class NodeAgent:
    """One node's part of a job. `link`: to node 0; `folder`: its working folder, which ends with it."""

    def __init__(self, trial: Trial, topology: Topology, link: Channel, folder: Path, gpus: GpuPhaseMonitor) -> None:
        workload = trial.workload
        assert isinstance(workload, TrainingJob | ContainerWorkload) and topology.rendezvous is not None
        self._trial, self._topology, self._link, self._folder, self._gpus = trial, topology, link, folder, gpus
        self._workload, self._meeting = workload, topology.rendezvous.host
        self._phase: Phase | None = None
        self._before_start = ExitStack()
        """Ends when the first run starts, or the node ends."""
        self._device = "cpu" if workload.needs.accelerator == "cpu" else "cuda"
        self._variables = gloo_environment(link.local_host)
        self._running = ExitStack()
        self._workers: tuple[RankProcess, ...] = ()
        self._probing: inter_node.RankProcesses | None = None
        self._explanation = CauseResolver()
        self._reported = False
        """Whether node 0 knows of the current run's failed ranks and decides."""
        self._done = False

    def serve(self) -> str | None:
        """Follow node 0 until it ends the trial; None if that is done, else the failure in a sentence."""
        name = os.environ.get("PLUMBLINE_POD_NAME") or os.uname().nodename
        self._link.send("hello", node=self._topology.node, name=name, trial=gang_identity(self._trial))
        facts = environment.collect_facts()
        environment.require_driver(facts)
        environment.check_accelerators(self._trial.provider, self._workload.gpus, facts)
        self._gpus.before = environment.hardware_judgements(facts, self._topology.node)
        self._inputs = prepare(self._trial, self._folder, installation_paths().cache, self._device)
        binds = self._device == "cpu" and not self._inputs.of_script
        self._shares = share_cores(usable_cores(), cpu_limit(os.environ), self._topology.processes, binds=binds)
        answering = self._before_start.enter_context(inter_node.PeerServer())
        self._link.send("joined", data=self._inputs.sha256, port=answering.port)
        while True:
            wait_for_any(self._workers, [self._link], TURN_S)
            for message in self._link.news():
                if message["kind"] == "end":
                    because: str | None = message["because"]
                    return because
                self._handle(message)
            if (why := self._check()) is not None:
                return why

    def end(self) -> None:
        """End its processes."""
        self._before_start.close()
        self._running.close()

    def fail(self, failure_class: FailureClass, detail: str) -> None:
        self._report(FailureCause(failure_class, detail, certain=True))

    def report_gpus(self) -> None:
        self._enter(None)
        with suppress(PeerDisconnected):
            self._link.send("gpus", reading=NODE_GPUS.dump_python(self._gpus.reading(), mode="json"))

    def _handle(self, message: Message) -> None:
        kind = message["kind"]
        if kind == "phase":
            self._enter(message["name"])
        elif kind == "probe":
            self._probe(message)
        elif kind == "start":
            self._start(message)
        elif kind == "stop" and self._workers:  # else they ended by themselves meanwhile, and that was said
            self._report_end()

    def _check(self) -> str | None:
        """Report what happened here; why the node must end, or None."""
        why = self._probing.failure() if self._probing is not None else None
        if why is not None:
            self._probing = None
            self._link.send("probe_failed", detail=why)
        if self._workers and all(worker.ended and worker.cause() is None for worker in self._workers):
            self._report_end()
        if self._inputs.of_script and not self._done:
            for worker in self._workers:
                worker.take()
            if finished(self._workers):
                self._done = True
                self._link.send("done")
        cause = None if self._reported or self._done else self._explanation.of(failure_causes(self._workers))
        if cause is None:
            return None
        self._report(cause)
        return None if cause.passing else cause.detail

    def _report(self, cause: FailureCause) -> None:
        self._reported = True
        with suppress(PeerDisconnected):
            self._link.send("failed", **asdict(cause))

    def _enter(self, phase: Phase | None) -> None:
        if phase != self._phase:
            self._gpus.change(self._phase, phase)
            self._phase = phase

    def _start(self, message: Message) -> None:
        self._probing = None  # ended on purpose
        self._before_start.close()
        run: RunName = message["run"]
        spec = self._inputs.spec(run, resume=message["resume"])
        self._explanation, self._reported, self._done = CauseResolver(), False, False
        job = self._workload.job
        fault = None if job is None else plan.plan_fault(job)
        if fault is not None and run_kind(run) != "run":
            isolate_fault_checkpoint(self._folder, fault)
        store = Address(self._meeting, int(message["port"]))
        self._workers = rank_processes(run, spec, self._folder, self._topology, self._shares, store, self._variables)
        self._running.enter_context(started(self._workers))
        _log(f"{run}: started rank{'s' if len(self._workers) > 1 else ''} {', '.join(str(worker.rank) for worker in self._workers)}")

    def _probe(self, message: Message) -> None:
        orders = inter_node.CollectiveSpec(**{**message["orders"], "host": self._meeting})
        try:
            ranks = inter_node.RankProcesses(orders, self._topology.node, self._shares[0].threads, self._folder, self._variables)
            self._probing = self._before_start.enter_context(ranks)
        except OSError as error:
            self._link.send("probe_failed", detail=f"{type(error).__name__}: {error}")

    def _report_end(self) -> None:
        self._running.close()
        logs: dict[str, list[LogLine]] = {str(worker.rank): worker.lines for worker in self._workers}
        self._workers = ()
        self._link.send("ended", logs=logs)


def run_node_agent(trial: Trial, topology: Topology) -> str | None:
    """Take part in the trial as node `topology.node` until node 0 ends it.

    None if the trial is done; else the failure, in a sentence. No process and no working folder is left behind."""
    try:
        with interruptible():
            return _join_and_serve(trial, topology)
    except Interrupted as stop:
        return f"node {topology.node} was asked to stop by {stop.signal}"


def _join_and_serve(trial: Trial, topology: Topology) -> str | None:
    assert topology.rendezvous is not None
    try:
        link = connect(topology.rendezvous, trial.provider.launcher.gang_assembly_s, _ConnectionNotes())
    except PeerDisconnected as gone:
        return f"node {topology.node} never reached node 0: {gone}"
    with ExitStack() as stack:
        stack.callback(link.close)
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="node-", dir=scratch_folder(), ignore_cleanup_errors=True))
        gpus = stack.enter_context(GpuPhaseMonitor(node=topology.node))
        node = NodeAgent(trial, topology, link, Path(folder), gpus)
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
            _log(f"waiting for node 0: {why}")


def _log(note: str) -> None:
    # Not a progress line: the fraction of the trial is node 0's to report.
    sys.stderr.write(f"{note}\n")
    sys.stderr.flush()
