"""The pages on training: their examples can be declared, every key is named, and so is every ready declaration."""

from __future__ import annotations

import json
import re
from typing import Any, get_args

import pytest
import yaml
from pydantic import BaseModel

from plumbline.declarations import load
from plumbline.declarations.installation import REPOSITORY
from plumbline.declarations.workloads.training import (
    Batch,
    Checkpoint,
    Fault,
    LossCheck,
    Optimizer,
    Parallelism,
    Steps,
    Task,
    TrainedModel,
    TrainingData,
    TrainingWorkload,
)
from plumbline.metrics import METRICS

WHOLE = (REPOSITORY / "docs" / "declare-a-workload.md").read_text(encoding="utf-8")
PAGE = WHOLE[WHOLE.index("## Training\n") : WHOLE.index("## Inference\n")]
RESULT = (REPOSITORY / "docs" / "read-a-training-result.md").read_text(encoding="utf-8")
BLOCKS = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
SHARED = ("architecture", "source", "kind", "version", "name", "description", "layers", "width", "heads", "vocabulary", "context")


def declared(**changed: Any) -> TrainingWorkload:
    return TrainingWorkload.model_validate_json(json.dumps(BLOCKS[0] | changed))


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: next(iter(block)))
def test_each_example_can_be_declared(block: dict[str, Any]) -> None:
    assert declared(**block)


@pytest.mark.parametrize("task", re.findall(r"\| `(\{kind: .*?\})` \|", PAGE))
def test_each_task_of_the_table_can_be_declared(task: str) -> None:
    wanted = yaml.safe_load(task)
    shapes = {
        "contrastive": {
            "model": {"architecture": "bert", "layers": 1, "width": 16, "heads": 2, "feed_forward": 32, "vocabulary": 64, "context": 128}
        },
        "classification": {
            "model": {
                "architecture": "vit",
                "layers": 1,
                "width": 16,
                "heads": 2,
                "feed_forward": 32,
                "image": 16,
                "patch": 8,
                "classes": 4,
            },
            "data": {"source": "images", "images": 64},
        },
        "reinforcement": {"batch": {"micro": 8, "sequence": 24}},
    }
    assert declared(task=wanted, **shapes.get(wanted["kind"], {})).task.kind == wanted["kind"]


def _union(kind: Any) -> tuple[type[BaseModel], ...]:
    return get_args(get_args(kind)[0])


def test_every_key_is_named() -> None:
    parts = (
        Batch,
        Checkpoint,
        LossCheck,
        Optimizer,
        Parallelism,
        Steps,
        *_union(Task),
        *_union(TrainingData),
        *_union(TrainedModel),
        *_union(Fault),
    )
    keys = {key for part in parts for key in part.model_fields} | set(TrainingWorkload.model_fields)
    text = PAGE + WHOLE[: WHOLE.index("## Training\n")]
    assert sorted(key for key in keys - set(SHARED) if not re.search(rf"\b{key}\b", text)) == []


def test_every_ready_shape_is_named() -> None:
    names = [name for name, workload in load().workloads.items() if workload.kind == "training" and workload.name != "drift-demo-cpu"]
    for name in names:
        size = re.sub(r"^(embedding-refresh|vision-retrain|nightly|reinforcement)", "", name)
        assert f"`{name}`" in PAGE or f"`{size}`" in PAGE or name.startswith("gpt-tiny"), name


def test_metrics_that_the_result_page_names_are_in_the_catalogue() -> None:
    tables = RESULT[: RESULT.index("## Reproducibility")]
    named = set(re.findall(r"`([a-z]+(?:_[a-z0-9]+)+)`", tables))
    stages = {"data_wait", "host_to_device", "gradient_sync", "cold_start", "step_time_trend"}
    others = {"checkpoint_restored_exactly", "pod_delete", "checksum_s"}  # a check, a fault, a column of steps.parquet
    assert sorted(named - set(METRICS) - stages - others) == []
