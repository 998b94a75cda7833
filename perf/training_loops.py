"""One training loop in a separate process, a block of steps at a time: `python perf/training_loops.py LOOP spec.json`.

plumbline      the harness's own loop, as in a trial
bare           a minimal loop in plain PyTorch
hugging_face   `Trainer` of the package transformers

The last two share only the model, the token file and the workload's numbers with the first. Each line on standard input is a number of steps; each
answer is a line of JSON with the end times of those steps, in nanoseconds (on a GPU by its own events).
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from pathlib import Path
from time import monotonic_ns
from typing import IO, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "include"))

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from plumbline.harness.training import models
from plumbline.harness.training.worker_protocol import WorkerSpec


class Orders:
    """The requested blocks, and their answers."""

    def __init__(self, answers: IO[str]) -> None:
        self._answers = answers

    def __iter__(self) -> Iterator[int]:
        return (int(line) for line in iter(sys.stdin.readline, ""))

    def answer(self, ends: list[int]) -> None:
        self._answers.write(json.dumps(ends) + "\n")
        self._answers.flush()


class Ends:
    """End times of steps, without making a GPU wait."""

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._marks: list[Any] = []

    def mark(self) -> None:
        if self._cuda:
            event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            event.record()
            self._marks.append(event)
        else:
            self._marks.append(monotonic_ns())

    def taken(self) -> list[int]:
        marks, self._marks = self._marks, []
        if not self._cuda:
            return marks
        torch.cuda.synchronize()
        times = [0]
        for before, after in pairwise(marks):
            times.append(times[-1] + int(before.elapsed_time(after) * 1e6))
        return times


def plumbline(spec: WorkerSpec, device: torch.device, orders: Orders) -> None:
    """Our loop, including its log."""
    from plumbline.harness.training.worker.trainer import Trainer
    from plumbline.harness.training.worker_protocol import LogTail, StepLog

    trainer, tail, done = Trainer(spec, StepLog(Path(spec.log))), LogTail(Path(spec.log)), 0
    for count in orders:
        trainer.steps(done, done + count)
        done += count
        orders.answer([line["ns"] for line in tail.new() if line["event"] == "step"])


def bare(spec: WorkerSpec, device: torch.device, orders: Orders) -> None:
    model, tokens, random = built(spec, device), data(spec), np.random.default_rng(spec.seed)
    rate, decay, clip = (spec.optimizer[name] for name in ("learning_rate", "weight_decay", "clip"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=decay, fused=True)
    casting = torch.autocast(device.type, torch.bfloat16, enabled=spec.precision == "bf16")
    ends = Ends(device)
    for count in orders:
        for _ in range(count):
            for _ in range(spec.accumulation):
                starts = random.integers(0, len(tokens) - spec.sequence, size=spec.micro)
                rows = np.stack([tokens[start : start + spec.sequence + 1] for start in starts]).astype(np.int64)
                ids = torch.from_numpy(rows).to(device)
                with casting:
                    logits = model(ids[:, :-1])
                loss = F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten()) / spec.accumulation
                loss.backward()  # type: ignore[no-untyped-call]
            if clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            ends.mark()
        orders.answer(ends.taken())


def hugging_face(spec: WorkerSpec, device: torch.device, orders: Orders) -> None:
    """The same steps by `Trainer`, without logs and saves."""
    from transformers import Trainer, TrainerCallback, TrainingArguments

    tokens, ends, order_iterator = data(spec), Ends(device), iter(orders)

    class Windows(torch.utils.data.IterableDataset):  # type: ignore[type-arg]
        def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
            random = np.random.default_rng(spec.seed)
            while True:
                start = int(random.integers(0, len(tokens) - spec.sequence))
                yield {"ids": torch.from_numpy(tokens[start : start + spec.sequence + 1].astype(np.int64))}

    class WithLoss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = built(spec, device)

        def forward(self, ids: torch.Tensor) -> dict[str, torch.Tensor]:
            logits = self.model(ids[:, :-1])
            return {"loss": F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())}

    class InBlocks(TrainerCallback):  # type: ignore[misc]
        left = 0

        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if self.left == 0:
                if state.global_step:
                    orders.answer(ends.taken())
                self.left = next(order_iterator, 0)
                if self.left == 0:
                    os._exit(0)

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            ends.mark()
            self.left -= 1

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            max_steps=10**9,
            per_device_train_batch_size=spec.micro,
            gradient_accumulation_steps=spec.accumulation,
            learning_rate=spec.optimizer["learning_rate"],
            weight_decay=spec.optimizer["weight_decay"],
            max_grad_norm=spec.optimizer["clip"] or 0.0,
            optim="adamw_torch_fused",
            lr_scheduler_type="constant",
            bf16=spec.precision == "bf16",
            use_cpu=device.type == "cpu",
            logging_strategy="no",
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            remove_unused_columns=False,
            dataloader_pin_memory=device.type == "cuda",
            seed=spec.seed,
        )
        Trainer(WithLoss(), arguments, train_dataset=Windows(), callbacks=[InBlocks()]).train()


def built(spec: WorkerSpec, device: torch.device) -> nn.Module:
    """The common model."""
    model = models.build_model(spec.model).to(device)
    if spec.compile:
        for layer in models.repeated_layers(model):
            layer.compile()
    return model


def data(spec: WorkerSpec) -> Any:
    """The common token ids."""
    return np.memmap(spec.data.path, dtype=spec.data.dtype, mode="r", shape=(spec.data.count,))


def attention(kernel: str) -> AbstractContextManager[object]:
    """The declared attention kernel."""
    if kernel == "auto":
        return nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return sdpa_kernel({"math": SDPBackend.MATH, "flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION}[kernel])


LOOPS = {"plumbline": plumbline, "bare": bare, "hugging_face": hugging_face}


def main() -> None:
    """Serve blocks until standard input ends."""
    name, path = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries print to it
    spec = WorkerSpec.read(Path(path))
    torch.set_num_threads(spec.threads)
    device = torch.device(spec.device)
    with nullcontext() if name == "plumbline" else attention(spec.attention):
        LOOPS[name](spec, device, Orders(answers))


if __name__ == "__main__":
    main()
