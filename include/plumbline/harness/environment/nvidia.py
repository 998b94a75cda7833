"""NVIDIA GPUs as NVML, the package `nvidia-ml-py`, reports them. "No GPU" and "unknown" are different facts, and what NVML answers wrongly,
or not at all, is one unknown fact.

A MIG instance is a device with a name and memory of its own; power, links and errors are its card's. Serial numbers and UUIDs are not facts:
another GPU of the same kind is the same environment."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, takewhile
from pathlib import Path
from typing import Any

from plumbline.declarations.devices import device_memory, mig_profile, part_of_card
from plumbline.harness.environment.sysfs import ROOT, read_text
from plumbline.results import Scalar

_NVIDIA = "0x10de"
_NO_PERMISSION, _NO_DRIVER, _NO_LIBRARY, _LOST, _RESET = 4, 9, 12, 15, 16
_REMEDIES = {
    _NO_PERMISSION: "give this user and container access to /dev/nvidia*",
    _LOST: "reset or replace the GPU (dmesg shows its Xid)",
    _RESET: "reset the GPU (nvidia-smi --gpu-reset) or reboot",
    18: "reload the driver's kernel modules or reboot: they are of another version than its library",
}
"""NVML's error code → remedy."""
_VIRTUAL = 2
"""NVML_GPU_VIRTUALIZATION_MODE_VGPU: a part of a card that the host shares out."""
_LEAST_SHARE = 0.8
"""Least share of the memory in a card's name that a whole card reports; ECC and the driver take the rest."""


class DriverUnavailable(Exception):
    """The library of a GPU driver cannot be used; the message says why. `responds`: the driver itself refused, so there is one."""

    def __init__(self, reason: str, responds: bool = False) -> None:
        super().__init__(reason)
        self.responds = responds


@dataclass(frozen=True)
class NvidiaDevice:
    """A GPU or a MIG instance that programs here can use. `index`: the driver's number of its card. `handle`: None where the card does not
    answer, then `fault` says why. `card`: the whole card's handle. `mig`: a MIG instance, or a card that is cut into some."""

    index: int
    uuid: str = ""
    handle: Any = None
    card: Any = None
    mig: bool = False
    fault: str | None = None


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
            raise DriverUnavailable(_with_remedy(error), _code(error) not in (None, _NO_DRIVER, _NO_LIBRARY)) from error

    def devices(self, variables: Mapping[str, str] = os.environ) -> list[NvidiaDevice]:
        """Devices that CUDA_VISIBLE_DEVICES shows, in its order. Raises nvml.NVMLError if not one card answers."""
        every = self.every_device()
        names = [(str(device.index), device.uuid, device.mig) for device in every]
        return [every[i] for i in visible_indices(names, variables.get("CUDA_VISIBLE_DEVICES"))]

    def every_device(self) -> list[NvidiaDevice]:
        """MIG instances of each card, or the card itself. Raises nvml.NVMLError if not one card answers."""
        nvml, found = self.library, list[NvidiaDevice]()
        refused: Exception | None = None
        for index in range(nvml.nvmlDeviceGetCount()):
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
            except nvml.NVMLError as error:
                refused = error
                if _code(error) != _NO_PERMISSION:  # that card is another container's
                    found.append(NvidiaDevice(index, fault=_with_remedy(error)))
                continue
            uuid = self.text("nvmlDeviceGetUUID", handle) or ""
            found += self._instances(index, handle) or [NvidiaDevice(index, uuid, handle, handle, self._cut(handle))]
        if refused is not None and all(device.fault for device in found):
            raise refused
        return found

    def _cut(self, card: Any) -> bool:
        mode = self.ask("nvmlDeviceGetMigMode", card)
        return bool(mode and mode[0])

    def _instances(self, index: int, card: Any) -> list[NvidiaDevice]:
        most = (self.ask("nvmlDeviceGetMaxMigDeviceCount", card) or 0) if self._cut(card) else 0
        handles = (self.ask("nvmlDeviceGetMigDeviceHandleByIndex", card, position) for position in range(most))
        return [
            NvidiaDevice(index, self.text("nvmlDeviceGetUUID", handle) or "", handle, card, True)
            for handle in handles
            if handle is not None
        ]

    def ask(self, function: str, *arguments: Any) -> Any:
        """The result of a function of NVML; None if it fails in any way: not every device, driver and package answers everything, and some
        answer with bytes that the package cannot decode. An argument that is text is the name of a constant."""
        try:
            own = [getattr(self.library, value) if isinstance(value, str) else value for value in arguments]
            return getattr(self.library, function)(*own)
        except Exception:  # noqa: BLE001 (the package's own errors, and whatever its wrappers raise on the driver's garbage)
            return None

    def text(self, function: str, *arguments: Any) -> str | None:
        return decoded(self.ask(function, *arguments))

    def amount(self, function: str, *arguments: Any) -> int | None:
        """A number above 0; None for anything else, such as 0 bytes on a system whose memory is shared, and for NVML's "not available"."""
        value = self.ask(function, *arguments)
        return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < _NOT_AVAILABLE else None

    def memory(self, device: NvidiaDevice) -> Any:
        """NVML's total, used and free bytes of the device; None where it has no memory of its own, or only its card's is known."""
        answer = None if device.mig and device.handle is device.card else self.ask("nvmlDeviceGetMemoryInfo", device.handle)
        total = getattr(answer, "total", None)
        return answer if isinstance(total, int | float) and total > 0 else None

    def close(self) -> None:
        self.library.nvmlShutdown()


