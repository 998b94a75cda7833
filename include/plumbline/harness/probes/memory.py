"""Copy bandwidth of main memory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psutil

from plumbline.harness.environment.cpu import last_level_cache_bytes
from plumbline.harness.environment.limits import memory_bytes
from plumbline.results import MetricRow, row

_SMALLEST, _LARGEST = 64 * 2**20, 512 * 2**20
_COPIES, _ENOUGH_S = 7, 0.8


def rows(cpus: Sequence[int]) -> list[MetricRow]:
    """`memory_bandwidth`: the best of several copies between two buffers, one thread a core, bytes read plus written a second."""
    best, n = best_copy(buffer_bytes(), len(cpus))
    return [row("memory_bandwidth", best, n, phase="environment")]


def buffer_bytes() -> int:
    """Size of each of the two buffers: three quarters of the last-level cache, so that both never fit into it; less if memory is short."""
    wanted = min(max((last_level_cache_bytes() or 0) * 3 // 4, _SMALLEST), _LARGEST)
    memory = min(psutil.virtual_memory().available, memory_bytes() or 2**63)
    return min(wanted, memory // 8)


def best_copy(size: int, threads: int) -> tuple[float, int]:
    """Best rate in bytes/s over the copies made, and their number."""
    source, target = (np.empty(size // 8, dtype=np.uint64) for _ in range(2))
    parts = list(zip(np.array_split(source, threads), np.array_split(target, threads), strict=True))
    rates: list[float] = []
    with ThreadPoolExecutor(threads) as pool:
        # The first touch maps the pages; numpy lets go of the interpreter's lock while it fills and copies.
        list(pool.map(lambda part: (part[0].fill(1), part[1].fill(2)), parts))
        started = time.perf_counter()
        while len(rates) < 2 or (len(rates) < _COPIES and time.perf_counter() - started < _ENOUGH_S):
            before = time.perf_counter()
            list(pool.map(lambda part: np.copyto(part[1], part[0]), parts))
            rates.append(2 * source.nbytes / (time.perf_counter() - before))
    return max(rates), len(rates)
