"""CPU time of cores and of a process tree, and CPU pressure, from the kernel's counters."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from plumbline.harness.environment.container import cgroup_folders

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
    candidates = [*(folder / "cpu.pressure" for folder in islice(cgroup_folders(root, ""), 1)), root / "proc/pressure/cpu"]
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


@dataclass(frozen=True)
class _ProcessStat:
    parent: int
    started: int
    cpu_s: float
    """Own user and system time plus that of the children it has waited for."""


class ProcessTreeCpu:
    """A process tree under `root`. A process that was seen in it stays in it, even if its parent dies first.

    A child's time lies in its own /proc/<pid>/stat while it lives and in its parent's `cutime`/`cstime` once it was waited
    for: the sum over the living tree therefore never forgets a child, whether or not it was ever seen alive.
    """

    def __init__(self, root: int | None = None, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self.root = root or os.getpid()
        self._members: dict[int, int] = {}  # pid → start time; parents come before their children
        self._strangers: set[int] = set()
        self._lost_s = 0.0
        self._last_s = 0.0
        first = self._stat(self.root)
        if first is None:
            raise ProcessLookupError(f"there is no process {self.root}")
        self._members[self.root] = first.started

    def seconds(self) -> float:
        """CPU seconds of the tree so far. Only differences mean anything; it never falls."""
        self._discover()
        total = self._total()
        if total < self._last_s - self._lost_s:
            # A child ended between reading its parent and reading it: its time stands in the parent's by now.
            total = self._total()
        if total < self._last_s - self._lost_s:
            # Truly gone: an orphan that somebody else waited for took its time along.
            self._lost_s = self._last_s - total
        self._last_s = total + self._lost_s
        return self._last_s

    def _total(self) -> float:
        total = 0.0
        for pid, started in list(self._members.items()):
            # Parents are read before their children, so that a child waited for in between is missed, never counted twice.
            stat = self._stat(pid)
            if stat is None or stat.started != started:
                del self._members[pid]
                continue
            total += stat.cpu_s
        return total

    def _discover(self) -> None:
        """Adopt new descendants. Only unseen processes are read: a full scan costs too much on a big node."""
        alive = {int(name) for name in os.listdir(self._proc) if name.isdigit()}  # noqa: PTH208 - names alone, ten times cheaper
        self._strangers &= alive
        fresh = {pid: stat for pid in alive - self._strangers - self._members.keys() if (stat := self._stat(pid)) is not None}
        ordered = sorted(fresh.items(), key=lambda item: (item[1].started, item[0]))
        found = True
        while found:
            found = False
            for pid, stat in ordered:
                if pid not in self._members and stat.parent in self._members:
                    self._members[pid] = stat.started
                    found = True
        self._strangers.update(fresh.keys() - self._members.keys())

    def _stat(self, pid: int) -> _ProcessStat | None:
        try:
            text = (self._proc / str(pid) / "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return None
        # The command's name stands in brackets and may itself hold brackets and spaces.
        fields = text[text.rindex(")") + 2 :].split()
        user, system, waited_user, waited_system = (int(field) for field in fields[11:15])
        return _ProcessStat(int(fields[1]), int(fields[19]), (user + system + waited_user + waited_system) * _TICK_S)
