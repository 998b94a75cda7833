"""Model arithmetic, against the module's own weights and torch's own count of a step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from plumbline.declarations.workloads.models import LlamaShape, TransformerShape
from plumbline.declarations.workloads.script import ScriptWorkload
from plumbline.declarations.workloads.training import TrainingWorkload
from plumbline.harness.training.dataset.preparation import prepare_inputs
from plumbline.harness.training.learners import Learner, build_learner
from plumbline.harness.training.models import build_model
from plumbline.harness.training.plan import undisturbed_spec
from plumbline.kinds.arithmetic.flops import flops_per_step, forward_flops_per_token, script_flops, script_flops_per_step

SHAPE = TransformerShape(architecture="gpt", layers=3, width=48, heads=4, vocabulary=300, context=32)
GPT: dict[str, Any] = {"architecture": "gpt", "layers": 3, "width": 48, "heads": 4, "vocabulary": 300, "context": 32}
LLAMA: dict[str, Any] = {
    "architecture": "llama",
    "layers": 3,
    "width": 64,
    "heads": 4,
    "kv_heads": 2,
    "feed_forward": 96,
    "vocabulary": 300,
    "context": 32,
}
BERT: dict[str, Any] = {
    "architecture": "bert",
    "layers": 3,
    "width": 48,
    "heads": 4,
    "feed_forward": 80,
    "vocabulary": 300,
    "context": 32,
}
VIT: dict[str, Any] = {
    "architecture": "vit",
    "layers": 3,
    "width": 48,
    "heads": 4,
    "feed_forward": 80,
    "image": 16,
    "patch": 4,
    "classes": 7,
}
SEQUENCE = 16


def workload_of(model: dict[str, Any], task: dict[str, Any], batch: dict[str, int]) -> TrainingWorkload:
    images = task["kind"] == "classification"
    told = {
        "kind": "training",
        "name": "counted",
        "version": 1,
        "needs": {"accelerator": "cpu"},
        "model": model,
        "task": task,
        "data": {"source": "images", "images": 64} if images else {"source": "synthetic", "tokens": 4096},
        "batch": batch,
        "precision": "fp32",
        "optimizer": {"name": "sgd", "learning_rate": 0.1},
        "steps": {"discard": 1, "measure": 5},
        "checkpoint": {"every": 5},
        "repeats": {"per_slot": 1, "slots": ["02:00"]},
    }
    return TrainingWorkload.model_validate_json(json.dumps(told))


def learner_for(workload: TrainingWorkload, folder: Path) -> Learner:
    return build_learner(undisturbed_spec(workload, prepare_inputs(workload, folder), folder, device="cpu"), 0, 1)


def counted(learner: Learner) -> tuple[int, int]:
    """What torch counts: of preparing the samples of a step, and of its forward and backward pass."""
    samples = learner.batch(0)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        with FlopCounterMode(display=False) as preparing:
            samples = learner.prepared(learner.model, samples)
        with FlopCounterMode(display=False) as learning:
            learner.loss(learner.model, samples).backward()  # type: ignore[no-untyped-call]
    return preparing.get_total_flops(), learning.get_total_flops()


def hidden(model: dict[str, Any], positions: int) -> float:
    """What torch counts of one causal sequence's forward pass beside the model's own: keys behind the mask."""
    return 2.0 * model["layers"] * model["width"] * (positions - 1) * positions


def test_matmul_parameters_are_the_weights_of_the_linear_layers() -> None:
    model = build_model(SHAPE.model_dump(mode="json"))
    assert SHAPE.matmul_parameters == sum(m.weight.numel() for m in model.modules() if isinstance(m, torch.nn.Linear))


def test_agrees_with_torch_but_for_what_the_causal_mask_hides() -> None:
    model, sequence = build_model(SHAPE.model_dump(mode="json")), 32
    with FlopCounterMode(display=False) as counter, torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        model(torch.zeros(2, sequence, dtype=torch.int64)).sum().backward()
    # torch counts all sequence² pairs of the attention; the model needs (sequence + 1) / 2 keys a query.
    hidden = 6.0 * SHAPE.layers * SHAPE.width * (sequence - 1)
    assert counter.get_total_flops() / (2 * sequence) == 3 * forward_flops_per_token(SHAPE, sequence) + hidden


@pytest.mark.parametrize("model", [GPT, LLAMA], ids=lambda model: model["architecture"])
def test_a_language_models_step(tmp_path: Path, model: dict[str, Any]) -> None:
    workload = workload_of(model, {"kind": "language_model"}, {"micro": 2, "accumulation": 1, "sequence": SEQUENCE})
    _, step = counted(learner_for(workload, tmp_path))
    assert step == (flops_per_step(workload) or 0) + 2 * 3 * hidden(model, SEQUENCE)


@pytest.mark.parametrize(
    "targets", [pytest.param(["query", "value"], marks=pytest.mark.full), ["query", "key", "value", "output", "feed_forward"]]
)
def test_loras_step(tmp_path: Path, targets: list[str]) -> None:
    workload = workload_of(LLAMA, {"kind": "lora", "rank": 4, "alpha": 8, "targets": targets}, {"micro": 2, "sequence": SEQUENCE})
    _, step = counted(learner_for(workload, tmp_path))
    # Nobody asks for the gradient of the embedded tokens: the first layer's projections are spared theirs, and its adapters too.
    shape = LlamaShape.model_validate(LLAMA)
    first = shape.width * (shape.width + 2 * shape.width // shape.heads * shape.kv_heads)
    first += 4 * shape.width * len({"query", "key", "value"} & set(targets))
    spared = 2.0 * 2 * SEQUENCE * first
    if "key" not in targets:  # and then the first layer's keys depend on nothing that learns
        spared += 2.0 * 2 * SEQUENCE**2 * shape.width
    assert step == (flops_per_step(workload) or 0) + 2 * 3 * hidden(LLAMA, SEQUENCE) - spared


def test_an_encoders_step(tmp_path: Path) -> None:
    workload = workload_of(BERT, {"kind": "contrastive"}, {"micro": 2, "sequence": SEQUENCE})
    _, step = counted(learner_for(workload, tmp_path))
    likeness = 3 * 2.0 * 2 * 2 * BERT["width"]  # between the texts, not the model's
    assert step == (flops_per_step(workload) or 0) + likeness


def test_an_image_models_step(tmp_path: Path) -> None:
    workload = workload_of(VIT, {"kind": "classification"}, {"micro": 2})
    _, step = counted(learner_for(workload, tmp_path))
    assert step == flops_per_step(workload)


def test_reinforcements_step(tmp_path: Path) -> None:
    task = {"kind": "reinforcement", "prompt": 4, "generate": SEQUENCE - 4, "group": 2}
    workload = workload_of(LLAMA, task, {"micro": 2, "sequence": SEQUENCE})
    generation, update = counted(learner_for(workload, tmp_path))
    read = SEQUENCE - 1
    # A token that is generated sees no key behind a mask; those of the prompt do.
    more = 2 * hidden(LLAMA, 4) + 2 * 3 * hidden(LLAMA, read)
    assert generation + update == (flops_per_step(workload) or 0) + more


def test_nobody_knows_the_arithmetic_of_a_hub_model(tmp_path: Path) -> None:
    hub = {"architecture": "hub", "id": "team/model", "revision": "0" * 40}
    assert flops_per_step(workload_of(hub, {"kind": "language_model"}, {"micro": 2, "sequence": SEQUENCE})) is None


def test_full_attention_counts_what_the_mask_hides() -> None:
    """As torchtitan and NVIDIA's recipes publish it: 6 N + 12 layers · width · sequence a token, forward and backward."""
    per_token = 3 * forward_flops_per_token(SHAPE, 32, full_attention=True)
    assert per_token == 6 * SHAPE.matmul_parameters + 12 * SHAPE.layers * SHAPE.width * 32
    assert per_token > 3 * forward_flops_per_token(SHAPE, 32)


