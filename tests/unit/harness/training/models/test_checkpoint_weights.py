"""Weights that are not drawn: everything else of the model is as if they were."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from plumbline.harness.training import models

GPT = {"architecture": "gpt", "layers": 1, "width": 16, "heads": 2, "vocabulary": 32, "context": 8, "seed": 3}
LLAMA = {**GPT, "architecture": "llama", "kv_heads": 1, "feed_forward": 32}
BERT = {**GPT, "architecture": "bert", "feed_forward": 32}
VIT = {"architecture": "vit", "layers": 1, "width": 16, "heads": 2, "feed_forward": 32, "image": 16, "patch": 8, "classes": 4, "seed": 3}


@pytest.mark.parametrize("shape", [GPT, LLAMA, BERT, VIT], ids=lambda shape: str(shape["architecture"]))
def test_names_shapes_and_buffers_are_those_of_a_drawn_model_and_no_matrix_is_drawn(
    monkeypatch: pytest.MonkeyPatch, shape: dict[str, Any]
) -> None:
    drawn, plain = list[int](), torch.Tensor.normal_

    def counted(tensor: torch.Tensor, *arguments: Any, **named: Any) -> torch.Tensor:
        drawn.append(tensor.numel())
        return plain(tensor, *arguments, **named)

    monkeypatch.setattr(torch.Tensor, "normal_", counted)
    full = models.build_model(shape)
    assert max(drawn) >= 16 * 16
    drawn.clear()
    bare = models.build_model(shape, draws=False)
    assert max(drawn, default=0) < 16 * 16  # transformers draws a ViT's positions and class token as plain tensors
    assert [(name, p.shape, p.dtype) for name, p in bare.named_parameters()] == [
        (name, p.shape, p.dtype) for name, p in full.named_parameters()
    ]
    buffers = dict(full.named_buffers())
    assert dict(bare.named_buffers()).keys() == buffers.keys()
    assert all(torch.equal(tensor, buffers[name]) for name, tensor in bare.named_buffers())


@pytest.mark.parametrize("shape", [GPT, LLAMA, BERT, VIT], ids=lambda shape: str(shape["architecture"]))
def test_each_weight_is_drawn_once_and_none_is_left_out(monkeypatch: pytest.MonkeyPatch, shape: dict[str, Any]) -> None:
    def overwritten(*_: Any, **__: Any) -> torch.Tensor:
        raise AssertionError("a linear layer drew values that are drawn again")

    monkeypatch.setattr(torch.Tensor, "uniform_", overwritten)
    torch.use_deterministic_algorithms(True)  # memory that was never written is NaN
    try:
        model = models.build_model(shape)
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.isfinite(parameter).all() for parameter in model.parameters())


def test_a_state_fills_it() -> None:
    full, bare = models.build_model(LLAMA), models.build_model(LLAMA, draws=False)
    bare.load_state_dict(full.state_dict())
    assert models.weights_sha256(bare) == models.weights_sha256(full) == models.weights_sha256(models.build_model(LLAMA))


@pytest.mark.parametrize("shape", [GPT, LLAMA], ids=lambda shape: str(shape["architecture"]))
def test_what_a_model_leaves_behind_when_it_moves_is_hashed_without_drawing_it_again(shape: dict[str, Any]) -> None:
    model = models.build_model(shape)
    expected, initial = models.weights_sha256(model), models.InitialWeights(model)
    model.to("meta")  # as to a GPU: its weights are new tensors
    initial.start()
    assert initial.sha256() == expected
    assert initial._weights == [], "given up"
