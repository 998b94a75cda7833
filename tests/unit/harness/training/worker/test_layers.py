"""Recomputed and compiled layers: the same gradients under the same names, fewer activations, compile time told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import nn

from plumbline.harness.training.models.gpt import Transformer
from plumbline.harness.training.worker.torch_setup import CompileTimer, checkpoint_activations


def model() -> Transformer:
    torch.manual_seed(1)
    return Transformer(layers=2, width=16, heads=2, vocabulary=32, context=8)


def kept_and_gradients(trained: Transformer) -> tuple[int, list[torch.Tensor]]:
    """Bytes that forward kept for backward, and the gradients."""
    kept = 0

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal kept
        kept += tensor.nbytes
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = trained(torch.arange(16).view(2, 8)).square().mean()
    counted = kept
    loss.backward()
    return counted, [parameter.grad for parameter in trained.parameters() if parameter.grad is not None]


def test_recomputed_layers_keep_less_and_change_nothing_else() -> None:
    plain, again = model(), model()
    checkpoint_activations(again.blocks)  # type: ignore[arg-type]
    assert list(plain.state_dict()) == list(again.state_dict())
    kept, expected = kept_and_gradients(plain)
    kept_again, gradients = kept_and_gradients(again)
    assert kept_again < kept / 2
    assert all(torch.equal(a, b) for a, b in zip(expected, gradients, strict=True))
    with torch.no_grad():
        assert torch.equal(plain(torch.ones(1, 8, dtype=torch.int64)), again(torch.ones(1, 8, dtype=torch.int64)))


@pytest.mark.parametrize("recomputed", [False, True])
def test_the_compiler_gets_to_see_the_layers_and_its_time_is_told_once(recomputed: bool) -> None:
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    clock, trained = CompileTimer(), model()
    layers: Sequence[nn.Module] = trained.blocks  # type: ignore[assignment]
    if recomputed:
        checkpoint_activations(layers)
    for layer in layers:
        layer.compile(backend="aot_eager")  # what inductor would make of it takes half a minute
    assert clock.taken() == 0
    trained(torch.arange(16).view(2, 8)).mean().backward()
    assert counters["frames"]["ok"] >= 1
    assert clock.taken() > 0
    assert clock.taken() == 0
    assert list(trained.state_dict()) == list(model().state_dict())


def test_what_is_compiled_stays_with_the_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    from plumbline.harness.training.worker.torch_setup import compile_layers

    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    compile_layers([], tmp_path)
    assert os.environ.pop("TORCHINDUCTOR_CACHE_DIR") == str(tmp_path)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "elsewhere")
    compile_layers([], tmp_path)
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == "elsewhere"
