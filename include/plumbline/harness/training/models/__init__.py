"""The models that are trained, by their declared dimensions and seed: same seed, same weights, on every machine.

    gpt      our own decoder: nothing but torch, so its process starts fast
    llama, bert, vit   by the configurations of `transformers`
    hub      by a configuration and weights of the Hugging Face hub

Causal LMs take token ids (batch, sequence) int64 and give logits (batch, sequence, vocabulary).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, cast

import torch
from torch import nn


def build(shape: Mapping[str, Any], *, attention: str = "auto") -> nn.Module:
    """The model of a declared shape with weights drawn from its `seed`, fp32, on the CPU."""
    torch.manual_seed(shape["seed"])
    model: nn.Module = import_module(f"{__name__}.{shape['architecture']}").build(shape, attention)
    return model


def layers(model: nn.Module) -> Sequence[nn.Module]:
    """The model's repeated layers, in their order."""
    found = next(child for child in model.modules() if isinstance(child, nn.ModuleList))
    return cast(Sequence[nn.Module], found)


def weights_sha256(model: nn.Module) -> str:
    """SHA-256 of all weights, by name: whether two machines start from the same model."""
    summed = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        summed.update(name.encode())
        summed.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return summed.hexdigest()
