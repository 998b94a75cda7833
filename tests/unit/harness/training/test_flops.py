"""Model arithmetic, against the module's own weights and torch's own count."""

from __future__ import annotations

import torch
from torch.utils.flop_counter import FlopCounterMode

from plumbline.declarations.architectures import TransformerShape
from plumbline.harness.training.flops import forward_flops_per_token
from plumbline.harness.training.models import build

SHAPE = TransformerShape(architecture="gpt", layers=3, width=48, heads=4, vocabulary=300, context=32)


def test_matmul_parameters_are_the_weights_of_the_linear_layers() -> None:
    model = build(SHAPE.model_dump(mode="json"))
    assert SHAPE.matmul_parameters == sum(m.weight.numel() for m in model.modules() if isinstance(m, torch.nn.Linear))


def test_agrees_with_torch_but_for_what_the_causal_mask_hides() -> None:
    model, sequence = build(SHAPE.model_dump(mode="json")), 32
    with FlopCounterMode(display=False) as counter, torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        model(torch.zeros(2, sequence, dtype=torch.int64)).sum().backward()
    # torch counts all sequence² pairs of the attention; the model needs (sequence + 1) / 2 keys a query.
    hidden = 6.0 * SHAPE.layers * SHAPE.width * (sequence - 1)
    assert counter.get_total_flops() / (2 * sequence) == 3 * forward_flops_per_token(SHAPE, sequence) + hidden
