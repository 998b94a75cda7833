"""The best matrix multiplication of a device in one number format, searched over shapes. Runs in the probes' own process: it needs torch."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import cast

import torch

from plumbline.harness.probes.timing import timed

Shape = tuple[int, int, int]
"""rows, inner, columns. Which product is fastest depends on caches and cores, so a few sizes are tried, smaller ones first."""

CPU_SHAPES: tuple[Shape, ...] = ((512, 512, 512), (1024, 1024, 1024), (2048, 2048, 1024))
GPU_SHAPES: tuple[Shape, ...] = (
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (8448, 8192, 8448),  # 132 multiprocessors have no multiple of a power of two to share
    (16384, 8192, 8192),
    (16384, 16384, 16384),
)
_SEARCH_S, _SUSTAINED_S, _LONGEST_S = 0.15, 1.0, 0.6
_DTYPES = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp8": torch.float8_e4m3fn,
}


_LEAST = {"fp32": (0, 0), "tf32": (8, 0), "bf16": (8, 0), "fp16": (7, 0), "fp8": (8, 9)}
"""Of NVIDIA's GPUs: the compute capability from which on they compute in a format."""


def not_computed(device: torch.device, name: str) -> str | None:
    """Why the device does not compute in a format by itself; None if it does."""
    if device.type == "cpu":
        return None if name in ("fp32", "bf16") else f"{name} is measured on GPUs only"
    if torch.version.hip is not None:
        # AMD's 8-bit formats differ from card to card, and few have TF32.
        return None if name in ("fp32", "bf16", "fp16") else f"{name} is not measured on AMD GPUs"
    capability = torch.cuda.get_device_capability(device)
    if capability >= _LEAST[name]:
        return None
    return f"{name} takes compute capability {_text(_LEAST[name])}, and this GPU has {_text(capability)}"


def _text(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"


def best(device: torch.device, name: str, shapes: Sequence[Shape]) -> tuple[float, int, Shape]:
    """Best rate in FLOP/s (a multiplication and an addition count two), how many products were timed, and the shape it was reached at.

    A CPU's is the fastest single product: its neighbours disturb it. A GPU's is what it holds over a second: for the first milliseconds its
    clocks are higher than its power supply can keep up.
    """
    found: list[tuple[float, Shape]] = []
    n = 0
    for shape in shapes:
        if found and (_operations(shape) / max(found)[0] > _LONGEST_S or not _fits(device, shape)):
            break
        times = _times(device, name, shape, _SEARCH_S)
        found.append((_rate(device, shape, times), shape))
        n += len(times)
    rate, shape = max(found)
    return (rate, n, shape) if device.type == "cpu" else sustained(device, name, shape, _SUSTAINED_S)


def sustained(device: torch.device, name: str, shape: Shape, seconds: float) -> tuple[float, int, Shape]:
    """The rate at one shape over `seconds`; like `best`."""
    times = _times(device, name, shape, seconds)
    return _rate(device, shape, times), len(times), shape


def product(device: torch.device, name: str, shape: Shape) -> Callable[[], torch.Tensor]:
    """Multiplies two matrices of random numbers. Zeros draw less power, and so let clocks rise higher than real work does."""
    rows, inner, columns = shape
    generator = torch.Generator(device).manual_seed(1)
    left = torch.randn(rows, inner, generator=generator, device=device).to(_DTYPES[name])
    if name == "fp8":
        # The tensor cores take the second factor column by column.
        right = torch.randn(columns, inner, generator=generator, device=device).to(_DTYPES[name]).t()
        return _scaled(left, right)
    right = torch.randn(inner, columns, generator=generator, device=device).to(_DTYPES[name])
    out = torch.empty(rows, columns, dtype=_DTYPES[name], device=device)
    return lambda: torch.matmul(left, right, out=out)


def _scaled(left: torch.Tensor, right: torch.Tensor) -> Callable[[], torch.Tensor]:
    """An fp8 product with one scale a matrix, by the interface that this torch has: the public one came with 2.10."""
    one = torch.ones((), device=left.device)
    public = getattr(torch.nn.functional, "scaled_mm", None)
    if public is None:
        return lambda: torch._scaled_mm(left, right, one, one, out_dtype=torch.bfloat16, use_fast_accum=True)
    whole = torch.nn.functional.ScalingType.TensorWise
    return lambda: cast(torch.Tensor, public(left, right, one, whole, one, whole, output_dtype=torch.bfloat16, use_fast_accum=True))


def _times(device: torch.device, name: str, shape: Shape, seconds: float) -> list[float]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if name == "tf32" else "highest")
    try:
        return timed(product(device, name, shape), device, seconds)
    finally:
        torch.set_float32_matmul_precision(before)


def _rate(device: torch.device, shape: Shape, times: list[float]) -> float:
    return _operations(shape) / (min(times) if device.type == "cpu" else statistics.median(times))


def _operations(shape: Shape) -> float:
    return 2.0 * shape[0] * shape[1] * shape[2]


def _fits(device: torch.device, shape: Shape) -> bool:
    """Whether factors and result, in fp32 as they are made, take less than half of what is free."""
    rows, inner, columns = shape
    needed = 4 * (rows * inner + inner * columns + rows * columns)
    return device.type == "cpu" or needed < torch.cuda.mem_get_info(device)[0] // 2