_NOT_AVAILABLE = 2**32 - 1


def nvidia_facts(root: Path = ROOT, nvml: Any = None) -> dict[str, Scalar]:
    """`gpu.count` (None if the driver cannot be asked, then `gpu.unknown_because`), `gpu.<i>.*`, `driver.version`, `cuda.version`.

    `gpu.<i>.lost` is all that is known of a card that does not answer; it does not count. `gpu.hidden_because`: why none counts here.
    `gpu.<i>.slice`: which part of a card it is; absent of a whole one."""
    try:
        driver = NvidiaDriver(nvml)
    except DriverUnavailable as error:
        return _without_nvml(error, root)
    try:
        return _facts(driver)
    except driver.library.NVMLError as error:
        return {"gpu.count": None, "gpu.unknown_because": _with_remedy(error), "driver.version": None, "cuda.version": None}
    finally:
        driver.close()


def serial_numbers(nvml: Any = None) -> tuple[str, ...]:
    """The board's serial number of each visible GPU, or its UUID where it has none; empty text of a lost card. No facts: a sound card of the
    same kind is the same environment. They say which card to send back."""
    try:
        driver = NvidiaDriver(nvml)
    except DriverUnavailable:
        return ()
    try:
        return tuple(driver.text("nvmlDeviceGetSerial", device.card) or device.uuid for device in driver.devices())
    except driver.library.NVMLError:
        return ()
    finally:
        driver.close()


def product_name(name: str) -> str:
    """A GPU's name as node labels and declarations write it: `NVIDIA H100 80GB HBM3` → `NVIDIA-H100-80GB-HBM3`, `1g.10gb+me` → `1g.10gb.me`."""
    return "-".join(name.replace("+", ".").split())


def _without_nvml(error: DriverUnavailable, root: Path) -> dict[str, Scalar]:
    traces = "NVIDIA's driver is there" if error.responds else _nvidia_traces(root)
    facts: dict[str, Scalar] = {"gpu.count": 0, "driver.version": None, "cuda.version": None}
    return facts | {"gpu.count": None, "gpu.unknown_because": f"{traces}, but {error}"} if traces else facts


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
    devices = driver.devices()
    answering = [device for device in devices if device.fault is None]
    cuda = driver.amount("nvmlSystemGetCudaDriverVersion_v2")
    facts: dict[str, Scalar] = {
        "gpu.count": len(answering),
        "gpu.vendor": "nvidia",
        "driver.version": driver.text("nvmlSystemGetDriverVersion"),
        "cuda.version": None if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}",
    }
    for position, device in enumerate(devices):
        own: dict[str, Scalar] = {"lost": device.fault} if device.fault is not None else _gpu_facts(driver, device)
        own |= _nvlink_facts(driver, device.card, own["product"]) if device.fault is None else {}
        facts |= {f"gpu.{position}.{name}": value for name, value in own.items()}
    if len(answering) > 1 and not any(device.mig for device in answering):
        facts["gpu.nvlink_topology"] = _nvlink_topology(driver, [device.handle for device in answering])
    if not devices and (every := driver.every_device()):
        setting = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        facts["gpu.hidden_because"] = f'CUDA_VISIBLE_DEVICES is "{setting}", which shows none of {len(every)} GPUs'
    return facts


