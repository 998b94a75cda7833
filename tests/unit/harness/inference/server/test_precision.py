from __future__ import annotations

import pytest
import torch
from torch import nn

from plumbline.harness.inference.models.precision import Int8Linear, in_precision, weight_bytes
from plumbline.harness.inference.models.transformer import Transformer, seeded

SHAPE = {"layers": 2, "width": 64, "heads": 4, "vocabulary": 256, "context": 24}


def answers(precision: str) -> list[int]:
    """First tokens after 4 × 8 prompts."""
    out: list[int] = []
    for seed in range(8):
        model = in_precision(seeded(3, **SHAPE), precision)
        assert isinstance(model, Transformer)
        model.reserve(4)
        for i in range(4):
            model.admit(torch.randint(0, 256, (12,), generator=torch.Generator().manual_seed(100 * seed + i)))
        out += model.step(1000).tolist()
    return out


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_a_smaller_precision_says_nearly_the_same(precision: str) -> None:
    reference, served = answers("fp32"), answers(precision)
    assert sum(a == b for a, b in zip(reference, served, strict=True)) >= 0.8 * len(reference)


def test_an_int8_layer_is_close_and_a_token_does_not_depend_on_its_neighbours() -> None:
    torch.manual_seed(1)
    linear, x = nn.Linear(64, 48), torch.randn(3, 5, 64)
    exact, quantised = linear(x), Int8Linear(linear)
    x[0] *= 100  # one token's reach must not cost another's precision
    got = quantised(x)
    assert got.shape == exact.shape
    assert (got[1:] - exact[1:]).abs().max() < 0.03 * exact[1:].abs().max()
    assert torch.equal(got[1:2], quantised(x[1:2]))


def test_zeros_stay_zeros() -> None:
    assert torch.equal(Int8Linear(nn.Linear(8, 8, bias=False))(torch.zeros(2, 8)), torch.zeros(2, 8))


def test_every_linear_layer_is_replaced_and_weights_shrink() -> None:
    sizes = {precision: weight_bytes(in_precision(seeded(3, **SHAPE), precision)) for precision in ("fp32", "bf16", "int8")}
    assert sizes["bf16"] * 2 == sizes["fp32"]
    linear = 12 * 2 * 64**2 + 256 * 64
    scales = 2 * (3 + 1 + 4 + 1) * 64 + 256
    assert sizes["fp32"] - sizes["int8"] == 3 * linear - 4 * scales
    assert not any(type(m) is nn.Linear for m in in_precision(seeded(3, **SHAPE), "int8").modules())


def test_an_unknown_precision() -> None:
    with pytest.raises(ValueError, match=r"^precision fp8 .*int8$"):
        in_precision(seeded(3, **SHAPE), "fp8")


@pytest.mark.parametrize(("precision", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16), ("int8", torch.float32)])
def test_the_cache_is_reserved_in_the_precision_of_the_arithmetic(precision: str, dtype: torch.dtype) -> None:
    model = in_precision(seeded(3, **SHAPE), precision)
    assert isinstance(model, Transformer) and model.cache.numel() == 0 and model.full
    model.reserve(3)
    assert model.cache.dtype == dtype and model.cache.shape == (2, 3, 24, 2, 4, 16) and not model.full
