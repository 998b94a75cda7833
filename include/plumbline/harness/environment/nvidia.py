"""NVIDIA GPUs as NVML, the package `nvidia-ml-py`, reports them. "No GPU" and "unknown" are different facts.

Serial numbers and UUIDs are not facts: another GPU of the same kind is the same environment."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from itertools import combinations, takewhile
from pathlib import Path
from typing import Any

from plumbline.harness.environment.sysfs import ROOT, read_text
from plumbline.results import Scalar

_NVIDIA = "0x10de"


class DriverUnavailable(Exception):
    """The library of a GPU driver cannot be used; the message says why."""


class NvidiaDriver:
    """NVML, open until `close`. `nvml`: a module with pynvml's functions; the installed one if left out. Raises DriverUnavailable."""

    def __init__(self, nvml: Any = None) -> None:
        try:
            self.library = nvml or importlib.import_module("pynvml")
        except ImportError as error:
            raise DriverUnavailable("the package nvidia-ml-py is not installed") from error
        try:
            self.library.nvmlInit()
        except self.library.NVMLError as error:
            raise DriverUnavailable(str(error)) from error

    def handles(self) -> list[Any]:
        """Of the GPUs that CUDA_VISIBLE_DEVICES shows, in its order. Raises nvml.NVMLError."""
        nvml = self.library
        handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
        names = [(str(i), _text(nvml.nvmlDeviceGetUUID(handle))) for i, handle in enumerate(handles)]
        return [handles[i] for i in visible_indices(names, os.environ.get("CUDA_VISIBLE_DEVICES"))]

    def ask(self, function: str, *arguments: Any) -> Any:
        """What a function of NVML returns; None on NVMLError, since not every device and driver answers everything."""
        try:
            return getattr(self.library, function)(*arguments)
        except self.library.NVMLError:
            return None

    def close(self) -> None:
        self.library.nvmlShutdown()


def nvidia_facts(root: Path = ROOT, nvml: Any = None) -> dict[str, Scalar]:
    """`gpu.count` (None if the driver cannot be asked, then `gpu.unknown_because`), `gpu.<i>.*`, `driver.version`, `cuda.version`."""
    try:
        driver = NvidiaDriver(nvml)
    except DriverUnavailable as error:
        return _without_nvml(str(error), root)
    try:
        return _facts(driver)
    except driver.library.NVMLError as error:
        return {"gpu.count": None, "gpu.unknown_because": str(error), "driver.version": None, "cuda.version": None}
    finally:
        driver.close()


def product_name(name: str) -> str:
    """A GPU's name as node labels and declarations write it: `NVIDIA H100 80GB HBM3` → `NVIDIA-H100-80GB-HBM3`."""
    return "-".join(name.split())


def _without_nvml(reason: str, root: Path) -> dict[str, Scalar]:
    traces = _nvidia_traces(root)
    facts: dict[str, Scalar] = {"gpu.count": 0, "driver.version": None, "cuda.version": None}
    return facts | {"gpu.count": None, "gpu.unknown_because": f"{traces}, but {reason}"} if traces else facts


def _nvidia_traces(root: Path) -> str | None:
    for name in ("nvidia0", "nvidiactl", "dxg"):
        if (root / "dev" / name).exists():
            return f"/dev/{name} is there"
    devices = root / "sys/bus/pci/devices"
    if not devices.is_dir() and not (root / "sys/class").is_dir():
        return "/sys is not readable"
    for device in sorted(devices.glob("*")):
        # Class 03 is a display controller: NVIDIA also makes network cards and bridges.
        if read_text(device / "vendor") == _NVIDIA and (read_text(device / "class") or "").startswith("0x03"):
            return f"PCI device {device.name} is NVIDIA's"
    return None


def _facts(driver: NvidiaDriver) -> dict[str, Scalar]:
    handles, nvml = driver.handles(), driver.library
    cuda = nvml.nvmlSystemGetCudaDriverVersion_v2()
    facts: dict[str, Scalar] = {
        "gpu.count": len(handles),
        "gpu.vendor": "nvidia",
        "driver.version": _text(nvml.nvmlSystemGetDriverVersion()),
        "cuda.version": f"{cuda // 1000}.{cuda % 1000 // 10}",
    }
    for position, handle in enumerate(handles):
        facts |= {
            f"gpu.{position}.{name}": value for name, value in {**_gpu_facts(driver, handle), **_nvlink_facts(driver, handle)}.items()
        }
    if len(handles) > 1:
        facts["gpu.nvlink_topology"] = _nvlink_topology(nvml, handles)
    return facts