@pytest.mark.parametrize("model", [GPT, LLAMA])
def test_a_script_of_a_declared_shape_is_counted_as_our_own_loop_is(model: dict[str, Any]) -> None:
    own = workload_of(model, {"kind": "language_model"}, {"micro": 2, "sequence": SEQUENCE})
    tokens = 2.0 * SEQUENCE

    def script(**work: Any) -> ScriptWorkload:
        report = {"format": "jsonl", "loss": "loss"}
        task = {"kind": "script", "command": ["train"], "folder": "/app", "report": report}
        declared = {**own.model_dump(mode="json", include={"kind", "name", "version", "needs", "steps", "repeats"}), "task": task}
        return ScriptWorkload.model_validate_json(json.dumps({**declared, "work": work}))

    assert script_flops_per_step(script(tokens=tokens, shape=model, sequence=SEQUENCE)) == flops_per_step(own)
    assert script_flops_per_step(script(samples=2, shape=model, sequence=SEQUENCE)) == flops_per_step(own)
    assert (script_flops_per_step(script(tokens=tokens, shape=model)) or 0) > (flops_per_step(own) or 0), "of the whole context"
    assert script_flops(script(shape=model)) and script_flops_per_step(script(shape=model)) is None, "its work is reported"
    assert script_flops_per_step(script(tokens=tokens)) is None
