"""Another node's part of a training job: its own ranks, started and stopped by node 0's messages."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

from plumbline.declarations import Trial, installation_paths
from plumbline.declarations.workloads.training import TrainingWorkload
from plumbline.harness.environment.cpu import cpu_limit, usable_cores
from plumbline.harness.gang.channel import Channel, Message, gloo_environment
from plumbline.harness.gang.coordinator import TURN_S, CauseResolver, FailureCause
from plumbline.harness.gang.node_agent import NodeAgent, log
from plumbline.harness.gang.topology import Address, Topology
from plumbline.harness.gpu_monitor import GpuPhaseMonitor
from plumbline.harness.probes import inter_node
from plumbline.harness.training import plan
from plumbline.harness.training.dataset import DataFile
from plumbline.harness.training.dataset.preparation import prepare_inputs
from plumbline.harness.training.job.job import isolate_fault_checkpoint
from plumbline.harness.training.job.supervisor import RankProcess, failure_causes, rank_processes, wait_for_any
from plumbline.harness.training.plan import share_cores
from plumbline.harness.training.worker_protocol import LogLine, RunName, run_kind


class TrainingNode(NodeAgent):
    def __init__(self, trial: Trial, topology: Topology, link: Channel, folder: Path, gpus: GpuPhaseMonitor) -> None:
        super().__init__(trial, topology, link, folder, gpus)
        workload = trial.workload
        assert isinstance(workload, TrainingWorkload)
        self._workload = workload
        self._device = "cpu" if workload.needs.accelerator == "cpu" else "cuda"
        self._shares = share_cores(usable_cores(), cpu_limit(os.environ), topology.processes, self._device)
        self._variables = gloo_environment(link.local_host)
        self._running = ExitStack()
        self._workers: tuple[RankProcess, ...] = ()
        self._data: DataFile | None = None
        self._probing: inter_node.RankProcesses | None = None
        self._explanation = CauseResolver()
        self._reported = False
        """Whether node 0 knows of the current run's failed ranks and decides."""

    def _prepare(self) -> str:
        self._data = prepare_inputs(self._workload, installation_paths().cache)
        return self._data.sha256

    def _wait(self) -> None:
        wait_for_any(self._workers, [self._link], TURN_S)

    def _handle(self, message: Message) -> None:
        if message["kind"] == "probe":
            self._probe(message)
        elif message["kind"] == "start":
            self._start(message)
        elif message["kind"] == "stop" and self._workers:  # else they ended by themselves meanwhile, and that was said
            self._report_end()

    def _check(self) -> str | None:
        self._check_probe()
        if self._workers and all(worker.ended and worker.cause() is None for worker in self._workers):
            self._report_end()
        cause = None if self._reported else self._explanation.of(failure_causes(self._workers))
        if cause is None:
            return None
        self._report(cause)
        return None if cause.passing else cause.detail

    def _report(self, cause: FailureCause) -> None:
        self._reported = True
        super()._report(cause)

    def end(self) -> None:
        super().end()
        self._running.close()

    def _start(self, message: Message) -> None:
        assert self._data is not None and self._topology.rendezvous is not None
        self._probing = None  # ended on purpose
        self._before_start.close()
        run: RunName = message["run"]
        spec = plan.run_spec(run, self._workload, self._data, self._folder, device=self._device, resume=message["resume"])
        self._explanation, self._reported = CauseResolver(), False
        fault = plan.plan_fault(self._workload)
        if fault is not None and run_kind(run) != "run":
            isolate_fault_checkpoint(self._folder, fault)
        store = Address(self._topology.rendezvous.host, int(message["port"]))
        self._workers = rank_processes(run, spec, self._folder, self._topology, self._shares, store, self._variables)
        for worker in self._workers:
            self._running.enter_context(worker)
        log(f"{run}: started rank{'s' if len(self._workers) > 1 else ''} {', '.join(str(worker.rank) for worker in self._workers)}")

    def _probe(self, message: Message) -> None:
        assert self._topology.rendezvous is not None
        common = {name: message[name] for name in ("nodes", "processes", "device", "limit_s", "port")}
        orders = inter_node.CollectiveSpec(host=self._topology.rendezvous.host, **common)
        try:
            ranks = inter_node.RankProcesses(orders, self._topology.node, self._shares[0].threads, self._folder, self._variables)
            self._probing = self._before_start.enter_context(ranks)
        except OSError as error:
            self._link.send("probe_failed", detail=f"{type(error).__name__}: {error}")

    def _check_probe(self) -> None:
        why = self._probing.failure() if self._probing is not None else None
        if why is not None:
            self._probing = None
            self._link.send("probe_failed", detail=why)

    def _report_end(self) -> None:
        self._running.close()
        logs: dict[str, list[LogLine]] = {str(worker.rank): worker.lines for worker in self._workers}
        self._workers = ()
        self._link.send("ended", logs=logs)
