"""Copies within a GPU's memory, and between it and main memory. Runs in the probes' own process: it needs torch."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from plumbline.harness.probes import numa
from plumbline.harness.probes.timing import timed

_SECONDS = 0.3


def within(device: torch.device, size: int) -> tuple[float, int]:
    """Best rate in bytes/s, read plus written, of copies between two buffers of `size` bytes on the device; and their number."""
    source = torch.ones(size // 4, device=device)
    target = torch.empty_like(source)
    times = timed(lambda: target.copy_(source), device, _SECONDS)
    return 2.0 * source.nbytes / min(times), len(times)


def to_device(device: torch.device, size: int) -> tuple[float, int, str]:
    """Best rate in bytes/s from page-locked main memory to the GPU; the number of copies; and where that memory lies."""
    return _copied(device, size, lambda host, there: there.copy_(host, non_blocking=True))


def to_host(device: torch.device, size: int) -> tuple[float, int, str]:
    """The other direction."""
    return _copied(device, size, lambda host, there: host.copy_(there, non_blocking=True))


def _copied(device: torch.device, size: int, copy: Callable[[torch.Tensor, torch.Tensor], object]) -> tuple[float, int, str]:
    with numa.near(numa.of_gpu(device)) as where, _page_locked(device, size) as host:
        there = torch.ones(size // 4, device=device)
        times = timed(lambda: copy(host, there), device, _SECONDS)
        return size / min(times), len(times), where


@contextmanager
def _page_locked(device: torch.device, size: int) -> Iterator[torch.Tensor]:
    """Main memory that is mapped anew, so that its pages come from the NUMA node on which this thread runs: PyTorch's own page-locked memory
    is kept and handed out again, wherever it lies."""
    host = torch.frombuffer(mmap.mmap(-1, size), dtype=torch.float32).fill_(1)
    if device.type != "cuda":
        yield host
        return
    runtime: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    error = int(runtime.cudaHostRegister(host.data_ptr(), size, 0))
    if error != 0:
        raise RuntimeError(f"cudaHostRegister of {size} bytes failed with {error}; expected that memory may be locked (ulimit -l)")
    try:
        yield host
    finally:
        torch.cuda.synchronize(device)
        runtime.cudaHostUnregister(host.data_ptr())
