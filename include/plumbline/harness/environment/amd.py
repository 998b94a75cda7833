"""AMD GPUs as AMD SMI, ROCm's package `amdsmi`, reports them.

AMD SMI writes N/A for absent values, and renamed fields and changed units between releases of ROCm: the functions here know them. A partition
of a card (CPX and the like) is a device of its own, without the card's power and, in NPS1, without memory of its own.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plumbline.harness.environment.nvidia import DriverUnavailable, decoded, product_name, visible_indices
from plumbline.harness.environment.sysfs import ROOT, read_text
from plumbline.results import Scalar


@dataclass(frozen=True)
class AmdDevice:
    """A GPU, or a partition of one: then `partition` is its card's compute mode, such as CPX, and `card` answers for the whole card."""

    handle: Any
    card: Any
    partition: str | None = None


class AmdDriver:
    """AMD SMI, open until `close`. `amdsmi`: a module with its functions; the installed one if left out. Raises DriverUnavailable."""

    def __init__(self, amdsmi: Any = None) -> None:
        try:
            self.library = amdsmi or importlib.import_module("amdsmi")
        except (ImportError, OSError, KeyError) as error:  # the package loads ROCm's own library when it is imported
            raise DriverUnavailable(f"the package amdsmi cannot be used: {type(error).__name__}: {error}") from error
        try:
            self.library.amdsmi_init()
        except self.library.AmdSmiException as error:
            raise DriverUnavailable(str(error)) from error

    def devices(self, variables: Mapping[str, str] = os.environ) -> list[AmdDevice]:
        """The GPUs and partitions that are visible here, in order: ROCR_VISIBLE_DEVICES chooses first, and HIP_VISIBLE_DEVICES (else
        CUDA_VISIBLE_DEVICES, which ROCm obeys too) counts what that shows. Raises AmdSmiException."""
        devices = self.every_device()
        hip = variables.get("HIP_VISIBLE_DEVICES", variables.get("CUDA_VISIBLE_DEVICES"))
        for setting in (variables.get("ROCR_VISIBLE_DEVICES"), hip):
            names = [(str(i), self._uuid(device.handle), False) for i, device in enumerate(devices)]
            devices = [devices[i] for i in visible_indices(names, setting)]
        return devices

    def every_device(self) -> list[AmdDevice]:
        """Raises AmdSmiException."""
        devices: list[AmdDevice] = []
        for handle in self.library.amdsmi_get_processor_handles():
            # Partitions of a card after its first have no name in some releases.
            named = first_text(self.ask("gpu_asic_info", handle), "market_name") is not None
            card = handle if named or not devices or devices[-1].partition is None else devices[-1].card
            devices.append(AmdDevice(handle, card, self._partition(handle) or self._partition(card)))
        return devices

    def _uuid(self, handle: Any) -> str:
        """The UUID of ROCm's runtime: GPU- and the serial number of the chip, which AMD SMI's own UUID does not contain."""
        serial = first_text(self.ask("gpu_asic_info", handle), "asic_serial")
        return f"GPU-{serial.removeprefix('0x').lower().zfill(16)}" if serial else ""

    def _partition(self, handle: Any) -> str | None:
        mode = first_text({"mode": self.ask("gpu_compute_partition", handle)}, "mode")
        return mode if mode != "SPX" else None

    def ask(self, function: str, *arguments: Any) -> Any:
        """The result of `amdsmi_get_<function>`; None if it fails in any way."""
        try:
            return getattr(self.library, f"amdsmi_get_{function}")(*arguments)
        except Exception:  # noqa: BLE001 (the package's own errors, and whatever its wrappers raise on the driver's garbage)
            return None

    def close(self) -> None:
        self.library.amdsmi_shut_down()


def amd_facts(root: Path = ROOT, amdsmi: Any = None) -> dict[str, Scalar]:
    """`gpu.count`, `gpu.<i>.*`, `driver.version`, `rocm.version`; empty without the kernel's AMD driver, and with a reason if AMD SMI fails."""
    if not (root / "dev/kfd").exists():
        return {}
    try:
        driver = AmdDriver(amdsmi)
    except DriverUnavailable as error:
        return _unknown(str(error))
    try:
        return _facts(driver, root)
    except driver.library.AmdSmiException as error:
        return _unknown(str(error))
    finally:
        driver.close()


