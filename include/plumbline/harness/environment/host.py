"""The machine and its operating system: kernel, C library, memory, and what sort of machine it is."""

from __future__ import annotations

import platform
from pathlib import Path

import psutil

from plumbline.harness.environment import cpu
from plumbline.harness.environment.sysfs import chosen, text
from plumbline.results import Scalar

_PARAMETERS = frozenset(
    ("mitigations", "isolcpus", "nohz_full", "rcu_nocbs", "iommu", "intel_iommu", "amd_iommu", "hugepages", "hugepagesz", "numa_balancing")
)
"""Others name disks and machines."""


def facts(root: Path = cpu.ROOT) -> dict[str, Scalar]:
    """`os.*`, `memory.*` and `host.*`; `os.boot.<name>` for each parameter of the kernel's command line that changes how fast things are."""
    memory = root / "sys/kernel/mm/transparent_hugepage"
    dmi = root / "sys/class/dmi/id"
    return _boot(root) | {
        "os.name": _name(root),
        "os.kernel": platform.release(),
        "os.architecture": platform.machine(),
        "os.libc": " ".join(part for part in platform.libc_ver() if part) or None,
        "os.clock_source": text(root / "sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "memory.total_bytes": psutil.virtual_memory().total,
        "memory.swap_bytes": psutil.swap_memory().total,
        "memory.huge_pages": chosen(memory / "enabled"),
        "host.virtualization": _virtualization(root),
        "host.vendor": text(dmi / "sys_vendor"),
        "host.product": text(dmi / "product_name"),
        "host.firmware": text(dmi / "bios_version"),
    }


def _boot(root: Path) -> dict[str, Scalar]:
    parts = (part.partition("=") for part in (text(root / "proc/cmdline") or "").split())
    return {f"os.boot.{name}": value or True for name, _, value in parts if name in _PARAMETERS}


def _name(root: Path) -> str:
    for line in (text(root / "etc/os-release") or "").splitlines():
        key, _, value = line.partition("=")
        if key == "PRETTY_NAME":
            return value.strip("\"'")
    return platform.system()


def _virtualization(root: Path) -> str | None:
    kind = text(root / "sys/hypervisor/type")
    if kind is not None:
        return kind
    flag = cpu.has_hypervisor_flag(root)
    if flag is None:
        return None
    if not flag:
        return "none"
    clock = text(root / "sys/devices/system/clocksource/clocksource0/available_clocksource") or ""
    return "kvm" if "kvm-clock" in clock else "hyperv" if "hyperv" in clock else "virtual machine"
