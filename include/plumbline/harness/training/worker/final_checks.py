"""After the last step: load the checkpoint into a fresh model and compare it bit by bit; measure the device's matmul rate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import monotonic_ns

import torch

from plumbline.harness.training.checkpoint.manager import CheckpointManager, TrainingState
from plumbline.harness.training.learners import Learner, build_learner
from plumbline.harness.training.models import weights_sha256
from plumbline.harness.training.worker.device import matmul_flops, synchronizer
from plumbline.harness.training.worker.torch_setup import Precision, build_optimizer
from plumbline.harness.training.worker_protocol import StepLog, WorkerSpec

_VERIFIED_LOADS = 3
Spread = Callable[[WorkerSpec, Learner], object]


def verify_checkpoint(
    spec: WorkerSpec, device: torch.device, keeper: CheckpointManager, live: TrainingState, spread: Spread | None, *, log: StepLog
) -> None:
    """Load the newest checkpoint as a new process would and write down how long it took and whether it is the live state.

    `spread` puts a model in its ranks, of which each loads its part; None where one process holds all. NothingToResume if it cannot be loaded.
    """
    settle, generators = synchronizer(device), live.taken()["generators"]
    fresh = _fresh_state(spec, device, spread)
    for _ in range(_VERIFIED_LOADS):
        for tensor in fresh.tensors().values():
            tensor.zero_()  # what the load before left must not pass for what this one brought
        cold = keeper.evict_from_page_cache()
        began = monotonic_ns()
        loaded = keeper.load(fresh, str(device))
        settle()
        seconds = (monotonic_ns() - began) / 1e9 - loaded.checksum_s
        mine, other, drawn = live.tensors(), fresh.tensors(), fresh.taken()["generators"]
        same = mine.keys() == other.keys() and all(torch.equal(mine[key], other[key]) for key in mine)
        same = same and all(torch.equal(generators[key], drawn[key]) for key in generators)
        log.event(
            "verified_load", seconds=seconds, equal=keeper.on_all_ranks(same and loaded.step == spec.until), cold=keeper.on_all_ranks(cold)
        )


def log_device_and_weights(spec: WorkerSpec, device: torch.device, log: StepLog) -> None:
    """What rank 0 can say of the device and of the weights that it began with."""
    log.event("matmul", flops=matmul_flops(device, spec.precision))
    first = replace(spec, resume=False, group=None)
    log.event("weights", sha256=weights_sha256(build_learner(first, 0, 1).model))


def _fresh_state(spec: WorkerSpec, device: torch.device, spread: Spread | None) -> TrainingState:
    spec = replace(spec, resume=True)
    learner = build_learner(spec, 0, 1)
    if spread is not None:
        spread(spec, learner)
    model = learner.model.to(device)
    return TrainingState(model, build_optimizer(spec.optimizer, model.parameters()), Precision(spec.precision, device), device)
