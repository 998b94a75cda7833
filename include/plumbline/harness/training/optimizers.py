"""Optimizers by their declaration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn


def optimizer_of(declared: Mapping[str, Any], parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """Over those of the parameters that learn; fused, since the unfused ones spend a step launching small kernels."""
    learning: list[Any] = [{"params": some} for some in _by_mesh(parameter for parameter in parameters if parameter.requires_grad)]
    rate, decay = declared["learning_rate"], declared["weight_decay"]
    if declared["name"] == "sgd":
        return torch.optim.SGD(learning, lr=rate, weight_decay=decay, fused=True)
    return torch.optim.AdamW(learning, lr=rate, weight_decay=decay, fused=True)


def clip_gradients(optimizer: torch.optim.Optimizer, limit: float) -> None:
    """Scale all gradients down to a common norm of at most `limit`, over the whole model wherever its parts are."""
    groups: list[list[nn.Parameter]] = [group["params"] for group in optimizer.param_groups]
    norms = [torch.nn.utils.get_total_norm([parameter.grad for parameter in group if parameter.grad is not None]) for group in groups]
    # A sharded norm is summed up over its ranks by its method, as its class would have to be imported for `isinstance`.
    whole = [getattr(norm, "full_tensor", lambda norm=norm: norm)() for norm in norms]
    total = whole[0] if len(whole) == 1 else torch.linalg.vector_norm(torch.stack(whole))
    for group in groups:
        torch.nn.utils.clip_grads_with_norm_(group, limit, total)


def _by_mesh(parameters: Iterable[nn.Parameter]) -> list[list[nn.Parameter]]:
    """Parameters by the ranks that they are spread over: one fused kernel takes those of one kind."""
    groups: dict[Any, list[nn.Parameter]] = {}
    for parameter in parameters:
        groups.setdefault(getattr(parameter, "device_mesh", None), []).append(parameter)
    return list(groups.values())


def set_rate(optimizer: torch.optim.Optimizer, declared: Mapping[str, Any], step: int) -> None:
    """The learning rate of a step (counted from 0): rises linearly over the declared warm-up."""
    warmup = declared["warmup"]
    if step > warmup:
        return
    for group in optimizer.param_groups:
        group["lr"] = declared["learning_rate"] * min(1.0, (step + 1) / warmup) if warmup else declared["learning_rate"]
