"""The machine and its operating system."""

from __future__ import annotations

import platform
from pathlib import Path

import psutil

from plumbline.harness.environment import cpu
from plumbline.harness.environment.sysfs import ROOT, read_choice, read_text
from plumbline.results import Scalar

_PARAMETERS = frozenset(
    ("mitigations", "isolcpus", "nohz_full", "rcu_nocbs", "iommu", "intel_iommu", "amd_iommu", "hugepages", "hugepagesz", "numa_balancing")
)
"""Other parameters name disks and machines."""


def host_facts(root: Path = ROOT) -> dict[str, Scalar]:
    """`os.*`, `memory.*` and `host.*`; `os.boot.<name>` for each parameter of the kernel's command line that changes how fast things are."""
    memory = root / "sys/kernel/mm/transparent_hugepage"
    dmi = root / "sys/class/dmi/id"
    return _boot_parameters(root) | {
        "os.name": _os_name(root),
        "os.kernel": platform.release(),
        "os.architecture": platform.machine(),
        "os.libc": " ".join(part for part in platform.libc_ver() if part) or None,
        "os.clock_source": read_text(root / "sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "memory.total_bytes": psutil.virtual_memory().total,
        "memory.swap_bytes": psutil.swap_memory().total,
        "memory.huge_pages": read_choice(memory / "enabled"),
        "host.virtualization": _virtualization(root),
        "host.vendor": read_text(dmi / "sys_vendor"),
        "host.product": read_text(dmi / "product_name"),
        "host.firmware": read_text(dmi / "bios_version"),
    }


def _boot_parameters(root: Path) -> dict[str, Scalar]:
    parts = (part.partition("=") for part in (read_text(root / "proc/cmdline") or "").split())
    return {f"os.boot.{name}": value or True for name, _, value in parts if name in _PARAMETERS}


def _os_name(root: Path) -> str:
    for line in (read_text(root / "etc/os-release") or "").splitlines():
        key, _, value = line.partition("=")
        if key == "PRETTY_NAME":
            return value.strip("\"'")
    return platform.system()


def _virtualization(root: Path) -> str | None:
    kind = read_text(root / "sys/hypervisor/type")
    if kind is not None:
        return kind
    flag = cpu.has_hypervisor_flag(root)
    if flag is None:
        return None
    if not flag:
        return "none"
    clock = read_text(root / "sys/devices/system/clocksource/clocksource0/available_clocksource") or ""
    return "kvm" if "kvm-clock" in clock else "hyperv" if "hyperv" in clock else "virtual machine"
