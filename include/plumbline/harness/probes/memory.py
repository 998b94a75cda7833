"""Copy bandwidth of main memory, and the NUMA node next to a GPU."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil

from plumbline.harness.child_process import pinned_to
from plumbline.harness.environment.container import memory_limit_bytes
from plumbline.harness.environment.cpu import last_level_cache_bytes
from plumbline.harness.environment.sysfs import format_ranges, read_int, read_text
from plumbline.results import MetricRow, metric_row

if TYPE_CHECKING:
    import torch


_SMALLEST, _LARGEST = 64 * 2**20, 512 * 2**20
_COPIES, _ENOUGH_S = 7, 0.8


def memory_rows(cpus: Sequence[int]) -> list[MetricRow]:
    """`memory_bandwidth`: the best of several copies between two buffers, one thread a core, bytes read plus written a second."""
    best, n = best_copy(buffer_bytes(), len(cpus))
    return [metric_row("memory_bandwidth", best, n, phase="environment")]


def buffer_bytes() -> int:
    """Bytes of each of the two buffers: three quarters of the last-level cache, so that both never fit into it; less if memory is short."""
    size = min(max((last_level_cache_bytes() or 0) * 3 // 4, _SMALLEST), _LARGEST)
    memory = min(psutil.virtual_memory().available, memory_limit_bytes() or 2**63)
    return min(size, memory // 8)


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


_SYSFS = Path("/sys")


def numa_node_of(device: torch.device, root: Path = _SYSFS) -> int | None:
    """A GPU's NUMA node; None if unknown, and on a CPU."""
    if device.type != "cuda":
        return None
    address = pci_address(device)
    node = read_int(root / "bus/pci/devices" / address / "numa_node") if address else None
    return node if node is not None and node >= 0 else None  # -1: a machine with one node, or a virtual one that hides them


def pci_address(device: torch.device) -> str | None:
    """The PCI address of sysfs, such as 0000:0f:00.0; None if neither PyTorch nor NVML reports it."""
    import torch

    properties: Any = torch.cuda.get_device_properties(device)
    if hasattr(properties, "pci_bus_id"):  # since PyTorch 2.8
        return f"{properties.pci_domain_id:04x}:{properties.pci_bus_id:02x}:{properties.pci_device_id:02x}.0"
    try:
        pynvml = importlib.import_module("pynvml")
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{properties.uuid}")
        bus_id = pynvml.nvmlDeviceGetPciInfo(handle).busId
    except Exception:  # noqa: BLE001 - not NVIDIA's, no driver, no such field: the address stays unknown
        return None
    # NVML writes the domain with eight digits, sysfs with four.
    return str(bus_id).lower()[-12:]


@contextmanager
def bound_to_node(node: int | None, root: Path = _SYSFS) -> Iterator[str]:
    """Bind this thread to the allowed cores of a NUMA node: memory that it touches first lies there. Yields a description."""
    if node is None:
        yield "not bound: the GPU's NUMA node is unknown"
        return
    cores = _parse_cores(read_text(root / "devices/system/node" / f"node{node}" / "cpulist")) & os.sched_getaffinity(0)
    if not cores:
        yield f"not bound: no usable core on the GPU's NUMA node {node}"
        return
    with pinned_to(cores):
        yield f"bound to the GPU's NUMA node {node}, cores {format_ranges(cores)}"


def _parse_cores(listed: str | None) -> set[int]:
    cores: set[int] = set()
    for part in (listed or "").split(","):
        low, _, high = part.partition("-")
        if low.isdigit():
            cores |= set(range(int(low), int(high or low) + 1))
    return cores
