"""AMD GPUs as AMD SMI reports them. It comes with ROCm, as the package `amdsmi`; elsewhere it may be absent.

AMD SMI writes N/A for what a card does not tell, and renamed fields between releases of ROCm: `number` and `word` know both.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from plumbline.harness.environment.cpu import ROOT
from plumbline.harness.environment.nvidia import product_name, visible_indices
from plumbline.harness.environment.sysfs import read_text
from plumbline.results import Scalar


def amd_facts(root: Path = ROOT, amdsmi: Any = None) -> dict[str, Scalar]:
    """`gpu.count`, `gpu.<i>.*`, `driver.version`, `rocm.version`; empty without the kernel's driver for AMD GPUs, and the reason where it is
    there but nobody could look.

    `amdsmi`: a module with its functions; the installed one if left out.
    """
    if not (root / "dev/kfd").exists():
        return {}
    try:
        library = amdsmi or importlib.import_module("amdsmi")
    except (ImportError, OSError, KeyError) as error:
        return _unknown(f"the package amdsmi cannot be used: {type(error).__name__}: {error}")
    try:
        library.amdsmi_init()
    except library.AmdSmiException as error:
        return _unknown(str(error))
    try:
        return _all(library, root)
    except library.AmdSmiException as error:
        return _unknown(str(error))
    finally:
        library.amdsmi_shut_down()


def visible_handles(amdsmi: Any) -> list[Any]:
    """Handles of the GPUs that HIP_VISIBLE_DEVICES (else CUDA_VISIBLE_DEVICES, which ROCm obeys too) shows. Raises AmdSmiException."""
    found = list(amdsmi.amdsmi_get_processor_handles())
    names = [(str(i), str(amdsmi.amdsmi_get_gpu_device_uuid(handle))) for i, handle in enumerate(found)]
    setting = os.environ.get("HIP_VISIBLE_DEVICES", os.environ.get("CUDA_VISIBLE_DEVICES"))
    return [found[i] for i in visible_indices(names, setting)]


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


def _all(amdsmi: Any, root: Path) -> dict[str, Scalar]:
    shown = visible_handles(amdsmi)
    found: dict[str, Scalar] = {
        "gpu.count": len(shown),
        "gpu.vendor": "amd",
        "driver.version": first_text(amdsmi.amdsmi_get_gpu_driver_info(shown[0]), "driver_version") if shown else None,
        "rocm.version": read_text(root / "opt/rocm/.info/version"),
    }
    for position, handle in enumerate(shown):
        found |= {f"gpu.{position}.{name}": value for name, value in _one(amdsmi, handle).items()}
    return found


def _one(amdsmi: Any, handle: Any) -> dict[str, Scalar]:
    def asked(question: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return question(handle, *arguments)
        except amdsmi.AmdSmiException:
            return None  # not every card, guest and driver answers everything

    asic, memory = asked(amdsmi.amdsmi_get_gpu_asic_info), first_number(asked(amdsmi.amdsmi_get_gpu_vram_usage), "vram_total")
    cap, pcie = asked(amdsmi.amdsmi_get_power_cap_info), (asked(amdsmi.amdsmi_get_pcie_info) or {}).get("pcie_static")
    power, standard = first_number(cap, "power_cap"), first_number(cap, "default_power_cap")
    units, width = first_number(asic, "num_compute_units"), first_number(pcie, "max_pcie_width")
    return {
        "product": product_name(first_text(asic, "market_name") or "AMD GPU"),
        "architecture": first_text(asic, "target_graphics_version"),
        "compute_units": None if units is None else int(units),
        "memory_bytes": None if memory is None else int(memory) * 2**20,
        "vbios": first_text(asked(amdsmi.amdsmi_get_gpu_vbios_info), "version", "part_number"),
        "sm_clock_max_mhz": first_number(asked(amdsmi.amdsmi_get_clock_info, amdsmi.AmdSmiClkType.GFX), "max_clk"),
        "memory_clock_max_mhz": first_number(asked(amdsmi.amdsmi_get_clock_info, amdsmi.AmdSmiClkType.MEM), "max_clk"),
        "power_limit_w": None if power is None else power / 1e6,
        "power_limit_default_w": None if standard is None else standard / 1e6,
        "compute_partition": first_text({"mode": asked(amdsmi.amdsmi_get_gpu_compute_partition)}, "mode"),
        "memory_partition": first_text({"mode": asked(amdsmi.amdsmi_get_gpu_memory_partition)}, "mode"),
        "pcie_width_max": None if width is None else int(width),
    }