def visible_indices(devices: Sequence[tuple[str, str, bool]], setting: str | None) -> list[int]:
    """Positions of the devices that CUDA_VISIBLE_DEVICES shows, in its order; like CUDA, it stops at the first unknown.

    `devices`: each one's index, UUID (empty if unknown), and whether it is a MIG instance. An index and a card's UUID, or the beginning of one,
    mean the card's first instance. An instance of a card whose instances NVML does not list stands for the one that is named."""
    if setting is None:
        return list(range(len(devices)))
    positions: list[int] = []
    for name in (part.strip() for part in setting.split(",")):
        matching = _matching(devices, name)
        if len(matching) != 1 or matching[0] in positions:
            break
        positions += matching
    return positions


def _matching(devices: Sequence[tuple[str, str, bool]], name: str) -> list[int]:
    if name.isdigit():
        return [i for i, (index, _, _) in enumerate(devices) if index == name][:1]
    if not name.startswith(("GPU-", "MIG-")):
        return []
    if matching := [i for i, (_, uuid, _) in enumerate(devices) if uuid.startswith(name)]:
        return matching
    # Drivers before 470 name an instance by its card: MIG-GPU-<uuid>/<GPU instance>/<compute instance>.
    card = name.removeprefix("MIG-").partition("/")[0]
    unlisted = [i for i, (_, uuid, mig) in enumerate(devices) if mig and not uuid.startswith("MIG-")]
    return [i for i in unlisted if name.startswith("MIG-") and (not card.startswith("GPU-") or devices[i][1].startswith(card))]


def _gpu_facts(driver: NvidiaDriver, device: NvidiaDevice) -> dict[str, Scalar]:
    def ask(function: str, *arguments: Any) -> Any:
        return driver.ask(f"nvmlDeviceGet{function}", device.card, *arguments)

    def amount(function: str, *arguments: Any) -> int | None:
        return driver.amount(f"nvmlDeviceGet{function}", device.card, *arguments)

    product, memory, part = _identity(driver, device)
    # The power of a part is unknown: the card's limit is not its own.
    power, standard = (None if part else amount(name) for name in ("EnforcedPowerLimit", "PowerManagementDefaultLimit"))
    capability, persistence, ecc, mig = ask("CudaComputeCapability"), ask("PersistenceMode"), ask("EccMode"), ask("MigMode")
    facts: dict[str, Scalar] = {
        "product": product,
        "memory_bytes": memory,
        "compute_capability": None if capability is None else f"{capability[0]}.{capability[1]}",
        **{
            fact: driver.text(f"nvmlDeviceGet{name}", device.card)
            for fact, name in (("vbios", "VbiosVersion"), ("firmware", "GspFirmwareVersion"), ("inforom", "InforomImageVersion"))
        },
        "sm_clock_max_mhz": amount("MaxClockInfo", "NVML_CLOCK_SM"),
        "memory_clock_max_mhz": amount("MaxClockInfo", "NVML_CLOCK_MEM"),
        "sm_clock_cap_mhz": amount("ApplicationsClock", "NVML_CLOCK_SM"),
        "power_limit_w": None if power is None else power / 1000,
        "power_limit_default_w": None if standard is None else standard / 1000,
        "persistence": None if persistence is None else bool(persistence),
        "ecc": None if ecc is None else bool(ecc[0]),
        "mig": None if mig is None else bool(mig[0]),
        "pcie_generation_max": amount("MaxPcieLinkGeneration"),
        "pcie_width_max": amount("MaxPcieLinkWidth"),
        "pcie_width": amount("CurrPcieLinkWidth"),  # the generation is left out: an idle GPU saves power by lowering it
    }
    return facts | ({"slice": part} if part else {})


def _identity(driver: NvidiaDriver, device: NvidiaDevice) -> tuple[str | None, int | None, str | None]:
    """The device's product, its own bytes of memory, and which part of a card it is; each None where it is unknown, the last of a whole card."""
    name, card = (driver.text("nvmlDeviceGetName", handle) for handle in (device.handle, device.card))
    memory = driver.memory(device)
    size = None if memory is None else int(memory.total)
    if device.mig:
        profile = mig_profile(name or "") or _profile(driver, device.handle)
        composed = f"{product_name(card)}-MIG{f'-{profile}' if profile else ''}" if card else None
        own = product_name(name) if name and mig_profile(name) else composed
        return own, size, f"MIG {profile}" if profile else "MIG, size unknown"
    product = product_name(name) if name else None
    part = part_of_card(product)
    if part is None and driver.ask("nvmlDeviceGetVirtualizationMode", device.card) == _VIRTUAL:
        part = "vGPU"
    named = device_memory(product) if product and re.search(r"\d+GB?\b", product) else None
    if part is None and size is not None and named is not None and size < _LEAST_SHARE * named:
        part = f"{size / 2**30:.3g} of {named / 2**30:.3g} GiB"
    return product, size, part


