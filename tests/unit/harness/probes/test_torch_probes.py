from __future__ import annotations

import pytest
import torch

from plumbline.harness.probes import FORMATS, torch_probes
from plumbline.harness.probes.collectives import bus_bandwidth

CPU = torch.device("cpu")


def test_products_are_counted_in_operations() -> None:
    rate, n, shape = torch_probes.best_matmul(CPU, "fp32", ((64, 32, 16),))
    assert n >= 3
    assert 1e6 < rate < 1e14
    assert shape == (64, 32, 16)


@pytest.mark.parametrize("name", ["fp32", "tf32", "bf16", "fp16", "fp8"])
def test_every_format_multiplies(name: str) -> None:
    if name == "fp8" and not hasattr(torch.nn.functional, "scaled_mm"):
        pytest.skip("before 2.10 PyTorch multiplies fp8 on GPUs only")
    result = torch_probes.matmul_call(CPU, name, (32, 64, 48))()
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
    assert computed(torch.device("cuda", 0)) == expected
    monkeypatch.setattr(torch.version, "hip", "7.0")
    assert computed(torch.device("cuda", 0)) == ("fp32", "bf16", "fp16")
    assert computed(CPU) == ("fp32", "bf16")


def computed(device: torch.device) -> tuple[str, ...]:
    return tuple(name for name in FORMATS if torch_probes.unsupported_format(device, name) is None)


def test_an_older_torch_multiplies_fp8_by_the_interface_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = torch_probes.matmul_call(CPU, "fp8", (32, 64, 48))() if hasattr(torch.nn.functional, "scaled_mm") else torch.ones(32, 48)
    calls = []

    def before_2_10(
        left: torch.Tensor, right: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor, **options: object
    ) -> torch.Tensor:
        calls.append(options)
        return expected

    monkeypatch.delattr(torch.nn.functional, "scaled_mm", raising=False)
    monkeypatch.delattr(torch.nn.functional, "ScalingType", raising=False)
    monkeypatch.setattr(torch, "_scaled_mm", before_2_10)
    assert torch_probes.matmul_call(CPU, "fp8", (32, 64, 48))() is expected
    assert calls == [{"out_dtype": torch.bfloat16, "use_fast_accum": True}]


def test_the_fastest_shape_wins_and_slow_ones_are_not_tried() -> None:
    hopeless = (10**6, 10**6, 10**6)  # hours, and more memory than there is
    rate, _, shape = torch_probes.best_matmul(CPU, "fp32", ((8, 8, 8), (256, 256, 256), hopeless))
    assert shape == (256, 256, 256)
    assert rate > torch_probes.best_matmul(CPU, "fp32", ((8, 8, 8),))[0]


def test_the_precision_of_products_is_as_it_was() -> None:
    before = torch.get_float32_matmul_precision()
    torch_probes.best_matmul(CPU, "tf32", ((8, 8, 8),))
    assert torch.get_float32_matmul_precision() == before


def test_transfers_count_their_bytes() -> None:
    both, n = torch_probes.copy_within_device(CPU, 2**20)
    there, _, where = torch_probes.copy_to_device(CPU, 2**20)
    back, _, _ = torch_probes.copy_to_host(CPU, 2**20)
    assert where.startswith("not bound")
    assert n >= 3
    assert all(1e7 < rate < 1e13 for rate in (both, there, back))


@pytest.mark.parametrize(("ranks", "expected"), [(2, 100.0), (4, 150.0), (8, 175.0)])
def test_bus_bandwidth_is_the_load_of_one_link(ranks: int, expected: float) -> None:
    assert bus_bandwidth(1000, 10.0, ranks) == expected
