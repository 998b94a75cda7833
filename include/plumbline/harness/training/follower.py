"""What the harness of any node but the first does: it joins node 0, runs its own ranks when told to, and ends when the job does.

It stores no document and probes nothing while others measure; node 0 speaks for the whole job. What its own GPUs draw, and which errors they
make, it reads itself and hands to node 0 as its last message.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
import traceback
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path

from plumbline.declarations import Trial, places
from plumbline.declarations.phases import Phase
from plumbline.declarations.training import TrainingWorkload
from plumbline.harness import environment, hardware
from plumbline.harness.environment.cpu import cpu_limit, usable
from plumbline.harness.gpu_phases import GpuPhases
from plumbline.harness.interruption import Interrupted, interruptible
from plumbline.harness.probes import inter_node, peer
from plumbline.harness.training import dataset, plan
from plumbline.harness.training.dataset import DataFile
from plumbline.harness.training.job import set_apart
from plumbline.harness.training.link import Gone, Link, Message, connect
from plumbline.harness.training.network import gloo_interface
from plumbline.harness.training.place import Address, Place, patience_s, shares
from plumbline.harness.training.steplog import Line
from plumbline.harness.training.supervisor import Cause, Explanation, Worker, causes_of, wait_for_any, workers_of
from plumbline.harness.training.team import identity
from plumbline.results import FailureClass

_TURN_S = 0.5
_REPEAT_S = 15.0


def follow(trial: Trial, place: Place) -> str | None:
    """Take part in the trial as node `place.node` until node 0 says that it is over.

    None if the job is done; else why it failed, in a sentence. No process and no working folder is left behind.
    """
    try:
        with interruptible():
            return _follow(trial, place)
    except Interrupted as stop:
        return f"node {place.node} was asked to stop by {stop.signal}"


def _follow(trial: Trial, place: Place) -> str | None:
    assert place.rendezvous is not None
    try:
        link = connect(place.rendezvous, patience_s(trial.provider), _Waiting())
    except Gone as gone:
        return f"node {place.node} never reached node 0: {gone}"
    with ExitStack() as stack:
        stack.callback(link.close)
        scratch = places().work
        scratch.mkdir(parents=True, exist_ok=True)
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="node-", dir=scratch, ignore_cleanup_errors=True))
        gpus = stack.enter_context(GpuPhases(node=place.node))
        node = _Node(trial, place, link, Path(folder), gpus)
        stack.callback(node.report_gpus)
        stack.callback(node.end_ranks)
        try:
            return node.serve()
        except Gone as gone:
            return f"node 0 is gone without a word, and the job with it ({gone})"
        except Interrupted as stop:
            node.fail("interrupted", f"its harness was asked to stop by {stop.signal}")
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, node 0 writes it down
            traceback.print_exc()
            detail = f"{type(error).__name__}: {error}"
            node.fail("harness_error", detail)
            return detail


class _Node:
    """This node's part in the job."""

    def __init__(self, trial: Trial, place: Place, link: Link, folder: Path, gpus: GpuPhases) -> None:
        workload = trial.workload
        assert isinstance(workload, TrainingWorkload)
        self._trial, self._workload, self._place, self._link, self._folder = trial, workload, place, link, folder
        self._device = "cpu" if workload.needs.accelerator == "cpu" else "cuda"
        self._gpus = gpus
        self._phase: Phase | None = None
        self._running, self._before_runs = ExitStack(), ExitStack()
        self._workers: tuple[Worker, ...] = ()
        self._data: DataFile | None = None
        self._probing: inter_node.Ranks | None = None
        self._explanation = Explanation()
        self._told = False
        """Whether node 0 knows that ranks of the current run broke off; it says what to do."""

    def serve(self) -> str | None:
        """From the first word to the last; Gone if node 0 is."""
        name = os.environ.get("PLUMBLINE_POD_NAME") or os.uname().nodename
        self._link.send("hello", node=self._place.node, name=name, trial=identity(self._trial))
        wrong = hardware.mismatch(self._trial.provider, self._trial.workload.gpus, environment.probe())
        if wrong is not None:
            self.fail("wrong_hardware", wrong)
            return wrong
        self._data = dataset.prepare(self._workload, places().cache)
        answering = self._before_runs.enter_context(peer.Answering())
        self._link.send("joined", data=self._data.sha256, port=answering.port)
        while True:
            wait_for_any(self._workers, [self._link], _TURN_S)
            for message in self._link.news():
                if message["kind"] == "probe":
                    self._probe(message)
                elif message["kind"] == "start":
                    self._start(message)
                elif message["kind"] == "phase":
                    self._enter(message["name"])
                elif message["kind"] == "stop" and self._workers:  # else they ended by themselves meanwhile, and that was said
                    self._report_end()
                elif message["kind"] == "end":
                    because: str | None = message["because"]
                    return because
            self._check_probe()
            if self._workers and all(worker.ended and worker.cause() is None for worker in self._workers):
                self._report_end()
            cause = None if self._told else self._explanation.of(causes_of(self._workers))
            if cause is not None:
                self._tell(cause)
                if not cause.passing:
                    return cause.detail

    def fail(self, failure_class: FailureClass, detail: str) -> None:
        """Tell node 0 why this node cannot go on, if it is still there to be told."""
        self._tell(Cause(failure_class, detail, certain=True))

    def _tell(self, cause: Cause) -> None:
        self._told = True
        with suppress(Gone):
            self._link.send("failed", **asdict(cause))

    def end_ranks(self) -> None:
        """End this node's ranks, if any run, and what answers before they do."""
        self._before_runs.close()
        self._running.close()

    def report_gpus(self) -> None:
        """Send what this node's GPUs did: the last message, however the job ended."""
        self._enter(None)
        with suppress(Gone):
            self._link.send("gpus", reading=self._gpus.reading().row())

    def _enter(self, phase: Phase | None) -> None:
        if phase != self._phase:
            self._gpus.change(self._phase, phase)
            self._phase = phase

    def _start(self, message: Message) -> None:
        assert self._data is not None and self._place.rendezvous is not None
        self._probing = None  # ended on purpose
        self._before_runs.close()
        run: plan.RunName = message["run"]
        spec = plan.orders(run, self._workload, self._data, self._folder, device=self._device, resume=message["resume"])
        self._explanation, self._told = Explanation(), False
        fault = plan.fault_plan(self._workload)
        if fault is not None and plan.kind_of(run) != "run":
            set_apart(self._folder, fault)
        store = Address(self._place.rendezvous.host, int(message["port"]))
        parts = shares(usable(), cpu_limit(os.environ), self._place.processes, self._device)
        variables = gloo_interface(self._link.local_host)
        self._workers = workers_of(run, spec, self._folder, self._place, parts, store, variables)
        for worker in self._workers:
            self._running.enter_context(worker)
        _say(f"{run}: started rank{'s' if len(self._workers) > 1 else ''} {', '.join(str(worker.rank) for worker in self._workers)}")

    def _probe(self, message: Message) -> None:
        """Start this node's ranks of the collective probe; they are ended before the first run."""
        assert self._place.rendezvous is not None
        parts = shares(usable(), cpu_limit(os.environ), self._place.processes, self._device)
        common = {name: message[name] for name in ("nodes", "processes", "device", "limit_s", "port")}
        orders = inter_node.Orders(host=self._place.rendezvous.host, **common)
        variables = gloo_interface(self._link.local_host)
        try:
            ranks = inter_node.Ranks(orders, self._place.node, parts[0].threads, self._folder, variables)
            self._probing = self._before_runs.enter_context(ranks)
        except OSError as error:
            self._link.send("probe_failed", detail=f"{type(error).__name__}: {error}")

    def _check_probe(self) -> None:
        why = self._probing.failure() if self._probing is not None else None
        if why is not None:
            self._probing = None
            self._link.send("probe_failed", detail=why)

    def _report_end(self) -> None:
        """The ranks of the run have ended, or are ended now: hand over what they wrote down."""
        self._running.close()
        logs: dict[str, list[Line]] = {str(worker.rank): worker.lines for worker in self._workers}
        self._workers = ()
        self._link.send("ended", logs=logs)


class _Waiting:
    """Says why there is no connection yet: when the reason is new, and now and then while it is not."""

    def __init__(self) -> None:
        self._said, self._at_s = "", 0.0

    def __call__(self, why: str) -> None:
        now = time.monotonic()
        if why != self._said or now - self._at_s >= _REPEAT_S:
            self._said, self._at_s = why, now
            _say(f"waiting for node 0: {why}")


def _say(note: str) -> None:
    # Not a progress line: the fraction of the trial is node 0's to tell.
    sys.stderr.write(f"{note}\n")
    sys.stderr.flush()
