"""The harness's count of a step's arithmetic against torch's own, on a small model of each architecture."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from plumbline.declarations.training import TrainingWorkload
from plumbline.harness.selfcheck.architectures import ARCHITECTURES
from plumbline.harness.selfcheck.lines import compared, not_applicable
from plumbline.harness.training import dataset
from plumbline.harness.training.flops import flops_per_step
from plumbline.harness.training.learners import learner_of
from plumbline.harness.training.plan import undisturbed
from plumbline.results import CheckLine

_SHARE = 0.001
_SEQUENCE, _SAMPLES = 16, 2
_TEXT: dict[str, Any] = {"layers": 2, "width": 64, "heads": 4, "vocabulary": 128, "context": 32}
_MODELS: dict[str, tuple[dict[str, Any], str]] = {
    "gpt": (_TEXT, "language_model"),
    "llama": (_TEXT | {"kv_heads": 2, "feed_forward": 96}, "language_model"),
    "bert": (_TEXT | {"feed_forward": 96}, "contrastive"),
    "vit": ({"layers": 2, "width": 64, "heads": 4, "feed_forward": 96, "image": 16, "patch": 4, "classes": 7}, "classification"),
}
"""By architecture: dimensions, and the task that trains it."""

Counter = Callable[[TrainingWorkload], float | None]


def lines(folder: Path, architectures: Collection[str] = ARCHITECTURES, count: Counter = flops_per_step) -> list[CheckLine]:
    """A line for each of the architectures. `count`: floating-point operations of an optimizer step; the harness's own if left out."""
    torch.set_num_threads(1)
    return [_line(architecture, *_MODELS[architecture], folder, count) for architecture in ARCHITECTURES if architecture in architectures]


def _line(architecture: str, shape: dict[str, Any], task: str, folder: Path, count: Counter) -> CheckLine:
    workload = _workload(architecture, shape, task)
    own = count(workload)
    if own is None:
        return not_applicable("counted_flops", "the harness does not count this architecture", of=architecture)
    learner = learner_of(undisturbed(workload, dataset.prepare(workload, folder), folder, device="cpu"), 0, 1)
    samples = learner.prepared(learner.model, learner.batch(0))
    # torch counts a fused attention by its own rule; of the plain one it sees each product.
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        learner.loss(learner.model, samples).backward()  # type: ignore[no-untyped-call]
    beside, what = _beside_the_model(shape, task)
    expected = float(counter.get_total_flops()) - beside
    reason = f"FLOPs of a step of a small {architecture}, expected by torch's FlopCounterMode{what}"
    return compared("counted_flops", own, expected, _SHARE * expected, "FLOP", reason, of=architecture)


def _beside_the_model(shape: dict[str, Any], task: str) -> tuple[float, str]:
    """What torch counts and the model does not ask for: (FLOPs of a step, in words)."""
    if task == "language_model":
        pairs = (_SEQUENCE - 1) * _SEQUENCE
        return 3 * _SAMPLES * 2.0 * shape["layers"] * shape["width"] * pairs, " less the keys behind the causal mask"
    if task == "contrastive":
        return 3 * 2.0 * _SAMPLES * _SAMPLES * shape["width"], " less the likeness between the texts"
    return 0.0, ""


def _workload(architecture: str, shape: dict[str, Any], task: str) -> TrainingWorkload:
    images = task == "classification"
    declared = {
        "kind": "training",
        "name": "counted",
        "version": 1,
        "needs": {"accelerator": "cpu"},
        "model": {"architecture": architecture, **shape},
        "task": {"kind": task},
        "data": {"source": "images", "images": 64} if images else {"source": "synthetic", "tokens": 4096},
        "batch": {"micro": _SAMPLES} if images else {"micro": _SAMPLES, "sequence": _SEQUENCE},
        "precision": "fp32",
        "optimizer": {"name": "sgd", "learning_rate": 0.1},
        "steps": {"discard": 1, "measure": 5},
        "checkpoint": {"every": 5},
        "repeats": {"per_slot": 1, "slots": ["02:00"]},
    }
    return TrainingWorkload.model_validate_json(json.dumps(declared))
