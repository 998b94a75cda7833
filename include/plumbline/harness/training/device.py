"""What the trainer needs to know of the device it computes on: when it is done, and how fast it multiplies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

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


def peak_memory(device: torch.device) -> dict[str, int]:
    """The most bytes that this process had in use so far: of a GPU what its tensors took (`used`) and what torch's allocator held for them
    (`reserved`); of a CPU what was resident, the program and mapped data included. Empty where the system does not tell."""
    if device.type == "cuda":
        return {"used": torch.cuda.max_memory_allocated(device), "reserved": torch.cuda.max_memory_reserved(device)}
    try:
        # Not getrusage: its figure begins with what the process that started this one had.
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return {}
    peak = next((line.split()[1] for line in lines if line.startswith("VmHWM:")), None)
    return {} if peak is None else {"used": int(peak) * 1024}
