"""Limits around the trial: cgroups (version 1 or 2) and the process's own."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

from plumbline.harness.environment.cpu import ROOT
from plumbline.harness.environment.sysfs import number, text
from plumbline.results import Scalar

# Version 1 writes "no limit" as the largest multiple of a page, about 2^63.
_NO_LIMIT = 2**60


def facts(root: Path = ROOT) -> dict[str, Scalar]:
    """`limits.memory_bytes`, `limits.cpu_quota` (cores), `limits.address_space_bytes`, `limits.locked_memory_bytes` (what an InfiniBand
    adapter may reach), `limits.processes`: None is unlimited. `limits.shared_memory_bytes`: of /dev/shm, through which processes of one
    node hand over data; None where there is none."""
    return {
        "limits.memory_bytes": memory_bytes(root),
        "limits.cpu_quota": cpu_quota(root),
        "limits.address_space_bytes": _own(resource.RLIMIT_AS),
        "limits.locked_memory_bytes": _own(resource.RLIMIT_MEMLOCK),
        "limits.processes": _processes(root),
        "limits.shared_memory_bytes": _size(root / "dev/shm"),
    }


def memory_bytes(root: Path = ROOT) -> int | None:
    """The tightest memory limit of the cgroups that the process is in."""
    found = [number(folder / "memory.max") for folder in _folders(root, "")]
    found += [number(folder / "memory.limit_in_bytes") for folder in _folders(root, "memory")]
    return min((limit for limit in found if limit is not None and limit < _NO_LIMIT), default=None)


def oom_kills(root: Path = ROOT) -> int | None:
    """How many processes the kernel has killed for want of memory: in the process's own cgroup, else on the machine; None if nobody counts."""
    counters = [folder / "memory.events" for folder in _folders(root, "")]
    counters += [folder / "memory.oom_control" for folder in _folders(root, "memory")]
    for file in [*counters, root / "proc/vmstat"]:
        counted = dict(line.split() for line in (text(file) or "").splitlines())
        if "oom_kill" in counted:
            return int(counted["oom_kill"])
    return None


def cpu_quota(root: Path = ROOT) -> float | None:
    """The tightest CPU quota of the cgroups that the process is in, in cores."""
    quotas = []
    for folder in _folders(root, ""):
        quota, _, period = (text(folder / "cpu.max") or "max").partition(" ")
        if quota != "max":
            quotas.append(int(quota) / int(period))
    for folder in _folders(root, "cpu"):
        allowed, every = number(folder / "cpu.cfs_quota_us"), number(folder / "cpu.cfs_period_us")
        if allowed is not None and every and allowed > 0:
            quotas.append(allowed / every)
    return min(quotas, default=None)


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """The process's cgroup of a controller ("" is version 2) and all above it: the tightest of them holds.

    In a container the path may be the host's, of which only the mount's root is visible; that is yielded in any case.
    """
    mount = root / "sys/fs/cgroup" / controller
    for line in (text(root / "proc/self/cgroup") or "").splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            own = mount / path.strip("/")
            while own != mount:
                yield own
                own = own.parent
    yield mount


def _processes(root: Path) -> int | None:
    """The tightest limit of the cgroups on processes and threads."""
    found = [number(folder / "pids.max") for controller in ("", "pids") for folder in _folders(root, controller)]
    return min((limit for limit in found if limit is not None), default=None)


def _size(folder: Path) -> int | None:
    """Bytes of the file system at `folder`, if it is one of its own."""
    if not folder.is_mount():
        return None
    found = os.statvfs(folder)
    return found.f_frsize * found.f_blocks


def _own(which: int) -> int | None:
    soft, _ = resource.getrlimit(which)
    return None if soft == resource.RLIM_INFINITY else soft
