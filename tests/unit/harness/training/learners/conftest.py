"""Learners of tiny workloads, and a plain loop that trains them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from plumbline.declarations.workloads.training import TrainingWorkload
from plumbline.harness.training.dataset.preparation import prepare_inputs
from plumbline.harness.training.learners import Learner, build_learner
from plumbline.harness.training.plan import undisturbed_spec
from plumbline.harness.training.worker_protocol import WorkerSpec

LLAMA = {"architecture": "llama", "layers": 2, "width": 64, "heads": 4, "kv_heads": 2, "feed_forward": 96, "vocabulary": 64, "context": 32}
BASE: dict[str, Any] = {
    "kind": "training",
    "name": "tiny",
    "version": 1,
    "needs": {"accelerator": "cpu"},
    "model": LLAMA,
    "data": {"source": "synthetic", "tokens": 20_000, "seed": 5},
    "batch": {"micro": 8, "accumulation": 1, "sequence": 16},
    "precision": "fp32",
    "optimizer": {"name": "adamw", "learning_rate": 0.003},
    "steps": {"discard": 2, "measure": 10},
    "checkpoint": {"every": 4},
    "repeats": {"per_slot": 1, "slots": ["02:00"]},
}
OrdersOf = Callable[..., WorkerSpec]


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """One thread: on a busy machine several would wait for each other longer than these models take."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def written_weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Initial weights that earlier tests wrote: another process writes them, which takes seconds."""
    return tmp_path_factory.mktemp("weights")


@pytest.fixture
def orders_of(tmp_path: Path, written_weights: Path) -> OrdersOf:
    """Orders for the tiny workload with some keys replaced; whatever it reads is prepared."""

    def make(**changed: Any) -> WorkerSpec:
        workload = TrainingWorkload.model_validate_json(json.dumps(BASE | changed))
        weights = tmp_path / "training-weights"
        if not weights.exists():
            shutil.copytree(written_weights, weights)
        data = prepare_inputs(workload, tmp_path)
        shutil.copytree(weights, written_weights, dirs_exist_ok=True)
        return undisturbed_spec(workload, data, tmp_path, device="cpu")

    return make


def losses(learner: Learner, steps: int, rate: float = 0.003, first: int = 0) -> list[float]:
    """The losses of a plain loop."""
    optimizer = torch.optim.AdamW([p for p in learner.model.parameters() if p.requires_grad], lr=rate)
    found = []
    for step in range(first, first + steps):
        samples = learner.prepared(learner.model, learner.batch(step))
        loss = learner.loss(learner.model, samples)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    return found


@pytest.fixture
def learned(orders_of: OrdersOf) -> Callable[..., tuple[Learner, list[float]]]:
    """A learner of the tiny workload with some keys replaced, and its losses over some steps."""

    def run(steps: int, rate: float = 0.003, **changed: Any) -> tuple[Learner, list[float]]:
        learner = build_learner(orders_of(**changed), 0, 1)
        return learner, losses(learner, steps, rate)

    return run