def visible_indices(devices: list[tuple[str, str]], setting: str | None) -> list[int]:
    """Indices of the (index, UUID) pairs that CUDA_VISIBLE_DEVICES shows, in its order; like CUDA, it stops at the first unknown."""
    if setting is None:
        return list(range(len(devices)))
    indices: list[int] = []
    for name in (part.strip() for part in setting.split(",")):
        matching = [i for i, (index, uuid) in enumerate(devices) if name == index or (name.startswith("GPU-") and uuid.startswith(name))]
        if len(matching) != 1 or matching[0] in indices:
            break
        indices += matching
    return indices


def _gpu_facts(driver: NvidiaDriver, handle: Any) -> dict[str, Scalar]:
    nvml = driver.library

    def ask(function: str, *arguments: Any) -> Any:
        return driver.ask(f"nvmlDeviceGet{function}", handle, *arguments)

    power, standard = ask("EnforcedPowerLimit"), ask("PowerManagementDefaultLimit")
    capability, firmware = ask("CudaComputeCapability"), ask("GspFirmwareVersion")
    inforom, persistence, vbios = ask("InforomImageVersion"), ask("PersistenceMode"), ask("VbiosVersion")
    memory, ecc, mig = ask("MemoryInfo"), ask("EccMode"), ask("MigMode")
    return {
        "product": product_name(_text(nvml.nvmlDeviceGetName(handle))),
        "memory_bytes": None if memory is None else int(memory.total),
        "compute_capability": None if capability is None else f"{capability[0]}.{capability[1]}",
        "vbios": None if vbios is None else _text(vbios),
        "firmware": None if firmware is None else _text(firmware),
        "inforom": None if inforom is None else _text(inforom),
        "sm_clock_max_mhz": ask("MaxClockInfo", nvml.NVML_CLOCK_SM),
        "memory_clock_max_mhz": ask("MaxClockInfo", nvml.NVML_CLOCK_MEM),
        "sm_clock_cap_mhz": ask("ApplicationsClock", nvml.NVML_CLOCK_SM),
        "power_limit_w": None if power is None else power / 1000,
        "power_limit_default_w": None if standard is None else standard / 1000,
        "persistence": None if persistence is None else bool(persistence),
        "ecc": None if ecc is None else bool(ecc[0]),
        "mig": None if mig is None else bool(mig[0]),
        "pcie_generation_max": ask("MaxPcieLinkGeneration"),
        "pcie_width_max": ask("MaxPcieLinkWidth"),
        "pcie_width": ask("CurrPcieLinkWidth"),  # the generation is left out: an idle GPU saves power by lowering it
    }


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


_NEAREST = {0: "one board", 10: "one PCIe switch", 20: "PCIe switches", 30: "one host bridge", 40: "one CPU", 50: "between CPUs"}
"""NVML's levels of the nearest common ancestor of two GPUs."""


def active_links(driver: NvidiaDriver, handle: Any) -> list[int]:
    """The NVLinks of a GPU that are up. Links are numbered from 0: a GPU without one has no further one."""
    nvml = driver.library
    states = (driver.ask("nvmlDeviceGetNvLinkState", handle, link) for link in range(nvml.NVML_NVLINK_MAX_LINKS))
    known = takewhile(lambda state: state is not None, states)
    return [link for link, state in enumerate(known) if state == nvml.NVML_FEATURE_ENABLED]


def _nvlink_facts(driver: NvidiaDriver, handle: Any) -> dict[str, Scalar]:
    """`nvlink_active`: links that are up (0 without NVLink), and `nvlink_version`, None without one."""
    active = active_links(driver, handle)
    version = driver.ask("nvmlDeviceGetNvLinkVersion", handle, active[0]) if active else None
    return {"nvlink_active": len(active), "nvlink_version": None if version is None else int(version)}


def _nvlink_topology(nvml: Any, handles: Sequence[Any]) -> str | None:
    """GPU pairs by their connection, such as `NVLink: all` or `NVLink: 0-1 2-3; between CPUs: 0-2 0-3 1-2 1-3`."""
    ways: dict[str, list[str]] = {}
    for (i, one), (j, other) in combinations(enumerate(handles), 2):
        ways.setdefault(_connection(nvml, one, other), []).append(f"{i}-{j}")
    if len(ways) == 1:
        return f"{next(iter(ways))}: all"
    return "; ".join(f"{way}: {' '.join(pairs)}" for way, pairs in sorted(ways.items())) or None


def _connection(nvml: Any, one: Any, other: Any) -> str:
    try:
        if nvml.nvmlDeviceGetP2PStatus(one, other, nvml.NVML_P2P_CAPS_INDEX_NVLINK) == nvml.NVML_P2P_STATUS_OK:
            return "NVLink"  # also through switches, whose far end no single link tells
        return _NEAREST.get(nvml.nvmlDeviceGetTopologyCommonAncestor(one, other), "unknown")
    except nvml.NVMLError:
        return "unknown"
