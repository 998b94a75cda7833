"""After the last step: the final state is loaded into a fresh model and compared bit by bit; then the device's matmul rate."""

from __future__ import annotations

from dataclasses import replace
from time import monotonic_ns

import torch

from plumbline.harness.training.checkpoint.keeper import Keeper
from plumbline.harness.training.checkpoint.state import TrainingState
from plumbline.harness.training.device import matmul_flops, settler
from plumbline.harness.training.learners import learner_of
from plumbline.harness.training.models import weights_sha256
from plumbline.harness.training.optimizers import optimizer_of
from plumbline.harness.training.plan import WorkerSpec
from plumbline.harness.training.precision import Precision
from plumbline.harness.training.steplog import StepLog

_VERIFIED_LOADS = 3


def verify(spec: WorkerSpec, device: torch.device, keeper: Keeper, live: TrainingState, *, log: StepLog) -> None:
    """Load the newest checkpoint as a new process would and write down how long it took and whether it is the live state.

    Of sharded state all ranks do, each with its part. NothingToResume if it cannot be loaded.
    """
    settle, generators = settler(device), live.taken()["generators"]
    fresh = _fresh(spec, device)
    for _ in range(_VERIFIED_LOADS):
        for tensor in fresh.tensors().values():
            tensor.zero_()  # what the load before left must not pass for what this one brought
        cold = keeper.forgotten()
        began = monotonic_ns()
        step, _, checksum_s = keeper.load(fresh, str(device))
        settle()
        seconds = (monotonic_ns() - began) / 1e9 - checksum_s
        mine, other, drawn = live.tensors(), fresh.tensors(), fresh.taken()["generators"]
        same = mine.keys() == other.keys() and all(torch.equal(mine[key], other[key]) for key in mine)
        same = same and all(torch.equal(generators[key], drawn[key]) for key in generators)
        log.event("verified_load", seconds=seconds, equal=keeper.everywhere(same and step == spec.until), cold=keeper.everywhere(cold))


def describe(spec: WorkerSpec, device: torch.device, log: StepLog) -> None:
    """What rank 0 can say of the device and of the weights that it began with."""
    log.event("matmul", flops=matmul_flops(device, spec.precision))
    first = replace(spec, resume=False, group=None)
    log.event("weights", sha256=weights_sha256(learner_of(first, 0, 1).model))


def _fresh(spec: WorkerSpec, device: torch.device) -> TrainingState:
    """The state of a process that is about to resume."""
    spec = replace(spec, resume=True)
    learner, group = learner_of(spec, 0, 1), spec.group
    if group is not None and spec.sharded:
        from plumbline.harness.training.distributed import parallel_of

        parallel_of(spec, group, learner, device)
    model = learner.model.to(device)
    return TrainingState(model, optimizer_of(spec.optimizer, model.parameters()), Precision(spec.precision, device), device)
