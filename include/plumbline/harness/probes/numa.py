"""The NUMA node next to a GPU: a copy from the other socket's memory measures the link between the sockets."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plumbline.harness.environment.sysfs import number, ranges, text

if TYPE_CHECKING:
    import torch

_ROOT = Path("/sys")


def of_gpu(device: torch.device, root: Path = _ROOT) -> int | None:
    """The NUMA node that a GPU is attached to; None if the system does not say, and on a CPU."""
    if device.type != "cuda":
        return None
    address = pci_address(device)
    node = number(root / "bus/pci/devices" / address / "numa_node") if address else None
    return node if node is not None and node >= 0 else None  # -1: a machine with one node, or a virtual one that hides them


def pci_address(device: torch.device) -> str | None:
    """A GPU's PCI address as sysfs names it, such as 0000:0f:00.0; None if neither PyTorch nor NVML says it."""
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
def near(node: int | None, root: Path = _ROOT) -> Iterator[str]:
    """Run this thread on the allowed cores of a NUMA node while the block runs: memory that is first touched there lies there. Yields how
    it went, in words."""
    before = os.sched_getaffinity(0)
    if node is None:
        yield "not bound: the GPU's NUMA node is unknown"
        return
    cores = _cores(text(root / "devices/system/node" / f"node{node}" / "cpulist")) & before
    if not cores:
        yield f"not bound: no usable core on the GPU's NUMA node {node}"
        return
    os.sched_setaffinity(0, cores)
    try:
        yield f"bound to the GPU's NUMA node {node}, cores {ranges(cores)}"
    finally:
        os.sched_setaffinity(0, before)


def _cores(listed: str | None) -> set[int]:
    """Cores in the kernel's notation: 0-2,5."""
    found: set[int] = set()
    for part in (listed or "").split(","):
        low, _, high = part.partition("-")
        if low.isdigit():
            found |= set(range(int(low), int(high or low) + 1))
    return found
