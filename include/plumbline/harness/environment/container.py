"""Limits that a cluster sets around the trial, from the manifest's variables (downward API).

A pod's name, uid and node are not facts: they would make every environment a new one. The launcher records them."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator, Mapping
from pathlib import Path

from plumbline.harness.environment.sysfs import ROOT, read_int, read_text
from plumbline.results import Scalar


def container_facts(root: Path = ROOT) -> dict[str, Scalar]:
    """`container.*` and `limits.pod_*`; None outside of a container or where the manifest does not say.

    `limits.pod_cpu` is in cores, `limits.pod_memory_bytes` in bytes.
    """
    image = os.environ.get("PLUMBLINE_IMAGE") or None
    return {
        "container.kind": _kind(root),
        "container.image": image,
        "container.image_digest": image.partition("@")[2] or None if image else None,
        "limits.pod_cpu": _int_variable("PLUMBLINE_CPU_LIMIT"),
        "limits.pod_memory_bytes": _int_variable("PLUMBLINE_MEMORY_LIMIT"),
    }


def _kind(root: Path) -> str:
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return "kubernetes"
    if (root / "run/.containerenv").exists():
        return "podman"
    return "docker" if (root / ".dockerenv").exists() else "none"


def _int_variable(name: str) -> int | None:
    value = os.environ.get(name)
    return int(value) if value else None


# Version 1 writes "no limit" as the largest multiple of a page, about 2^63.
_NO_LIMIT = 2**60


def limit_facts(root: Path = ROOT) -> dict[str, Scalar]:
    """`limits.memory_bytes`, `limits.cpu_quota` (cores), `limits.address_space_bytes`, `limits.locked_memory_bytes` (what an InfiniBand
    adapter may reach), `limits.processes`: None is unlimited. `limits.shared_memory_bytes`: of /dev/shm, through which processes of one
    node hand over data; None where there is none."""
    return {
        "limits.memory_bytes": memory_limit_bytes(root),
        "limits.cpu_quota": cpu_quota(root),
        "limits.address_space_bytes": _rlimit(resource.RLIMIT_AS),
        "limits.locked_memory_bytes": _rlimit(resource.RLIMIT_MEMLOCK),
        "limits.processes": _processes(root),
        "limits.shared_memory_bytes": _filesystem_bytes(root / "dev/shm"),
    }


_LEAST_LOCKED_BYTES = 2**30


def locked_memory_shortage(remote_memory: str | None, facts: Mapping[str, Scalar]) -> str | None:
    """Why adapters that reach memory themselves cannot register what a trial sends; None if they can. `remote_memory`: the declared resource
    of such adapters. The capability IPC_LOCK has no effect in a container whose user is not root."""
    limit = facts.get("limits.locked_memory_bytes")
    if remote_memory is None or not isinstance(limit, int) or limit >= _LEAST_LOCKED_BYTES:
        return None
    return (
        f"{remote_memory} is declared, but a process may lock only {limit / 2**20:.3g} MiB of memory, and RDMA needs 1 GiB or more; set "
        "LimitMEMLOCK=infinity in the systemd unit of containerd on the nodes and restart it"
    )


def memory_limit_bytes(root: Path = ROOT) -> int | None:
    limits = [read_int(folder / "memory.max") for folder in cgroup_folders(root, "")]
    limits += [read_int(folder / "memory.limit_in_bytes") for folder in cgroup_folders(root, "memory")]
    return min((limit for limit in limits if limit is not None and limit < _NO_LIMIT), default=None)


def oom_kills(root: Path = ROOT) -> int | None:
    """Processes that the kernel killed for lack of memory, in the own cgroup, else on the machine; None without a counter."""
    counters = [folder / "memory.events" for folder in cgroup_folders(root, "")]
    counters += [folder / "memory.oom_control" for folder in cgroup_folders(root, "memory")]
    for file in [*counters, root / "proc/vmstat"]:
        counted = dict(line.split() for line in (read_text(file) or "").splitlines())
        if "oom_kill" in counted:
            return int(counted["oom_kill"])
    return None


def cpu_quota(root: Path = ROOT) -> float | None:
    """The tightest CPU quota of the cgroups that the process is in, in cores."""
    quotas = []
    for folder in cgroup_folders(root, ""):
        quota, _, period = (read_text(folder / "cpu.max") or "max").partition(" ")
        if quota != "max":
            quotas.append(int(quota) / int(period))
    for folder in cgroup_folders(root, "cpu"):
        allowed, every = read_int(folder / "cpu.cfs_quota_us"), read_int(folder / "cpu.cfs_period_us")
        if allowed is not None and every and allowed > 0:
            quotas.append(allowed / every)
    return min(quotas, default=None)


def cgroup_folders(root: Path, controller: str) -> Iterator[Path]:
    """The process's cgroup of a controller ("" is version 2) and all above it: the tightest of them holds.

    In a container the path may be the host's, of which only the mount's root is visible; that is yielded in any case.
    """
    mount = root / "sys/fs/cgroup" / controller
    for line in (read_text(root / "proc/self/cgroup") or "").splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            own = mount / path.strip("/")
            while own != mount:
                yield own
                own = own.parent
    yield mount


def _processes(root: Path) -> int | None:
    limits = [read_int(folder / "pids.max") for controller in ("", "pids") for folder in cgroup_folders(root, controller)]
    return min((limit for limit in limits if limit is not None), default=None)


def _filesystem_bytes(folder: Path) -> int | None:
    if not folder.is_mount():
        return None
    stat = os.statvfs(folder)
    return stat.f_frsize * stat.f_blocks


def _rlimit(which: int) -> int | None:
    soft, _ = resource.getrlimit(which)
    return None if soft == resource.RLIM_INFINITY else soft
