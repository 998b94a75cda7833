"""How many processes train together, and how: what cannot be spread is refused before anything runs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from plumbline.declarations.workloads.training import Parallelism, TrainingWorkload


def job(**told: Any) -> Parallelism:
    return Parallelism.model_validate_json(json.dumps(told))


@pytest.mark.parametrize(
    ("told", "span", "replicas"),
    [
        ({}, 1, 1),
        ({"processes": 8}, 1, 8),
        ({"strategy": "fsdp", "processes": 8}, 8, 8),
        ({"strategy": "fsdp", "nodes": 2, "processes": 8}, 16, 16),
        ({"strategy": "fsdp", "nodes": 2, "processes": 8, "shard": 8}, 8, 16),
        ({"strategy": "fsdp", "nodes": 2, "processes": 8, "shard": 4, "tensor": 2}, 8, 8),
        ({"nodes": 2, "processes": 8, "tensor": 4}, 4, 4),
    ],
)
def test_how_many_hold_a_replica_and_how_many_see_data_of_their_own(told: dict[str, Any], span: int, replicas: int) -> None:
    assert (job(**told).span, job(**told).replicas) == (span, replicas)


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"strategy": "fsdp", "nodes": 3, "processes": 4, "shard": 6}, "6 processes hold a replica together and each node has 4"),
        ({"strategy": "fsdp", "processes": 4, "shard": 3}, "shard 3 does not divide the 4"),
        ({"processes": 4, "shard": 2}, "shard 2 with strategy ddp"),
        ({"processes": 4, "tensor": 3}, "tensor 3 does not divide"),
    ],
)
def test_what_cannot_be_spread_is_refused(told: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        job(**told)


LLAMA = {
    "kind": "training",
    "name": "tiny",
    "version": 1,
    "needs": {"accelerator": "nvidia", "count": 2},
    "model": {
        "architecture": "llama",
        "layers": 2,
        "width": 64,
        "heads": 4,
        "kv_heads": 2,
        "feed_forward": 96,
        "vocabulary": 64,
        "context": 16,
    },
    "data": {"source": "synthetic", "tokens": 4096},
    "batch": {"micro": 2, "sequence": 16},
    "precision": "bf16",
    "parallelism": {"processes": 2, "tensor": 2},
    "optimizer": {"name": "adamw", "learning_rate": 0.01},
    "steps": {"discard": 1, "measure": 5},
    "checkpoint": {"every": 1},
    "repeats": {"per_slot": 1, "slots": ["02:00"]},
}


def test_layers_are_split_but_not_those_with_adapters() -> None:
    assert TrainingWorkload.model_validate_json(json.dumps(LLAMA)).parallelism.tensor == 2
    lora = LLAMA | {"task": {"kind": "lora", "rank": 4, "alpha": 8}}
    with pytest.raises(ValidationError, match=r"parallelism\.tensor 2 .*lora"):
        TrainingWorkload.model_validate_json(json.dumps(lora))


def test_split_layers_have_no_fp8() -> None:
    fp8 = LLAMA | {"precision": "fp8", "needs": {"accelerator": "nvidia", "count": 2}}
    with pytest.raises(ValidationError, match=r"fp8 .*parallelism\.tensor 2"):
        TrainingWorkload.model_validate_json(json.dumps(fp8))
    alone = fp8 | {"parallelism": {"processes": 2}}
    assert TrainingWorkload.model_validate_json(json.dumps(alone)).precision == "fp8"
