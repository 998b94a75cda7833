"""The process that trains: `python -m plumbline.harness.training.worker spec.json`.

It imports torch and the standard library only (its start-up is part of what is measured), writes down every step in its log before
the next begins, and ends when the process that started it ends, however that happens.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import hashlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from time import monotonic_ns
from typing import Any

import torch
from torch.nn import functional as F

from plumbline.harness.training import checkpoint, plan
from plumbline.harness.training.data import Batches, DamagedData
from plumbline.harness.training.model import Transformer, build
from plumbline.harness.training.plan import WorkerSpec
from plumbline.harness.training.steplog import StepLog

_VERIFIED_LOADS = 3
_MATMUL_SECONDS = 0.3
_PR_SET_PDEATHSIG = 1


class NoDevice(Exception):
    """The accelerator that the workload needs is not there."""


class NothingToResume(Exception):
    """No valid checkpoint to resume from."""


class Trainer:
    """The training loop of one worker."""

    def __init__(self, spec: WorkerSpec, log: StepLog) -> None:
        if spec.device == "cuda" and not torch.cuda.is_available():
            raise NoDevice("the workload needs a GPU and torch finds none")
        self._spec, self._log = spec, log
        self._device = torch.device(spec.device)
        self._settle = _settler(self._device)
        torch.set_num_threads(spec.threads)
        self._batches = Batches(
            Path(spec.tokens_path),
            spec.tokens_dtype,
            spec.tokens,
            sequences=spec.micro * spec.accumulation,
            sequence=spec.sequence,
            seed=spec.seed,
        )
        self._model, self._optimizer = self._fresh()
        torch.manual_seed(spec.seed)

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
        for part in torch.split(batch, spec.micro):
            with torch.autocast(spec.device, torch.bfloat16, enabled=spec.precision == "bf16"):
                logits = self._model(part[:, :-1])
            loss = F.cross_entropy(logits.float().flatten(0, 1), part[:, 1:].flatten()) / spec.accumulation
            total += loss.detach()
            self._settle()
            now = monotonic_ns()
            forward, mark = forward + now - mark, now
            if step == spec.hold_in_step:
                self._hold(step)
            loss.backward()  # type: ignore[no-untyped-call]
            self._settle()
            now = monotonic_ns()
            backward, mark = backward + now - mark, now
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        value = total.item()
        end = monotonic_ns()
        return {
            "event": "step",
            "ns": end,
            "step": step,
            "start": start,
            "data": fetched - start,
            "forward": forward,
            "backward": backward,
            "optimizer": end - mark,
            "loss": value,
        }

    def _hold(self, step: int) -> None:
        """Say that the step is half done and wait for the kill: it then falls into the middle of this step however fast the machine is."""
        self._log.event("holding", step=step)
        threading.Event().wait()

    def _resume(self, folder: Path) -> int:
        self._log.event("load_begin")
        checkpoint.discard_drafts(folder)
        loaded = checkpoint.load_newest(folder, self._spec.device)
        if loaded is None:
            raise NothingToResume(f"no valid checkpoint in {folder.name}")
        self._restore(loaded.state, self._model, self._optimizer)
        torch.set_rng_state(loaded.state["rng"].cpu())
        self._settle()
        self._log.event("load_end", step=loaded.step, rejected=loaded.rejected)
        return loaded.step

    def _save(self, folder: Path, step: int, *, closing: bool) -> None:
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
            loaded = checkpoint.load_newest(folder, self._spec.device)
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
        mine, other = _tensors(self._model, self._optimizer), _tensors(model, optimizer)
        return mine.keys() == other.keys() and all(torch.equal(mine[key], other[key]) for key in mine)

    def _facts(self) -> dict[str, Any]:
        return {
            "torch.threads": torch.get_num_threads(),
            "torch.interop_threads": torch.get_num_interop_threads(),
            "torch.device": self._device.type,
            "torch.precision": self._spec.precision,
            "torch.float32_matmul_precision": torch.get_float32_matmul_precision(),
            "torch.cpu_capability": torch.backends.cpu.get_cpu_capability(),
            "torch.deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        }


def matmul_flops(device: torch.device, precision: str, seconds: float) -> float:
    """The best rate (FLOP/s) of one square matrix product at the training precision, tried for `seconds`."""
    size = 8192 if device.type == "cuda" else 1024
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    a, b = (torch.randn(size, size, device=device).to(kind) for _ in range(2))
    settle = _settler(device)
    best, end = float("inf"), time.monotonic() + seconds
    while best == float("inf") or time.monotonic() < end:
        began = monotonic_ns()
        a @ b
        settle()
        best = min(best, (monotonic_ns() - began) / 1e9)
    return float(2.0 * size**3 / best)


def _settler(device: torch.device) -> Callable[[], None]:
    """What waits until the device has done what it was given: kernels of a GPU run behind the program's back."""
    settle: Callable[[], None] = torch.cuda.synchronize if device.type == "cuda" else _nothing
    return settle


def _nothing() -> None:
    """A CPU is done when the call returns."""


def weights_sha256(model: Transformer) -> str:
    """SHA-256 of all weights, by name: whether two machines start from the same model."""
    summed = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        summed.update(name.encode())
        summed.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return summed.hexdigest()


def _tensors(model: Transformer, optimizer: torch.optim.Optimizer) -> dict[tuple[Any, ...], torch.Tensor]:
    found: dict[tuple[Any, ...], torch.Tensor] = {("model", name): tensor for name, tensor in model.state_dict().items()}
    for index, state in optimizer.state_dict()["state"].items():
        found |= {("optimizer", index, key): value for key, value in state.items() if isinstance(value, torch.Tensor)}
    return found


def end_with_parent(parent: int) -> None:
    """Have the kernel end this process with its parent; where it cannot, the end of standard input does."""

    def watch_input() -> None:
        while os.read(0, 4096):
            pass
        os._exit(1)

    threading.Thread(target=watch_input, daemon=True).start()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before the kernel was told
            os._exit(1)


def main(arguments: list[str]) -> int:
    """Train as the spec says. 0, or one of the exit codes of `plan` with the cause as the last line on standard error."""
    spec_path, parent = arguments
    end_with_parent(int(parent))
    try:
        spec = WorkerSpec.read(Path(spec_path))
        log = StepLog(Path(spec.log))
        Trainer(spec, log).run()
    except NoDevice as error:
        return _failed(plan.EXIT_NO_DEVICE, error)
    except NothingToResume as error:
        return _failed(plan.EXIT_NOTHING_TO_RESUME, error)
    except DamagedData as error:
        return _failed(plan.EXIT_DAMAGED_DATA, error)
    except (MemoryError, torch.OutOfMemoryError) as error:
        return _failed(plan.EXIT_OUT_OF_MEMORY, error)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return _failed(plan.EXIT_DISK_FULL, error)
        raise
    except RuntimeError as error:
        if "can't allocate memory" in str(error):  # torch's CPU allocator has no exception type of its own
            return _failed(plan.EXIT_OUT_OF_MEMORY, error)
        raise
    return 0


def _failed(code: int, error: BaseException) -> int:
    sys.stderr.write(f"{type(error).__name__}: {error}\n")
    return code


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
