"""The training loop of one rank: resumes, steps, saves, closes, and writes each step down before much more is done."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from plumbline.harness.training import checkpoint, closing
from plumbline.harness.training.device import settler
from plumbline.harness.training.learners import Samples, learner_of
from plumbline.harness.training.optimizers import optimizer_of, set_rate
from plumbline.harness.training.plan import WorkerSpec
from plumbline.harness.training.precision import Precision
from plumbline.harness.training.steplog import StepLog
from plumbline.harness.training.timing import timer_for

if TYPE_CHECKING:
    from plumbline.harness.training.distributed import Peers


class NoDevice(Exception):
    """The accelerator that the workload needs is not there."""


class NothingToResume(Exception):
    """No valid checkpoint to resume from."""


class Trainer:
    """The training loop of one rank."""

    def __init__(self, spec: WorkerSpec, log: StepLog) -> None:
        """Raises NoDevice, DamagedData, and `precision.Unsupported`."""
        if spec.device == "cuda" and not torch.cuda.is_available():
            raise NoDevice("the workload needs a GPU and torch finds none")
        self._spec, self._log, group = spec, log, spec.group
        self._device = torch.device(f"cuda:{group.local}" if group and spec.device == "cuda" else spec.device)
        self._settle, self._timer = settler(self._device), timer_for(self._device)
        torch.set_num_threads(spec.threads)
        torch.use_deterministic_algorithms(spec.deterministic)
        self._precision = Precision(spec.precision, self._device)
        tensor = spec.parallelism["tensor"]
        self._learner = learner_of(spec, group.rank // tensor if group else 0, group.world // tensor if group else 1)
        self._model: nn.Module = self._learner.model.to(self._device)
        torch.manual_seed(spec.seed)
        self._replica = self._model
        self._peers: Peers | None = None
        if group is not None:
            # Imported here: alone, a process would pay for it with a slower start.
            from plumbline.harness.training.distributed import Peers

            self._peers = Peers(group, self._device)
            self._replica = self._peers.replicate(self._model)
        self._optimizer = optimizer_of(spec.optimizer, self._model.parameters())

    def run(self) -> None:
        """Resume if told so, do the steps, and close if told so."""
        spec, folder = self._spec, Path(self._spec.checkpoint_folder)
        self._log.event("ready", facts=self._facts())
        first = self._resume(folder) if spec.resume else 0
        gc.collect()
        gc.freeze()  # the collector need not look at torch's modules again in the middle of a step
        for step in range(first, spec.until):
            for line in self._step(step):
                self._log.line(line)
            if (step + 1) % spec.checkpoint_every == 0:
                self._drain()
                self._save(folder, step + 1, at_end=False)
        self._drain()
        if self._peers is not None:
            self._peers.leave()
        if spec.closing:
            self._close(folder)
        self._log.event("done")

    def _step(self, step: int) -> list[dict[str, Any]]:
        spec, timer, learner = self._spec, self._timer, self._learner
        timer.begin(step)
        samples = learner.batch(step)
        timer.mark("data_wait")
        samples = tuple(part.to(self._device) for part in samples)
        timer.mark("host_to_device")
        if learner.generates:
            samples = learner.prepared(self._replica, samples)
            timer.mark("generation")
        set_rate(self._optimizer, spec.optimizer, step)
        total = torch.zeros((), device=self._device)
        for number, part in enumerate(self._micro_batches(samples)):
            with self._averaged(last=number == spec.accumulation - 1):
                with self._precision.autocast():
                    loss = learner.loss(self._replica, part) / spec.accumulation
                total += loss.detach()
                timer.mark("forward")
                if spec.hold is not None and (spec.hold.step, spec.hold.inside) == (step, "step"):
                    self._hold(step)
                self._precision.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
                timer.mark("backward")
        if self._peers is not None:
            timer.move("backward", "gradient_sync", self._peers.exposed())
        self._update()
        return timer.end(total)

    def _micro_batches(self, samples: Samples) -> Iterator[Samples]:
        return zip(*(part.split(self._spec.micro) for part in samples), strict=True)  # type: ignore[no-untyped-call]

    def _averaged(self, *, last: bool) -> AbstractContextManager[object]:
        """Gradients go to the other ranks in the last micro-batch of a step alone."""
        return nullcontext() if last or self._peers is None else self._peers.silent()

    def _update(self) -> None:
        scaler, clip = self._precision.scaler, self._spec.optimizer["clip"]
        if clip is not None:
            scaler.unscale_(self._optimizer)
            torch.nn.utils.clip_grad_norm_(self._model.parameters(), clip)
        scaler.step(self._optimizer)
        scaler.update()
        self._optimizer.zero_grad(set_to_none=True)

    def _drain(self) -> None:
        for line in self._timer.drain():
            self._log.line(line)

    def _hold(self, step: int) -> None:
        """Say that the step is half done and wait for the kill: it then falls into the middle of this step however fast the machine is."""
        self._drain()
        self._log.event("holding", step=step)
        threading.Event().wait()

    def _resume(self, folder: Path) -> int:
        if self._peers is not None:
            # After its first backward DDP puts the gradients into other buckets, in which three and more ranks add them up in another
            # order. The run that is resumed had that behind it; a backward for nothing puts it behind this one, or losses would differ.
            micro = tuple(part[: self._spec.micro].to(self._device) for part in self._learner.batch(0))
            self._learner.loss(self._replica, micro).backward()  # type: ignore[no-untyped-call]
            self._optimizer.zero_grad(set_to_none=True)
        self._log.event("load_begin")
        rejected: tuple[str, ...] = ()
        state: dict[str, Any] | None = None
        if self._leads:
            checkpoint.discard_drafts(folder)
            loaded = checkpoint.load_newest(folder, str(self._device))
            if loaded is None:
                raise NothingToResume(f"no valid checkpoint in {folder.name}")
            state, rejected = loaded.state, loaded.rejected
        if self._peers is not None:
            state = self._peers.share(state)
        assert state is not None
        self._model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["rng"].cpu())
        self._settle()
        self._log.event("load_end", step=state["step"], rejected=rejected)
        return int(state["step"])

    @property
    def _leads(self) -> bool:
        """Whether this is rank 0. All ranks hold the same state, so one of them saves it for all."""
        return self._spec.group is None or self._spec.group.rank == 0

    def _save(self, folder: Path, step: int, *, at_end: bool) -> None:
        if self._leads:
            self._write(folder, step, at_end=at_end)
        if self._peers is not None and not at_end:
            # The others would wait in their next step all the same, and its time would seem to be the step's.
            self._peers.wait_for_all()

    def _write(self, folder: Path, step: int, *, at_end: bool) -> None:
        spec = self._spec
        began = monotonic_ns()
        state = {"model": self._model.state_dict(), "optimizer": self._optimizer.state_dict(), "rng": torch.get_rng_state()}
        saved = checkpoint.save(folder, step, state, keep=spec.checkpoint_keep, retain=frozenset(spec.checkpoint_retain))
        blocking = monotonic_ns() - began
        self._log.event("checkpoint", step=step, save_s=saved.seconds, blocking=blocking, bytes=saved.bytes, closing=at_end)

    def _close(self, folder: Path) -> None:
        if self._spec.until % self._spec.checkpoint_every:
            self._save(folder, self._spec.until, at_end=True)
        closing.close(self._spec, self._device, self._model, self._optimizer, self._log)

    def _facts(self) -> dict[str, Any]:
        group = self._spec.group
        job = (
            {}
            if group is None
            else {
                "training.world_size": group.world,
                "training.nodes": group.nodes,
                "training.processes": group.world // group.nodes,
                "training.backend": group.backend,
            }
        )
        return {
            **job,
            "torch.threads": torch.get_num_threads(),
            "torch.interop_threads": torch.get_num_interop_threads(),
            "torch.device": self._device.type,
            "torch.precision": self._spec.precision,
            "torch.float32_matmul_precision": torch.get_float32_matmul_precision(),
            "torch.cpu_capability": torch.backends.cpu.get_cpu_capability(),
            "torch.deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        }
