"""The training loop of one rank: resumes, steps, saves, closes, and writes each step down before the next begins."""

from __future__ import annotations

import gc
import threading
from contextlib import nullcontext
from pathlib import Path
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional as F

from plumbline.harness.training import checkpoint
from plumbline.harness.training.data import Batches
from plumbline.harness.training.device import matmul_flops, settler
from plumbline.harness.training.model import Transformer, build, tensors, weights_sha256
from plumbline.harness.training.plan import WorkerSpec
from plumbline.harness.training.steplog import StepLog

if TYPE_CHECKING:
    from plumbline.harness.training.distributed import Peers

_VERIFIED_LOADS = 3
_MATMUL_SECONDS = 0.3


class NoDevice(Exception):
    """The accelerator that the workload needs is not there."""


class NothingToResume(Exception):
    """No valid checkpoint to resume from."""


class Trainer:
    """The training loop of one rank."""

    def __init__(self, spec: WorkerSpec, log: StepLog) -> None:
        if spec.device == "cuda" and not torch.cuda.is_available():
            raise NoDevice("the workload needs a GPU and torch finds none")
        self._spec, self._log = spec, log
        self._device = torch.device(f"cuda:{spec.group.local}" if spec.group and spec.device == "cuda" else spec.device)
        self._settle = settler(self._device)
        torch.set_num_threads(spec.threads)
        self._batches = Batches(
            Path(spec.tokens_path),
            spec.tokens_dtype,
            spec.tokens,
            sequences=spec.micro * spec.accumulation,
            sequence=spec.sequence,
            seed=spec.seed,
            rank=spec.group.rank if spec.group else 0,
            world=spec.group.world if spec.group else 1,
        )
        self._model, self._optimizer = self._fresh()
        torch.manual_seed(spec.seed)
        self._replica: torch.nn.Module = self._model
        self._peers: Peers | None = None
        if spec.group is not None:
            # Imported here: alone, a process would pay for it with a slower start.
            from plumbline.harness.training.distributed import Peers

            self._peers = Peers(spec.group, self._device)
            self._replica = self._peers.replicate(self._model)

    def run(self) -> None:
        """Resume if told so, do the steps, and close if told so."""
        spec, folder = self._spec, Path(self._spec.checkpoint_folder)
        self._log.event("ready", facts=self._facts())
        first = self._resume(folder) if spec.resume else 0
        gc.collect()
        gc.freeze()  # the collector need not look at torch's modules again in the middle of a step
        for step in range(first, spec.until):
            self._log.line(self._step(step))
            if (step + 1) % spec.checkpoint_every == 0:
                self._save(folder, step + 1, closing=False)
        if self._peers is not None:
            self._peers.leave()
        if spec.closing:
            self._close(folder)
        self._log.event("done")

    def _step(self, step: int) -> dict[str, Any]:
        spec = self._spec
        forward = backward = 0
        start = monotonic_ns()
        batch = torch.from_numpy(self._batches.of(step)).to(self._device)
        self._settle()
        fetched = mark = monotonic_ns()
        total = torch.zeros((), device=self._device)
        parts = torch.split(batch, spec.micro)
        for part in parts:
            averaged = self._peers is not None and part is parts[-1]
            with nullcontext() if averaged or self._peers is None else self._peers.silent():
                loss = self._loss(part) / spec.accumulation
                total += loss.detach()
                self._settle()
                now = monotonic_ns()
                forward, mark = forward + now - mark, now
                if step == spec.hold_in_step:
                    self._hold(step)
                loss.backward()  # type: ignore[no-untyped-call]
                end = self._peers.mark() if self._peers is not None else None
                self._settle()
            now = monotonic_ns()
            backward, mark = backward + now - mark, now
        sync = self._peers.exposed_ns(mark, end) if self._peers is not None else 0
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        value = total.item()
        done = monotonic_ns()
        return {
            "event": "step",
            "ns": done,
            "step": step,
            "start": start,
            "data": fetched - start,
            "forward": forward,
            "backward": backward - sync,
            "gradient_sync": sync,
            "optimizer": done - mark,
            "loss": value,
        }

    def _loss(self, part: torch.Tensor) -> torch.Tensor:
        """Mean cross-entropy of the sequences (n, tokens) of token ids."""
        with torch.autocast(self._spec.device, torch.bfloat16, enabled=self._spec.precision == "bf16"):
            logits = self._replica(part[:, :-1])
        return F.cross_entropy(logits.float().flatten(0, 1), part[:, 1:].flatten())

    def _hold(self, step: int) -> None:
        """Say that the step is half done and wait for the kill: it then falls into the middle of this step however fast the machine is."""
        self._log.event("holding", step=step)
        threading.Event().wait()

    def _resume(self, folder: Path) -> int:
        if self._peers is not None:
            # After its first backward DDP puts the gradients into other buckets, in which three and more ranks add them up in another
            # order. The run that is resumed had that behind it; a backward for nothing puts it behind this one, or losses would differ.
            self._loss(torch.zeros(1, 2, dtype=torch.int64, device=self._device)).backward()  # type: ignore[no-untyped-call]
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
        self._restore(state, self._model, self._optimizer)
        torch.set_rng_state(state["rng"].cpu())
        self._settle()
        self._log.event("load_end", step=state["step"], rejected=rejected)
        return int(state["step"])

    @property
    def _leads(self) -> bool:
        """Whether this is rank 0. All ranks hold the same state, so one of them saves it for all."""
        return self._spec.group is None or self._spec.group.rank == 0

    def _save(self, folder: Path, step: int, *, closing: bool) -> None:
        if self._leads:
            self._write(folder, step, closing=closing)
        if self._peers is not None and not closing:
            # The others would wait in their next step all the same, and its time would seem to be the step's.
            self._peers.wait_for_all()

    def _write(self, folder: Path, step: int, *, closing: bool) -> None:
        spec = self._spec
        began = monotonic_ns()
        state = {"model": self._model.state_dict(), "optimizer": self._optimizer.state_dict(), "rng": torch.get_rng_state()}
        saved = checkpoint.save(folder, step, state, keep=spec.checkpoint_keep, retain=frozenset(spec.checkpoint_retain))
        blocking = monotonic_ns() - began
        self._log.event("checkpoint", step=step, save_s=saved.seconds, blocking=blocking, bytes=saved.bytes, closing=closing)

    def _close(self, folder: Path) -> None:
        """After the last step: the final state is saved, loaded into a fresh model and compared bit by bit; then the matmul rate."""
        if self._spec.until % self._spec.checkpoint_every:
            self._save(folder, self._spec.until, closing=True)
        for _ in range(_VERIFIED_LOADS):
            model, optimizer = self._fresh()
            began = monotonic_ns()
            loaded = checkpoint.load_newest(folder, str(self._device))
            if loaded is None:
                raise NothingToResume(f"the checkpoint just written to {folder.name} cannot be loaded")
            self._restore(loaded.state, model, optimizer)
            self._settle()
            seconds = (monotonic_ns() - began) / 1e9
            equal = loaded.step == self._spec.until and self._same(model, optimizer)
            self._log.event("verified_load", seconds=seconds, equal=equal)
        self._log.event("matmul", flops=matmul_flops(self._device, self._spec.precision, _MATMUL_SECONDS))
        self._log.event("weights", sha256=weights_sha256(self._fresh()[0]))

    def _fresh(self) -> tuple[Transformer, torch.optim.Optimizer]:
        model = build(self._spec.model).to(self._device)
        rate, decay = self._spec.learning_rate, self._spec.weight_decay
        return model, torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=decay, fused=True)

    @staticmethod
    def _restore(state: dict[str, Any], model: Transformer, optimizer: torch.optim.Optimizer) -> None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])

    def _same(self, model: Transformer, optimizer: torch.optim.Optimizer) -> bool:
        mine, other = tensors(self._model, self._optimizer), tensors(model, optimizer)
        return mine.keys() == other.keys() and all(torch.equal(mine[key], other[key]) for key in mine)

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
