from __future__ import annotations

import pytest
import torch

from plumbline.harness.probes import products, transfers
from plumbline.harness.probes.collective import bus_bandwidth

CPU = torch.device("cpu")


def test_products_are_counted_in_operations() -> None:
    rate, n, shape = products.best(CPU, "fp32", ((64, 32, 16),))
    assert n >= 3
    assert 1e6 < rate < 1e14
    assert shape == (64, 32, 16)


@pytest.mark.parametrize("name", ["fp32", "tf32", "bf16", "fp16", "fp8"])
def test_every_format_multiplies(name: str) -> None:
    result = products.product(CPU, name, (32, 64, 48))()
    generator = torch.Generator(CPU).manual_seed(1)
    left = torch.randn(32, 64, generator=generator)
    right = torch.randn(48, 64, generator=generator).t() if name == "fp8" else torch.randn(64, 48, generator=generator)
    assert torch.allclose(result.float(), left @ right, atol={"fp8": 2.0, "bf16": 0.3, "fp16": 0.05}.get(name, 1e-4))
    assert result.dtype == {"bf16": torch.bfloat16, "fp8": torch.bfloat16, "fp16": torch.float16}.get(name, torch.float32)


@pytest.mark.parametrize(
    ("capability", "expected"),
    [
        ((7, 5), ("fp32", "fp16")),
        ((8, 0), ("fp32", "tf32", "bf16", "fp16")),
        ((8, 9), ("fp32", "tf32", "bf16", "fp16", "fp8")),
        ((10, 0), ("fp32", "tf32", "bf16", "fp16", "fp8")),
    ],
)
def test_a_gpu_is_asked_for_what_it_computes_in(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], expected: tuple[str, ...]
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    assert products.formats(torch.device("cuda", 0)) == expected
    monkeypatch.setattr(torch.version, "hip", "7.0")
    assert products.formats(torch.device("cuda", 0)) == ("fp32", "bf16", "fp16")


def test_the_fastest_shape_wins_and_slow_ones_are_not_tried() -> None:
    hopeless = (10**6, 10**6, 10**6)  # hours, and more memory than there is
    rate, _, shape = products.best(CPU, "fp32", ((8, 8, 8), (256, 256, 256), hopeless))
    assert shape == (256, 256, 256)
    assert rate > products.best(CPU, "fp32", ((8, 8, 8),))[0]


def test_the_precision_of_products_is_as_it_was() -> None:
    before = torch.get_float32_matmul_precision()
    products.best(CPU, "tf32", ((8, 8, 8),))
    assert torch.get_float32_matmul_precision() == before


def test_transfers_count_their_bytes() -> None:
    both, n = transfers.within(CPU, 2**20)
    there, _ = transfers.to_device(CPU, 2**20)
    back, _ = transfers.to_host(CPU, 2**20)
    assert n >= 3
    assert all(1e7 < rate < 1e13 for rate in (both, there, back))


@pytest.mark.parametrize(("ranks", "expected"), [(2, 100.0), (4, 150.0), (8, 175.0)])
def test_bus_bandwidth_is_the_load_of_one_link(ranks: int, expected: float) -> None:
    assert bus_bandwidth(1000, 10.0, ranks) == expected
