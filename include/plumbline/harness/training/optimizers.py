"""Optimizers by their declaration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn


def optimizer_of(declared: Mapping[str, Any], parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """Over those of the parameters that learn; fused, since the unfused ones spend a step launching small kernels."""
    learning = [parameter for parameter in parameters if parameter.requires_grad]
    rate, decay = declared["learning_rate"], declared["weight_decay"]
    if declared["name"] == "sgd":
        return torch.optim.SGD(learning, lr=rate, weight_decay=decay, fused=True)
    return torch.optim.AdamW(learning, lr=rate, weight_decay=decay, fused=True)


def set_rate(optimizer: torch.optim.Optimizer, declared: Mapping[str, Any], step: int) -> None:
    """The learning rate of a step (counted from 0): rises linearly over the declared warm-up."""
    warmup = declared["warmup"]
    if step > warmup:
        return
    for group in optimizer.param_groups:
        group["lr"] = declared["learning_rate"] * min(1.0, (step + 1) / warmup) if warmup else declared["learning_rate"]