def slice_of(driver: NvidiaDriver, device: NvidiaDevice) -> str | None:
    """Which part of a card the device is; None of a whole card."""
    return _identity(driver, device)[2]


def _profile(driver: NvidiaDriver, instance: Any) -> str | None:
    """A MIG instance's profile by its attributes, for drivers whose names of instances lack it."""
    attributes = driver.ask("nvmlDeviceGetAttributes_v2", instance) or driver.ask("nvmlDeviceGetAttributes", instance)
    slices, size = getattr(attributes, "gpuInstanceSliceCount", None), getattr(attributes, "memorySizeMB", None)
    return f"{slices}g.{-(-size // 1024)}gb" if slices and size else None


def decoded(value: Any) -> str | None:
    """Text of the driver; None of bytes that are no text, and of its words for nothing."""
    if isinstance(value, bytes):
        try:
            return decoded(value.decode())
        except UnicodeDecodeError:
            return None
    text = ("" if value is None else str(value)).strip("\0 \t\n")
    return text if text.isprintable() and text.strip("[]").lower() not in ("", "n/a", "unknown", "unknown error", "not supported") else None


def _code(error: BaseException) -> int | None:
    value = getattr(error, "value", None)
    return value if isinstance(value, int) else None


def _with_remedy(error: BaseException) -> str:
    remedy = _REMEDIES.get(_code(error) or 0)
    return f"{error}; {remedy}" if remedy else str(error)


_NEAREST = {0: "one board", 10: "one PCIe switch", 20: "PCIe switches", 30: "one host bridge", 40: "one CPU", 50: "between CPUs"}
"""NVML's levels of the nearest common ancestor of two GPUs."""


_ON_A_BOARD = re.compile(r"SXM|H[128]00-\d+GB-HBM3|H200$|\bG?B[23]00\b")
"""Products that NVIDIA sells only on boards whose NVLinks are all connected."""


def active_links(driver: NvidiaDriver, handle: Any) -> list[int]:
    """The NVLinks of a GPU that are up."""
    return [link for link, state in enumerate(_link_states(driver, handle)) if state == 1]  # NVML_FEATURE_ENABLED


def _link_states(driver: NvidiaDriver, handle: Any) -> list[Any]:
    """Links are numbered from 0: a GPU without one has no further one."""
    most = getattr(driver.library, "NVML_NVLINK_MAX_LINKS", 18)
    return list(takewhile(lambda state: state is not None, (driver.ask("nvmlDeviceGetNvLinkState", handle, link) for link in range(most))))


def _nvlink_facts(driver: NvidiaDriver, handle: Any, product: Scalar) -> dict[str, Scalar]:
    """`nvlink_active`: links that are up (0 without NVLink); `nvlink_version`, None without one; `nvlink_down`: those of a board that should be."""
    active, known = active_links(driver, handle), len(_link_states(driver, handle))
    version = driver.ask("nvmlDeviceGetNvLinkVersion", handle, active[0]) if active else None
    facts: dict[str, Scalar] = {"nvlink_active": len(active), "nvlink_version": None if version is None else int(version)}
    return facts | ({"nvlink_down": known - len(active)} if known > len(active) and _ON_A_BOARD.search(str(product)) else {})


def _nvlink_topology(driver: NvidiaDriver, handles: Sequence[Any]) -> str | None:
    """GPU pairs by their connection, such as `NVLink: all` or `NVLink: 0-1 2-3; between CPUs: 0-2 0-3 1-2 1-3`."""
    ways: dict[str, list[str]] = {}
    for (i, one), (j, other) in combinations(enumerate(handles), 2):
        ways.setdefault(_connection(driver, one, other), []).append(f"{i}-{j}")
    if len(ways) == 1:
        return f"{next(iter(ways))}: all"
    return "; ".join(f"{way}: {' '.join(pairs)}" for way, pairs in sorted(ways.items())) or None


def _connection(driver: NvidiaDriver, one: Any, other: Any) -> str:
    if driver.ask("nvmlDeviceGetP2PStatus", one, other, "NVML_P2P_CAPS_INDEX_NVLINK") == 0:  # NVML_P2P_STATUS_OK
        return "NVLink"  # also through switches, whose far end no single link tells
    return _NEAREST.get(driver.ask("nvmlDeviceGetTopologyCommonAncestor", one, other), "unknown")
