"""NVIDIA GPUs as NVML reports them. "There is none" and "nobody could look" are different facts.

NVML comes with the package `nvidia-ml-py`, which images for GPU nodes carry; elsewhere it may be absent.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from plumbline.harness.environment.cpu import ROOT
from plumbline.harness.environment.sysfs import text
from plumbline.results import Scalar

_NVIDIA = "0x10de"


def facts(root: Path = ROOT, nvml: Any = None) -> dict[str, Scalar]:
    """`gpu.count` (None if nobody could look, then `gpu.unknown_because`), `gpu.<i>.*`, `driver.version`, `cuda.version`.

    `nvml`: a module with pynvml's functions; the installed one if left out.
    """
    try:
        library = nvml or importlib.import_module("pynvml")
    except ImportError:
        return _without("the package nvidia-ml-py is not installed", root)
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        return _without(str(error), root)
    try:
        return _all(library)
    except library.NVMLError as error:
        return {"gpu.count": None, "gpu.unknown_because": str(error), "driver.version": None, "cuda.version": None}
    finally:
        library.nvmlShutdown()


def handles(nvml: Any) -> list[Any]:
    """NVML's handles of the GPUs that CUDA_VISIBLE_DEVICES shows, in its order; nvmlInit must have been called. Raises nvml.NVMLError."""
    found = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
    names = [(str(i), _text(nvml.nvmlDeviceGetUUID(handle))) for i, handle in enumerate(found)]
    return [found[i] for i in visible(names, os.environ.get("CUDA_VISIBLE_DEVICES"))]


def product(name: str) -> str:
    """A GPU's name as node labels and declarations write it: `NVIDIA H100 80GB HBM3` → `NVIDIA-H100-80GB-HBM3`."""
    return "-".join(name.split())


def _without(reason: str, root: Path) -> dict[str, Scalar]:
    seen = _traces(root)
    found: dict[str, Scalar] = {"gpu.count": 0, "driver.version": None, "cuda.version": None}
    return found | {"gpu.count": None, "gpu.unknown_because": f"{seen}, but {reason}"} if seen else found


def _traces(root: Path) -> str | None:
    """What on this machine hints at an NVIDIA GPU; None if nothing does."""
    for name in ("nvidia0", "nvidiactl", "dxg"):
        if (root / "dev" / name).exists():
            return f"/dev/{name} is there"
    devices = root / "sys/bus/pci/devices"
    if not devices.is_dir() and not (root / "sys/class").is_dir():
        return "/sys is not readable"
    for device in sorted(devices.glob("*")):
        # Class 03 is a display controller: NVIDIA also makes network cards and bridges.
        if text(device / "vendor") == _NVIDIA and (text(device / "class") or "").startswith("0x03"):
            return f"PCI device {device.name} is NVIDIA's"
    return None


def _all(nvml: Any) -> dict[str, Scalar]:
    shown = handles(nvml)
    cuda = nvml.nvmlSystemGetCudaDriverVersion_v2()
    found: dict[str, Scalar] = {
        "gpu.count": len(shown),
        "driver.version": _text(nvml.nvmlSystemGetDriverVersion()),
        "cuda.version": f"{cuda // 1000}.{cuda % 1000 // 10}",
    }
    for position, handle in enumerate(shown):
        found |= {f"gpu.{position}.{name}": value for name, value in _one(nvml, handle).items()}
    return found


def visible(devices: list[tuple[str, str]], setting: str | None) -> list[int]:
    """Indices of the (index, UUID) pairs that CUDA_VISIBLE_DEVICES shows, in its order; like CUDA, it stops at the first unknown."""
    if setting is None:
        return list(range(len(devices)))
    shown: list[int] = []
    for wanted in (part.strip() for part in setting.split(",")):
        found = [i for i, (index, uuid) in enumerate(devices) if wanted == index or (wanted.startswith("GPU-") and uuid.startswith(wanted))]
        if len(found) != 1 or found[0] in shown:
            break
        shown += found
    return shown


def _one(nvml: Any, handle: Any) -> dict[str, Scalar]:
    def asked(question: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return question(handle, *arguments)
        except nvml.NVMLError:
            return None  # not every device and driver answers everything

    power = asked(nvml.nvmlDeviceGetEnforcedPowerLimit)
    memory = asked(nvml.nvmlDeviceGetMemoryInfo)
    vbios = asked(nvml.nvmlDeviceGetVbiosVersion)
    ecc = asked(nvml.nvmlDeviceGetEccMode)
    mig = asked(nvml.nvmlDeviceGetMigMode)
    return {
        "product": product(_text(nvml.nvmlDeviceGetName(handle))),
        "memory_bytes": None if memory is None else int(memory.total),
        "vbios": None if vbios is None else _text(vbios),
        "sm_clock_max_mhz": asked(nvml.nvmlDeviceGetMaxClockInfo, nvml.NVML_CLOCK_SM),
        "memory_clock_max_mhz": asked(nvml.nvmlDeviceGetMaxClockInfo, nvml.NVML_CLOCK_MEM),
        "sm_clock_cap_mhz": asked(nvml.nvmlDeviceGetApplicationsClock, nvml.NVML_CLOCK_SM),
        "power_limit_w": None if power is None else power / 1000,
        "ecc": None if ecc is None else bool(ecc[0]),
        "mig": None if mig is None else bool(mig[0]),
        "pcie_generation_max": asked(nvml.nvmlDeviceGetMaxPcieLinkGeneration),
        "pcie_width_max": asked(nvml.nvmlDeviceGetMaxPcieLinkWidth),
    }


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
