"""A tiny workload, and records of runs as a worker would have left them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from plumbline.declarations.workloads.training import TrainingWorkload
from plumbline.harness.training.analysis.records import TrainingIncident, TrainingRecords
from plumbline.harness.training.plan import plan_fault
from plumbline.harness.training.worker_protocol import CheckpointSave, RunRecord, StageName, Step

TINY: dict[str, Any] = {
    "kind": "training",
    "name": "tiny",
    "version": 1,
    "needs": {"accelerator": "cpu"},
    "model": {"architecture": "gpt", "layers": 2, "width": 16, "heads": 2, "vocabulary": 64, "context": 16, "seed": 3},
    "data": {"source": "synthetic", "tokens": 4096, "seed": 5},
    "batch": {"micro": 2, "accumulation": 2, "sequence": 16},
    "precision": "fp32",
    "optimizer": {"name": "adamw", "learning_rate": 0.001},
    "steps": {"discard": 2, "measure": 10},
    "checkpoint": {"every": 4, "keep": 1},
    "fault": {"inject": "rank_kill", "at_step": 6},
    "repeats": {"per_slot": 1, "slots": ["02:00"]},
}


@pytest.fixture
def tiny() -> Callable[..., TrainingWorkload]:
    """The tiny workload with some keys replaced."""
    return lambda **changed: TrainingWorkload.model_validate_json(json.dumps(TINY | changed))


def a_step(number: int, start_s: float, step_s: float = 0.1, loss: float | None = None) -> Step:
    """A step of which half is backward."""
    parts: dict[StageName, float] = {
        "data_wait": 0.1 * step_s,
        "forward": 0.3 * step_s,
        "backward": 0.5 * step_s,
        "optimizer": 0.1 * step_s,
    }
    return Step(number, start_s, start_s + step_s, parts, loss=5.0 - number / 10 if loss is None else loss)


@pytest.fixture
def records(tiny: Callable[..., TrainingWorkload]) -> TrainingRecords:
    """A whole trial of the tiny workload: 0.1 s a step, killed at second 30, a restart of 1 s launch and 0.5 s load."""
    found = TrainingRecords(plan_fault(tiny()), data_sha256="a" * 64)
    run = RunRecord(launched_s=9.0, steps=[a_step(i, 10.0 + 0.1 * i) for i in range(12)], restored_exactly=True)
    run.saves = [CheckpointSave(step, 10.0 + 0.1 * step + 0.02, 0.02, 0.02, 1000, closing=False) for step in (4, 8, 12)]
    run.verified_loads_s, run.matmul_flops, run.weights_sha256 = [0.01, 0.02, 0.03], 1e12, "b" * 64
    run.facts = {"torch.threads": 2}
    fault = RunRecord(20.0, at={"load_begin": 29.0, "load_end": 29.5}, steps=[a_step(4, 29.5), a_step(5, 29.6)])
    recovery = RunRecord(
        30.2, at={"load_begin": 31.2, "load_end": 31.7, "done": 32.2}, steps=[a_step(i, 31.3 + 0.1 * i) for i in range(4, 8)]
    )
    recovery.saves = [CheckpointSave(8, 32.15, 0.05, 0.05, 1000, closing=False)]
    found.runs = {"run": run, "fault": fault, "recovery": recovery}
    found.incidents = [TrainingIncident("fault", "rank_kill", began_s=30.0, noticed_s=30.2, step=6)]
    return found
