"""AMD GPUs as AMD SMI, ROCm's package `amdsmi`, reports them.

AMD SMI writes N/A for absent values and renamed fields between releases of ROCm: `first_number` and `first_text` know both.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plumbline.harness.environment.nvidia import DriverUnavailable, product_name, visible_indices
from plumbline.harness.environment.sysfs import ROOT, read_text
from plumbline.results import Scalar


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

    def handles(self) -> list[Any]:
        """Of the GPUs that HIP_VISIBLE_DEVICES (else CUDA_VISIBLE_DEVICES, which ROCm obeys too) shows. Raises AmdSmiException."""
        handles = list(self.library.amdsmi_get_processor_handles())
        names = [(str(i), str(self.library.amdsmi_get_gpu_device_uuid(handle))) for i, handle in enumerate(handles)]
        setting = os.environ.get("HIP_VISIBLE_DEVICES", os.environ.get("CUDA_VISIBLE_DEVICES"))
        return [handles[i] for i in visible_indices(names, setting)]

    def ask(self, function: str, *arguments: Any) -> Any:
        """What `amdsmi_get_<function>` returns; None without an answer or such a function."""
        try:
            return getattr(self.library, f"amdsmi_get_{function}")(*arguments)
        except (self.library.AmdSmiException, AttributeError):
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


def first_number(answer: Mapping[str, Any] | None, *names: str) -> float | None:
    """The first of these fields that holds a number."""
    for name in names:
        value = (answer or {}).get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    return None


def first_text(answer: Mapping[str, Any] | None, *names: str) -> str | None:
    """The first of these fields that says anything."""
    return next((str(value) for name in names if (value := (answer or {}).get(name)) not in (None, "", "N/A")), None)


def _unknown(reason: str) -> dict[str, Scalar]:
    return {"gpu.count": None, "gpu.unknown_because": f"/dev/kfd is there, but {reason}", "driver.version": None, "rocm.version": None}


def _facts(driver: AmdDriver, root: Path) -> dict[str, Scalar]:
    handles = driver.handles()
    facts: dict[str, Scalar] = {
        "gpu.count": len(handles),
        "gpu.vendor": "amd",
        "driver.version": first_text(driver.library.amdsmi_get_gpu_driver_info(handles[0]), "driver_version") if handles else None,
        "rocm.version": read_text(root / "opt/rocm/.info/version"),
    }
    for position, handle in enumerate(handles):
        facts |= {f"gpu.{position}.{name}": value for name, value in _gpu_facts(driver, handle).items()}
    return facts


def _gpu_facts(driver: AmdDriver, handle: Any) -> dict[str, Scalar]:
    clocks = driver.library.AmdSmiClkType
    asic, memory = driver.ask("gpu_asic_info", handle), first_number(driver.ask("gpu_vram_usage", handle), "vram_total")
    cap, pcie = driver.ask("power_cap_info", handle), (driver.ask("pcie_info", handle) or {}).get("pcie_static")
    power, standard = first_number(cap, "power_cap"), first_number(cap, "default_power_cap")
    units, width = first_number(asic, "num_compute_units"), first_number(pcie, "max_pcie_width")
    return {
        "product": product_name(first_text(asic, "market_name") or "AMD GPU"),
        "architecture": first_text(asic, "target_graphics_version"),
        "compute_units": None if units is None else int(units),
        "memory_bytes": None if memory is None else int(memory) * 2**20,
        "vbios": first_text(driver.ask("gpu_vbios_info", handle), "version", "part_number"),
        "sm_clock_max_mhz": first_number(driver.ask("clock_info", handle, clocks.GFX), "max_clk"),
        "memory_clock_max_mhz": first_number(driver.ask("clock_info", handle, clocks.MEM), "max_clk"),
        "power_limit_w": None if power is None else power / 1e6,
        "power_limit_default_w": None if standard is None else standard / 1e6,
        "compute_partition": first_text({"mode": driver.ask("gpu_compute_partition", handle)}, "mode"),
        "memory_partition": first_text({"mode": driver.ask("gpu_memory_partition", handle)}, "mode"),
        "pcie_width_max": None if width is None else int(width),
    }
