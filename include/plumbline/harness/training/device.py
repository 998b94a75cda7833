"""What the trainer needs to know of the device it computes on: when it is done, and how fast it multiplies."""

from __future__ import annotations

import time
from collections.abc import Callable
from time import monotonic_ns

import torch


def matmul_flops(device: torch.device, precision: str, seconds: float) -> float:
    """The best rate (FLOP/s) of one square matrix product at the training precision, tried for `seconds`."""
    size = 8192 if device.type == "cuda" else 1024
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    a, b = (torch.randn(size, size, device=device).to(kind) for _ in range(2))
    settle = settler(device)
    best, end = float("inf"), time.monotonic() + seconds
    while best == float("inf") or time.monotonic() < end:
        began = monotonic_ns()
        a @ b
        settle()
        best = min(best, (monotonic_ns() - began) / 1e9)
    return float(2.0 * size**3 / best)


def settler(device: torch.device) -> Callable[[], None]:
    """What waits until the device has done what it was given: kernels of a GPU run behind the program's back."""
    settle: Callable[[], None] = torch.cuda.synchronize if device.type == "cuda" else _nothing
    return settle


def _nothing() -> None:
    """A CPU is done when the call returns."""
