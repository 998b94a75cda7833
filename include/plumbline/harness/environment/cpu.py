"""The processor, the trial's part of it, and its governor."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path

from plumbline.harness.environment.sysfs import ROOT, format_ranges, read_int, read_size, read_text
from plumbline.harness.launcher_protocol import CPU_LIMIT_VARIABLE
from plumbline.results import Scalar

# Instruction sets that kernels of BLAS, oneDNN and PyTorch choose between; any other flag changes no number here.
_ISA = re.compile(
    r"sse4_2|avx2?|fma|f16c|avx512(f|bw|vl|_vnni|_bf16|_fp16)|avx_vnni|amx_(tile|bf16|int8)|asimd(hp|dp)?|bf16|i8mm|sve2?|sme"
)


def cpu_limit(variables: Mapping[str, str]) -> int | None:
    """Cores' worth of time that limits a pod; None without a limit.

    ValueError naming the variable and the expected value."""
    value = variables.get(CPU_LIMIT_VARIABLE)
    if value is None:
        return None
    if not value.isdigit() or int(value) < 1:
        raise ValueError(f"{CPU_LIMIT_VARIABLE} is {value!r}; expected the pod's limit in whole cores, such as 4")
    return int(value)


def allotted_cores() -> int:
    """Cores' worth of time for the trial; below the usable cores where a pod shares its node."""
    limit = cpu_limit(os.environ)
    return len(usable_cores()) if limit is None else min(limit, len(usable_cores()))


def usable_cores() -> tuple[int, ...]:
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))  # macOS has no affinity: every core is usable


def cpu_facts(root: Path = ROOT) -> dict[str, Scalar]:
    """`cpu.*` and `numa.*`."""
    cores = usable_cores()
    info = _cpuinfo(root)
    flags = frozenset((info.get("flags") or info.get("Features") or "").split())
    devices = root / "sys/devices/system"
    facts: dict[str, Scalar] = {
        "cpu.model": info.get("model name") or info.get("Model") or info.get("CPU part") or platform.processor() or None,
        "cpu.vendor": info.get("vendor_id") or info.get("CPU implementer"),
        "cpu.microcode": info.get("microcode"),
        "cpu.isa": " ".join(sorted(filter(_ISA.fullmatch, flags))) or None,
        "cpu.logical": os.cpu_count(),
        "cpu.physical": _physical(devices / "cpu"),
        "cpu.sockets": len({read_int(socket) for socket in devices.glob("cpu/cpu[0-9]*/topology/physical_package_id")} - {None}) or None,
        "cpu.usable": len(cores),
        "cpu.usable_list": format_ranges(cores),
        "cpu.smt": {"0": False, "1": True}.get(read_text(devices / "cpu/smt/active") or ""),
        "cpu.governor": read_text(devices / f"cpu/cpu{cores[0]}/cpufreq/scaling_governor"),
        "cpu.frequency_max_mhz": _megahertz(devices / f"cpu/cpu{cores[0]}/cpufreq/cpuinfo_max_freq"),
        "cpu.frequency_limit_mhz": _megahertz(devices / f"cpu/cpu{cores[0]}/cpufreq/scaling_max_freq"),
        "cpu.boost": _boost(devices / "cpu"),
        "numa.nodes": len(list((devices / "node").glob("node[0-9]*"))) or None,
        "numa.usable_nodes": _numa_nodes(devices / "node", cores),
        "numa.balancing": read_int(root / "proc/sys/kernel/numa_balancing"),
    }
    facts |= {f"cpu.cache.{name}_bytes": size for name, size in _caches(devices / f"cpu/cpu{cores[0]}/cache").items()}
    for file in sorted((devices / "cpu/vulnerabilities").glob("*")):
        state = read_text(file)
        if state is not None and state != "Not affected":  # what is mitigated costs speed, and a kernel update changes it
            facts[f"cpu.vulnerability.{file.name}"] = state
    return facts


def last_level_cache_bytes(root: Path = ROOT) -> int | None:
    return max(_caches(root / f"sys/devices/system/cpu/cpu{usable_cores()[0]}/cache").values(), default=None)


def has_hypervisor_flag(root: Path = ROOT) -> bool | None:
    """Whether the processor says that it is virtual; None where processors do not say."""
    flags = _cpuinfo(root).get("flags")
    return None if flags is None else "hypervisor" in flags.split()


def _cpuinfo(root: Path) -> dict[str, str]:
    """The first processor of /proc/cpuinfo, plus shared keys (ARM)."""
    fields: dict[str, str] = {}
    for line in (read_text(root / "proc/cpuinfo") or "").splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    return fields


def _physical(folder: Path) -> int | None:
    cores = {
        (read_int(core / "topology/physical_package_id"), read_int(core / "topology/core_id"))
        for core in folder.glob("cpu[0-9]*")
        if (core / "topology").is_dir()
    }
    return len(cores) or None


def _boost(folder: Path) -> bool | None:
    allowed, forbidden = read_int(folder / "cpufreq/boost"), read_int(folder / "intel_pstate/no_turbo")
    if allowed is not None:
        return bool(allowed)
    return None if forbidden is None else not forbidden


def _numa_nodes(folder: Path, cores: tuple[int, ...]) -> str | None:
    nodes = [node.name.removeprefix("node") for node in folder.glob("node[0-9]*") if any((node / f"cpu{core}").exists() for core in cores)]
    return format_ranges(map(int, nodes)) or None


def _megahertz(file: Path) -> float | None:
    kilohertz = read_int(file)
    return None if kilohertz is None else kilohertz / 1000


def _caches(folder: Path) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for index in sorted(folder.glob("index[0-9]*")):
        size = read_size(index / "size")
        if size is not None:
            letter = {"Data": "d", "Instruction": "i"}.get(read_text(index / "type") or "", "")
            sizes[f"l{read_text(index / 'level')}{letter}"] = size
    return sizes
