"""After the last step: the final state is loaded into a fresh model and compared bit by bit; then the device's matmul rate."""

from __future__ import annotations

from pathlib import Path
from time import monotonic_ns
from typing import Any

import torch
from torch import nn

from plumbline.harness.training import checkpoint
from plumbline.harness.training.device import matmul_flops, settler
from plumbline.harness.training.learners import learner_of
from plumbline.harness.training.models import weights_sha256
from plumbline.harness.training.optimizers import optimizer_of
from plumbline.harness.training.plan import WorkerSpec
from plumbline.harness.training.steplog import StepLog

_VERIFIED_LOADS = 3
_MATMUL_SECONDS = 0.3


def close(spec: WorkerSpec, device: torch.device, model: nn.Module, optimizer: torch.optim.Optimizer, log: StepLog) -> None:
    """Write down what the closing checks of rank 0 find. Damaged if the newest checkpoint cannot be loaded."""
    folder, settle = Path(spec.checkpoint_folder), settler(device)
    for _ in range(_VERIFIED_LOADS):
        fresh = learner_of(spec, 0, 1).model.to(device)
        fresh_optimizer = optimizer_of(spec.optimizer, fresh.parameters())
        began = monotonic_ns()
        loaded = checkpoint.load_newest(folder, str(device))
        if loaded is None:
            raise checkpoint.Damaged(f"the checkpoint just written to {folder.name} cannot be loaded")
        fresh.load_state_dict(loaded.state["model"])
        fresh_optimizer.load_state_dict(loaded.state["optimizer"])
        settle()
        seconds = (monotonic_ns() - began) / 1e9
        mine, other = _tensors(model, optimizer), _tensors(fresh, fresh_optimizer)
        same = mine.keys() == other.keys() and all(torch.equal(mine[key], other[key]) for key in mine)
        log.event("verified_load", seconds=seconds, equal=loaded.step == spec.until and same)
    log.event("matmul", flops=matmul_flops(device, spec.precision, _MATMUL_SECONDS))
    log.event("weights", sha256=weights_sha256(learner_of(spec, 0, 1).model))


def _tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[tuple[Any, ...], torch.Tensor]:
    """Every tensor of the training state by where it stands: two states are one if these are equal."""
    found: dict[tuple[Any, ...], torch.Tensor] = {("model", name): tensor for name, tensor in model.state_dict().items()}
    for index, state in optimizer.state_dict()["state"].items():
        found |= {("optimizer", index, key): value for key, value in state.items() if isinstance(value, torch.Tensor)}
    return found
