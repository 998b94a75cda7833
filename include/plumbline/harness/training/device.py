"""What the trainer needs to know of the device it computes on: when it is done, and how fast it multiplies."""

from __future__ import annotations

from collections.abc import Callable

import torch

_CPU_SHAPE, _CPU_SECONDS = (1024, 1024, 1024), 0.3


def matmul_flops(device: torch.device, precision: str) -> float:
    """The device's best rate (FLOP/s) of a matrix product at a training precision, as the hardware probe finds it: of a CPU over one shape."""
    # Imported here: it brings along what a start that is measured must not pay for.
    from plumbline.harness.probes import products

    if device.type == "cpu":
        return products.sustained(device, precision, _CPU_SHAPE, _CPU_SECONDS)[0]
    torch.cuda.empty_cache()  # what the training kept for its next step would be in the way
    return products.best(device, precision, products.GPU_SHAPES)[0]


def settler(device: torch.device) -> Callable[[], None]:
    """What waits until the device has done what it was given: kernels of a GPU run behind the program's back."""
    settle: Callable[[], None] = torch.cuda.synchronize if device.type == "cuda" else _nothing
    return settle


def _nothing() -> None:
    """A CPU is done when the call returns."""
