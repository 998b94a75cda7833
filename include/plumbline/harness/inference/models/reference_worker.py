"""What a model answers in the reference precision: `python -m plumbline.harness.inference.models.reference_worker`, JSON in, JSON out.

It runs in a process of its own, which is gone before the load begins: neither torch nor the weights stay beside the client.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
from torch import Tensor

from plumbline.harness.inference.load.model_wires import image_patches
from plumbline.harness.inference.models import encoder, transformer
from plumbline.harness.inference.models.precision import in_precision

_AT_ONCE = 16


def continuations(model: transformer.Transformer, prompts: list[Tensor], tokens: int) -> list[list[int]]:
    """The next `tokens` tokens after each of the prompts (at most as many as the model has rows), each generated from the ones before."""
    for prompt in prompts:
        model.admit(prompt)
    budget = sum(map(len, prompts))
    steps = torch.stack([model.step(budget) for _ in range(tokens)])
    for row in reversed(range(len(prompts))):
        model.release(row)
    answers: list[list[int]] = steps.T.tolist()
    return answers


@torch.inference_mode()
def outputs(model: encoder.Encoder, prompts: list[Tensor], device: str) -> list[list[float]]:
    """The vector or the score of each prompt."""
    return [model(prompt[None].to(device))[0].float().tolist() for prompt in prompts]


def answers(question: dict[str, Any]) -> list[list[int]] | list[list[float]]:
    """`question`: the model's declaration as `shape`, `precision`, `device`, `threads`, `prompts` (lists of ids) and for a causal LM `tokens`."""
    torch.set_num_threads(question["threads"])
    shape, device = question["shape"], question["device"]
    prompts = [torch.tensor(ids, dtype=torch.long) for ids in question["prompts"]]
    if shape.get("task") == "vision":
        prompts = [torch.from_numpy(image_patches(ids.numpy().astype("int32"))) for ids in prompts]
    dimensions = {key: shape[key] for key in ("layers", "width", "heads", "vocabulary", "context")}
    if shape["architecture"] == "encoder":
        embedding = encoder.seeded(shape["seed"], device, task=shape["task"], **dimensions)
        return outputs(in_precision(embedding, question["precision"]), prompts, device)  # type: ignore[arg-type]
    model: Any = in_precision(transformer.seeded(shape["seed"], device, **dimensions), question["precision"])
    model.reserve(_AT_ONCE)
    groups = [prompts[i : i + _AT_ONCE] for i in range(0, len(prompts), _AT_ONCE)]
    return [answer for group in groups for answer in continuations(model, group, question["tokens"])]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(answers(json.load(sys.stdin))))
