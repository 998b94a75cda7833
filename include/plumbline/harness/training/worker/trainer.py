"""The training loop of one rank: resume, step, save, run the final checks; each step is logged before the next begins."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from plumbline.harness.image_requirements import ImageIncomplete, find_image_fault
from plumbline.harness.training.checkpoint.manager import CheckpointManager
from plumbline.harness.training.checkpoint.state import TrainingState
from plumbline.harness.training.checkpoint.store import CheckpointRanks, SingleProcess
from plumbline.harness.training.learners import Samples, build_learner
from plumbline.harness.training.models import InitialWeights, weights_sha256
from plumbline.harness.training.worker import torch_setup
from plumbline.harness.training.worker.device import (
    InlineFeed,
    PrefetchingFeed,
    batch_feed,
    matmul_flops,
    peak_memory,
    step_timer,
    synchronizer,
)
from plumbline.harness.training.worker.torch_setup import (
    CompileTimer,
    Precision,
    build_optimizer,
    checkpoint_activations,
    compile_layers,
    set_learning_rate,
)
from plumbline.harness.training.worker_protocol import ExitCode, StepLog, WorkerError, WorkerSpec

if TYPE_CHECKING:
    from plumbline.harness.training.distributed import MeshLayout, ParallelModel, RankGroups


class NoDevice(WorkerError):
    """The accelerator that the workload needs is not there."""

    exit_code = ExitCode.NO_DEVICE


class Trainer:
    """The training loop of one rank."""

    def __init__(self, spec: WorkerSpec, log: StepLog) -> None:
        """Raises WorkerError and ImageIncomplete, as `run` does."""
        if spec.device == "cuda" and not torch.cuda.is_available():
            if torch.version.cuda is None and torch.version.hip is None:
                raise ImageIncomplete(f"the workload needs a GPU and torch {torch.__version__} of the image is built for CPUs alone")
            why = torch_setup.no_gpu_reason()
            if find_image_fault(why) is not None:
                raise ImageIncomplete(f"torch {torch.__version__} of the image cannot use the node's driver: {why}")
            raise NoDevice(f"the workload needs a GPU and torch finds none: {why}")
        self._spec, self._log, group = spec, log, spec.group
        # With its number: a thread that makes a GPU its own is asked for one.
        self._device = torch.device(f"cuda:{group.local if group else 0}" if spec.device == "cuda" else spec.device)
        self._settle, self._timer = synchronizer(self._device), step_timer(self._device)
        torch.set_num_threads(spec.threads)
        torch_setup.set_deterministic(spec.deterministic)
        self._precision = Precision(spec.precision, self._device)
        tensor = spec.parallelism["tensor"]
        self._learner = build_learner(spec, group.rank // tensor if group else 0, group.world // tensor if group else 1)
        if self._learner.weights_load_s is not None:
            log.event("weights_loaded", seconds=self._learner.weights_load_s)
        self._initial = InitialWeights(self._learner.model) if spec.device == "cuda" and spec.closing and spec.draws else None
        torch.manual_seed(spec.seed)
        self._precision.convert(self._learner.model, self._learner.layers)
        if spec.activation_checkpointing:
            checkpoint_activations(self._learner.layers)
        self._compiler: CompileTimer | None = (
            compile_layers(self._learner.layers, Path(spec.log).parent / "compiled") if spec.compile else None
        )
        self._peers: RankGroups | None = None
        self._layout: MeshLayout | None = None
        self._parallel: ParallelModel | None = None
        if group is None:
            self._replica: nn.Module = self._learner.model.to(self._device)
        else:
            # Imported here: alone, a process would pay for it with a slower start.
            from plumbline.harness.training import distributed

            self._peers, self._layout = distributed.RankGroups(group, self._device), distributed.mesh_layout(spec, group)
            self._parallel = distributed.parallelize(spec, group, self._learner, self._device)
            self._replica = self._parallel.replica
        self._model: nn.Module = self._learner.model
        self._optimizer = build_optimizer(spec.optimizer, self._model.parameters())
        self._state = TrainingState(self._model, self._optimizer, self._precision, self._device)
        self._keeper = CheckpointManager(spec, log, self._savers())
        gc.collect()
        gc.freeze()  # the collector need not look at torch's modules again in the middle of a step

    def run(self) -> None:
        """Resume, do the steps and close, as specified."""
        spec = self._spec
        self._log.event("ready", facts=self._facts())
        self.steps(self._resume() if spec.resume else 0, spec.until)
        if spec.until % spec.checkpoint_every and spec.closing:
            self._save(spec.until, at_end=True)
        self._keeper.wait()
        self._log.event("memory", peak=peak_memory(self._device))  # before the closing checks, which are no training
        if spec.closing:
            _verify_checkpoint(spec, self._device, self._keeper, self._state, log=self._log)
        if self._peers is not None:
            self._peers.leave()
        if spec.closing and self._leads:
            self._log.event("matmul", flops=matmul_flops(self._device, spec.precision))
            self._log.event("weights", sha256=self._initial.sha256() if self._initial is not None else _drawn_again(spec))
        self._log.event("done")

    def steps(self, first: int, until: int) -> None:
        """Do the steps from `first` up to `until`, without it, and the checkpoints that are due; return once the device has done them."""
        spec = self._spec
        try:
            with torch_setup.attention_kernel(spec.attention), batch_feed(self._learner, self._device, range(first, until)) as feed:
                for step in range(first, until):
                    for line in self._step(step, feed):
                        self._log.line(line)
                    if self._initial is not None:
                        self._initial.start()  # not before: the first step is measured from the start of the process
                    if self._compiler is not None and (spent := self._compiler.taken()):
                        self._log.event("compiled", step=step, seconds=spent / 1e9)
                    self._keeper.check()
                    if (step + 1) % spec.checkpoint_every == 0:
                        self._drain()
                        self._save(step + 1, at_end=False)
                self._drain()
        except RuntimeError as error:
            misfit = torch_setup.missing_kernel(error, spec.attention)
            if misfit is None:
                raise
            raise misfit from error

    def _step(self, step: int, feed: InlineFeed | PrefetchingFeed) -> list[dict[str, Any]]:
        spec, timer, learner = self._spec, self._timer, self._learner
        timer.begin(step)
        samples = feed.next()
        timer.mark("data_wait")
        samples = feed.moved(samples)
        timer.mark("host_to_device")
        if learner.generates:
            with self._casting():
                samples = learner.prepared(self._replica, samples)
            timer.mark("generation")
        set_learning_rate(self._optimizer, spec.optimizer, step)
        total = torch.zeros((), device=self._device)
        for number, part in enumerate(self._micro_batches(samples)):
            with self._averaged(last=number == spec.accumulation - 1):
                with self._casting():
                    loss = learner.loss(self._replica, part) / spec.accumulation
                total += loss.detach()
                timer.mark("forward")
                if spec.hold is not None and (spec.hold.step, spec.hold.inside) == (step, "step"):
                    self._hold(step)
                self._precision.backward(loss)
                timer.mark("backward")
            if self._parallel is not None and (waited := self._parallel.exposed()) is not None:
                timer.move("backward", "gradient_sync", waited)
        skipped = self._precision.update(self._optimizer, spec.optimizer["clip"])
        self._optimizer.zero_grad(set_to_none=True)
        return timer.end(total, skipped)

    def _micro_batches(self, samples: Samples) -> Iterator[Samples]:
        return zip(*(part.split(self._spec.micro) for part in samples), strict=True)  # type: ignore[no-untyped-call]

    def _averaged(self, *, last: bool) -> AbstractContextManager[object]:
        """Gradients need not go to the other ranks before the last micro-batch of a step."""
        return nullcontext() if last or self._parallel is None else self._parallel.silent()

    def _casting(self) -> AbstractContextManager[object]:
        return nullcontext() if self._parallel is not None and self._parallel.casts else self._precision.autocast()

    def _drain(self) -> None:
        for line in self._timer.drain():
            self._log.line(line)

    def _hold(self, step: int) -> None:
        """Say that the step is half done and wait for the kill: it then falls into the middle of this step however fast the machine is."""
        self._drain()
        self._log.event("holding", step=step)
        threading.Event().wait()

    def _resume(self) -> int:
        if self._peers is not None and not self._spec.sharded:
            # After its first backward DDP puts the gradients into other buckets, in which three and more ranks add them up in another
            # order. The run that is resumed had that behind it; a backward for nothing puts it behind this one, or losses would differ.
            with torch.no_grad():
                for parameter in self._model.parameters():
                    if parameter.requires_grad:
                        parameter.zero_()  # nobody drew it, and answers cannot be generated by what is no number
            samples = self._learner.prepared(self._replica, tuple(part.to(self._device) for part in self._learner.batch(0)))
            micro = tuple(part[: self._spec.micro] for part in samples)
            self._learner.loss(self._replica, micro).backward()  # type: ignore[no-untyped-call]
            self._optimizer.zero_grad(set_to_none=True)
        self._log.event("load_begin")
        loaded = self._keeper.load(self._state) if self._saves else None
        step = loaded.step if loaded else 0
        if self._peers is not None and not self._spec.sharded:
            shared = self._peers.share({"step": step, "state": self._state.taken()} if self._leads else None)
            step = shared["step"]
            self._state.put(shared["state"])
        self._settle()
        rejected, checksum_s = (loaded.rejected, loaded.checksum_s) if loaded else ((), 0.0)
        self._log.event("load_end", step=step, rejected=rejected, checksum_s=checksum_s)
        return step

    @property
    def _leads(self) -> bool:
        return self._spec.group is None or self._spec.group.rank == 0

    @property
    def _saves(self) -> bool:
        """Whether this rank saves and loads: where all hold the same state, rank 0 does for all."""
        return self._leads or self._spec.sharded

    def _savers(self) -> CheckpointRanks:
        if self._peers is None or not self._spec.sharded:
            return SingleProcess()
        assert self._layout is not None
        return self._peers.checkpoint_groups(self._layout)

    def _save(self, step: int, *, at_end: bool) -> None:
        if self._saves:
            self._keeper.save(step, self._state, at_end=at_end)
        if self._peers is not None and not at_end and self._spec.checkpoint_mode == "sync":
            # The others would wait in their next step all the same, and its time would seem to be the step's.
            self._peers.barrier()

    def _facts(self) -> dict[str, Any]:
        spec, facts = self._spec, dict[str, Any]()
        if spec.group is not None:
            world, nodes = spec.group.world, spec.group.nodes
            facts = {"training.world_size": world, "training.nodes": nodes, "training.processes": world // nodes}
            facts["training.backend"] = spec.group.backend
        if self._device.type == "cuda":
            facts["torch.device_name"] = torch.cuda.get_device_name(self._device)
        return {
            **facts,
            "torch.threads": torch.get_num_threads(),
            "torch.interop_threads": torch.get_num_interop_threads(),
            "torch.device": self._device.type,
            "torch.precision": spec.precision,
            "torch.float32_matmul_precision": torch.get_float32_matmul_precision(),
            "torch.cpu_capability": torch.backends.cpu.get_cpu_capability(),
            "torch.deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
            "torch.compile": spec.compile,
            "torch.attention": spec.attention,
            "torch.activation_checkpointing": spec.activation_checkpointing,
        }


def _verify_checkpoint(spec: WorkerSpec, device: torch.device, keeper: CheckpointManager, state: TrainingState, *, log: StepLog) -> None:
    """Load the newest checkpoint as a new process would and write down how long it took and whether it is the state that was trained.

    It is loaded into the state itself, of which fingerprints are kept: a second one may not fit on the device. Loads are repeated as far as
    the trial's time limit allows. NothingToResume if it cannot be loaded.
    """
    settle, trained = synchronizer(device), state.fingerprint()
    for number in range(spec.verified_loads):
        entered = monotonic_ns()
        state.forget()
        cold = keeper.evict_from_page_cache()
        settle()
        began = monotonic_ns()
        # Once is enough for what a process that resumes checks besides: each load is compared with what was trained.
        loaded = keeper.load(state, checksums=number == 0)
        settle()
        seconds = (monotonic_ns() - began) / 1e9 - loaded.checksum_s
        step, same = loaded.step, state.fingerprint() == trained
        del loaded  # its tensors would be there beside those of the next load
        log.event("verified_load", seconds=seconds, equal=keeper.on_all_ranks(same and step == spec.until), cold=keeper.on_all_ranks(cold))
        again = 2 * monotonic_ns() - entered
        if not keeper.on_all_ranks(spec.end_by_ns is None or again < spec.end_by_ns):
            return


def _drawn_again(spec: WorkerSpec) -> str:
    first = replace(spec, resume=False, group=None)
    return weights_sha256(build_learner(first, 0, 1).model)
