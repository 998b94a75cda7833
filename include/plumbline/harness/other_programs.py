"""Programs outside a trial that computed beside it, by name: what a person can close."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from plumbline.results.document import OtherProgram

LISTED, _LEAST_CORES = 8, 0.05
_AIRFLOW = "airflow"
"""Idles beside every trial: nobody can close it."""


@dataclass(frozen=True)
class ProcessCpu:
    """CPU seconds of a process: `own_s`, and `cpu_s` with those of the children that it has waited for."""

    parent: int
    started: int
    cpu_s: float
    own_s: float


Snapshot = Mapping[int, ProcessCpu]
"""Process id → CPU."""


def busiest_programs(before: Snapshot, after: Snapshot, seconds: float, cpus: Collection[int], proc: Path) -> list[OtherProgram]:
    """Running programs that may use `cpus` and computed anywhere between two snapshots, busiest first."""
    # Without what it waited for: an orphan's whole life would be the first process's.
    used = {pid: now.own_s - (t.own_s if (t := before.get(pid)) and t.started == now.started else 0.0) for pid, now in after.items()}
    by_name: dict[str, float] = {}
    for pid, cpu_s in used.items():
        if cpu_s / seconds >= _LEAST_CORES and _shares_cores(pid, cpus) and (name := _program(pid, proc)) not in ("", _AIRFLOW):
            by_name[name] = by_name.get(name, 0.0) + cpu_s / seconds
    ordered = sorted(by_name.items(), key=lambda item: (-item[1], item[0]))
    return [OtherProgram(name=name, cores=round(cores, 3)) for name, cores in ordered[:LISTED]]


def snapshot(stat_of: Callable[[int], ProcessCpu | None], own: Collection[int], proc: Path) -> dict[int, ProcessCpu]:
    """All processes but `own`."""
    pids = (int(name) for name in os.listdir(proc) if name.isdigit())  # noqa: PTH208 - names alone, ten times cheaper
    return {pid: stat for pid in pids if pid not in own and (stat := stat_of(pid)) is not None}


def _shares_cores(pid: int, cpus: Collection[int]) -> bool:
    with suppress(OSError):
        return not os.sched_getaffinity(pid).isdisjoint(cpus)
    return False


def _program(pid: int, proc: Path) -> str:
    """The program's file name, for Python the script's or module's; never other arguments, which may hold secrets. Empty if it ended."""
    try:
        words = (proc / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
        if not words[0]:
            return (proc / str(pid) / "comm").read_text().strip()  # a kernel thread
    except OSError:
        return ""
    # A title that the program gave itself is one text; a path with a space is one of several words.
    name = Path((words[0] if any(words[1:]) else words[0].split(" ")[0]).strip("[]:")).name
    if name.startswith("python"):
        for option, value in pairwise(words[1:]):
            if option == "-m":
                return value.split(".")[0]
            if option == "-c":
                break
            if not option.startswith("-"):
                return Path(option).name
    return name[:80]