def first_number(answer: Any, *names: str) -> float | None:
    """The first of these fields that holds a number."""
    for name in names:
        value = answer.get(name) if isinstance(answer, Mapping) else None
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    return None


def watts(answer: Any, *names: str) -> float | None:
    """The first of these fields with a power: releases of ROCm write W or µW, and 0 or all bits of the field for none."""
    values = (first_number(answer, name) for name in names)
    return next((v if v < _MICRO else v / 1e6 for v in values if v is not None and v > 0 and v not in _ALL_BITS), None)


_MICRO = 20_000.0
"""No card draws as many W, and none as few µW."""
_ALL_BITS = (2.0**16 - 1, 2.0**32 - 1, 2.0**64 - 1)


def vram_bytes(answer: Any, name: str) -> int | None:
    """AMD SMI counts MiB. None where the GPU has no memory of its own, whose total is 0."""
    total, value = first_number(answer, "vram_total"), first_number(answer, name)
    return int(value) * 2**20 if total and value is not None else None


def first_text(answer: Any, *names: str) -> str | None:
    """The first of these fields that says anything."""
    fields = answer if isinstance(answer, Mapping) else {}
    return next((text for name in names if (text := decoded(fields.get(name))) is not None), None)


def _unknown(reason: str) -> dict[str, Scalar]:
    return {"gpu.count": None, "gpu.unknown_because": f"/dev/kfd is there, but {reason}", "driver.version": None, "rocm.version": None}


def _facts(driver: AmdDriver, root: Path) -> dict[str, Scalar]:
    devices = driver.devices()
    facts: dict[str, Scalar] = {
        "gpu.count": len(devices),
        "gpu.vendor": "amd",
        "driver.version": first_text(driver.ask("gpu_driver_info", devices[0].card), "driver_version") if devices else None,
        "rocm.version": read_text(root / "opt/rocm/.info/version"),
    }
    for position, device in enumerate(devices):
        facts |= {f"gpu.{position}.{name}": value for name, value in _gpu_facts(driver, device).items()}
    if not devices and (every := driver.every_device()):
        settings = ((name, os.environ.get(name)) for name in ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"))
        shown = " and ".join(f'{name} is "{value}"' for name, value in settings if value is not None)
        facts["gpu.hidden_because"] = f"{shown}, which shows none of {len(every)} GPUs"
    return facts


def _gpu_facts(driver: AmdDriver, device: AmdDevice) -> dict[str, Scalar]:
    clocks, handle, card, partition = driver.library.AmdSmiClkType, device.handle, device.card, device.partition
    asic, cap, pcie = driver.ask("gpu_asic_info", handle), driver.ask("power_cap_info", handle), driver.ask("pcie_info", handle)
    static = pcie.get("pcie_static") if isinstance(pcie, Mapping) else None
    name, units = first_text(driver.ask("gpu_asic_info", card), "market_name"), first_number(asic, "num_compute_units")
    width, spread = first_number(static, "max_pcie_width"), first_text({"mode": driver.ask("gpu_memory_partition", card)}, "mode")
    # In NPS1 all partitions of a card share its whole memory, so none of it is a partition's own.
    memory = None if partition and spread in (None, "NPS1") else vram_bytes(driver.ask("gpu_vram_usage", handle), "vram_total")
    facts: dict[str, Scalar] = {
        "product": None if name is None else product_name(name) + (f"-{partition}" if partition else ""),
        "architecture": first_text(asic, "target_graphics_version"),
        "compute_units": None if units is None else int(units),
        "memory_bytes": memory,
        "vbios": first_text(driver.ask("gpu_vbios_info", handle), "version", "part_number"),
        "sm_clock_max_mhz": first_number(driver.ask("clock_info", handle, clocks.GFX), "max_clk"),
        "memory_clock_max_mhz": first_number(driver.ask("clock_info", handle, clocks.MEM), "max_clk"),
        "power_limit_w": None if partition else watts(cap, "power_cap"),
        "power_limit_default_w": None if partition else watts(cap, "default_power_cap"),
        "compute_partition": first_text({"mode": driver.ask("gpu_compute_partition", handle)}, "mode"),
        "memory_partition": spread,
        "pcie_width_max": None if width is None else int(width),
    }
    return facts | ({"slice": f"{partition} partition"} if partition else {})
