"""The declared shapes of training: each in a size for a CPU, one GPU and eight, planned only where it fits."""

from __future__ import annotations

import pytest

from plumbline.declarations import load
from plumbline.declarations.installation import REPOSITORY
from plumbline.declarations.workloads.models import LlamaShape
from plumbline.declarations.workloads.training import TrainingWorkload

DECLARED = load(REPOSITORY / "include" / "config")
SHAPES = {
    "pretrain": "language_model",
    "finetune": "language_model",
    "lora": "lora",
    "embedding-refresh": "contrastive",
    "vision-retrain": "classification",
    "nightly": "language_model",
    "reinforcement": "reinforcement",
}
STANDARD = {"pretrain-1b-gpu", "pretrain-8b-8gpu"}
SIZES = {"-cpu": ("cpu", 1), "-gpu": ("nvidia", 1), "-8gpu": ("nvidia", 8)}


def of(shape: str, size: str) -> TrainingWorkload:
    """The one workload of a shape and size."""
    (found,) = (w for w in DECLARED.workloads.values() if w.kind == "training" and w.name.startswith(shape) and w.name.endswith(size))
    return found


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("shape", SHAPES)
def test_each_shape_has_each_size(shape: str, size: str) -> None:
    workload, (accelerator, processes) = of(shape, size), SIZES[size]
    assert workload.task.kind == SHAPES[shape]
    # Of the standard set, which both makers' GPUs train.
    kinds = {accelerator} if workload.name not in STANDARD else {accelerator, "gpu"}
    assert workload.needs.accelerator in kinds and workload.parallelism.world == processes
    assert workload.on_demand_only == (workload.name not in STANDARD) and workload.loss is not None
    assert workload.acceptance or accelerator != "cpu"


@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_planned_where_it_fits(shape: str) -> None:
    def runs(size: str, provider: str) -> bool:
        return of(shape, size) in DECLARED.workloads_for(DECLARED.providers[provider], "training")

    assert runs("-cpu", "local-2core") and not runs("-cpu", "local-1core")
    assert not runs("-gpu", "local-2core") and not runs("-8gpu", "local-2core")
    assert runs("-gpu", "example-eks-p5en") and runs("-8gpu", "example-eks-p5en") and not runs("-cpu", "example-eks-p5en")


def test_a_size_in_a_name_is_the_models() -> None:
    for workload in DECLARED.workloads.values():
        for size, parameters in (("-1b-", 1e9), ("-8b-", 8e9)):
            if workload.kind == "training" and size in workload.name:
                assert isinstance(workload.model, LlamaShape)
                assert 0.85 * parameters < workload.model.parameters < 1.15 * parameters


def test_fine_tuning_starts_from_stored_weights() -> None:
    for size in SIZES:
        task = of("finetune", size).task
        assert task.kind == "language_model" and task.initial == "stored" and task.response_share == 0.5
