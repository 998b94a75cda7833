"""Timing of repeated work on a device, by its own clock where it has one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import torch

_AT_LEAST = 3
_WINDOW_S = 0.02
"""On a GPU: so many repetitions are timed together that starting them costs nothing against it."""


def timed(work: Callable[[], object], device: torch.device, seconds: float) -> list[float]:
    """Seconds of each repetition; one before them is left out, in which threads start, memory is mapped and kernels are chosen."""
    work()
    if device.type == "cpu":
        times: list[float] = []
        started = time.perf_counter()
        while len(times) < _AT_LEAST or time.perf_counter() - started < seconds:
            before = time.perf_counter()
            work()
            times.append(time.perf_counter() - before)
        return times
    with torch.cuda.device(device):
        each = max(math.ceil(_WINDOW_S / _window(work, 1)), 1)
        windows = max(math.ceil(seconds / _WINDOW_S), _AT_LEAST) if each > 1 else _AT_LEAST
        return [_window(work, each) / each for _ in range(windows)]


def _window(work: Callable[[], object], times: int) -> float:
    began = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    ended = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    began.record()
    for _ in range(times):
        work()
    ended.record()
    ended.synchronize()
    return float(began.elapsed_time(ended)) / 1e3
