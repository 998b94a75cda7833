"""Copies within a GPU's memory, and between it and main memory. Runs in the probes' own process: it needs torch."""

from __future__ import annotations

import torch

from plumbline.harness.probes.timing import timed

_SECONDS = 0.3


def within(device: torch.device, size: int) -> tuple[float, int]:
    """Best rate in bytes/s, read plus written, of copies between two buffers of `size` bytes on the device; and their number."""
    source = torch.ones(size // 4, device=device)
    target = torch.empty_like(source)
    times = timed(lambda: target.copy_(source), device, _SECONDS)
    return 2.0 * source.nbytes / min(times), len(times)


def to_device(device: torch.device, size: int) -> tuple[float, int]:
    """Best rate in bytes/s from page-locked main memory to the GPU; and the number of copies."""
    source, target = _both(device, size)
    times = timed(lambda: target.copy_(source, non_blocking=True), device, _SECONDS)
    return source.nbytes / min(times), len(times)


def to_host(device: torch.device, size: int) -> tuple[float, int]:
    """The other direction."""
    target, source = _both(device, size)
    times = timed(lambda: target.copy_(source, non_blocking=True), device, _SECONDS)
    return source.nbytes / min(times), len(times)


def _both(device: torch.device, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    host = torch.ones(size // 4, pin_memory=device.type == "cuda")
    return host, torch.ones(size // 4, device=device)
