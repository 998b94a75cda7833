"""How busy the machine is, read from the kernel's counters."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class CoreTimes:
    """Seconds since boot, summed over some cores."""

    idle_s: float
    interrupts_s: float
    stolen_s: float


def core_times(cpus: Collection[int], stat: Path = Path("/proc/stat")) -> CoreTimes:
    """Counters of `cpus` from /proc/stat. OSError if there are none; ValueError if a core is not in it.

    The idle counter is the exact one: the kernel clocks it when a core goes to sleep and wakes, while user and system time
    are sampled at each tick and so miss work that is paced by a timer.
    """
    wanted = {f"cpu{cpu}" for cpu in cpus}
    idle = interrupts = stolen = 0
    with stat.open() as file:
        for line in file:
            if not line.startswith("cpu"):
                break
            name, *fields = line.split()
            if name in wanted:
                wanted.remove(name)
                ticks = [int(field) for field in fields]
                idle += ticks[3] + ticks[4]
                interrupts += ticks[5] + ticks[6]
                stolen += ticks[7]
    if wanted:
        raise ValueError(f"{stat} does not list {', '.join(sorted(wanted))}; expected every core of the trial")
    return CoreTimes(idle * _TICK_S, interrupts * _TICK_S, stolen * _TICK_S)


def pressure_file(root: Path = Path("/")) -> Path | None:
    """Where PSI for the CPU can be read: the process's own cgroup (a pod's), else the machine; None without PSI."""
    candidates = [root / "proc/pressure/cpu"]
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        lines = []
    own = next((line[3:].strip("/") for line in lines if line.startswith("0::")), None)
    if own is not None:
        candidates.insert(0, root / "sys/fs/cgroup" / own / "cpu.pressure")
    for candidate in candidates:
        try:
            pressure_s(candidate)
        except (OSError, ValueError):
            continue  # PSI can be compiled in and yet switched off: the file is there and cannot be read
        return candidate
    return None


def pressure_s(file: Path) -> float:
    """Seconds so far in which at least one task that could run waited for a core (`some total`, kept in microseconds)."""
    for line in file.read_text().splitlines():
        if line.startswith("some "):
            return int(line.rsplit("total=", 1)[1]) / 1e6
    raise ValueError(f"{file} has no line 'some … total=…'; expected the kernel's PSI format")
