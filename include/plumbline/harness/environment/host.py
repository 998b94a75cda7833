"""The machine, its operating system, the disk that the trial works on, and its network with the libraries of collectives."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from pathlib import Path

import psutil

from plumbline.harness.environment import cpu
from plumbline.harness.environment.sysfs import ROOT, read_choice, read_int, read_text
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


# The disk that the trial works on, where checkpoints and data go. Others are none of the trial's: on a shared node they come and go with
# the volumes of other pods, and each of them would make another environment.


_SECTOR = 512
"""Bytes; the unit of sysfs's sizes, whatever the disk's own is."""
_OPTIONS = frozenset(("ro", "sync", "dirsync", "nobarrier", "discard", "data=journal", "data=writeback"))
"""Those of a mount's options that change how fast writing is; others carry addresses and keys."""

_OF_DEVICE = ("disk.model", "disk.size_bytes", "disk.rotational", "disk.scheduler", "disk.read_ahead_bytes")


def disk_facts(folder: Path, root: Path = ROOT) -> dict[str, Scalar]:
    """`disk.filesystem`, `disk.mount_options` of the file system that `folder` (or, while it is not there yet, its nearest parent) is on;
    `disk.model`, `disk.size_bytes`, `disk.rotational`, `disk.scheduler`, `disk.read_ahead_bytes` of the device below it, None where there is
    none to see (a network's or a memory's file system, a disk of several) or sysfs may not be read."""
    there = next(place for place in (folder, *folder.parents) if place.exists())
    device_number = there.stat().st_dev
    filesystem, options = _mount(root, there.resolve())
    device = _base_device((root / f"sys/dev/block/{os.major(device_number)}:{os.minor(device_number)}").resolve())
    if device is None:
        return {"disk.filesystem": filesystem, "disk.mount_options": options, **dict.fromkeys(_OF_DEVICE)}
    sectors, ahead = read_int(device / "size"), read_int(device / "queue/read_ahead_kb")
    turning = read_int(device / "queue/rotational")
    return {
        "disk.filesystem": filesystem,
        "disk.mount_options": options,
        "disk.model": read_text(device / "device/model"),
        "disk.size_bytes": None if sectors is None else sectors * _SECTOR,
        "disk.rotational": None if turning is None else bool(turning),
        "disk.scheduler": read_choice(device / "queue/scheduler"),
        "disk.read_ahead_bytes": None if ahead is None else ahead * 1024,
    }


def is_memory_filesystem(folder: Path) -> bool:
    return _mount(ROOT, folder.resolve())[0] in ("tmpfs", "ramfs")


def _mount(root: Path, folder: Path) -> tuple[str | None, str | None]:
    """Type and relevant options of the mount of `folder`: the longest matching mount point, the last of equal ones."""
    best: tuple[int, str, str] | None = None
    for line in (read_text(root / "proc/self/mountinfo") or "").splitlines():
        before, _, after = line.partition(" - ")
        fields, last = before.split(), after.split()
        point = Path(fields[4].encode().decode("unicode_escape"))
        if len(last) >= 3 and folder.is_relative_to(point) and (best is None or len(point.parts) >= best[0]):
            options = {*fields[5].split(","), *last[2].split(",")} & _OPTIONS
            best = len(point.parts), last[0], ",".join(sorted(options)) or "none"
    return (None, None) if best is None else (best[1], best[2])


def _base_device(device: Path) -> Path | None:
    """The disk of a partition, or below an encrypted or logical volume; the device itself if it spans several; None if sysfs is unreadable."""
    try:
        while True:
            below = list((device / "slaves").iterdir()) if (device / "slaves").is_dir() else []
            if (device / "partition").exists():
                device = device.parent
            elif len(below) == 1:
                device = below[0].resolve()
            else:
                return device
    except OSError:
        return None


def network_facts(root: Path = ROOT) -> dict[str, Scalar]:
    """`network.interfaces`, `network.<i>.driver`, `.speed_mbps` (None while it is down or virtual), `.mtu`; of
    `infiniband.<i>` `.driver`, `.rate`, `.link_layer`, `.firmware`; `network.congestion_control`."""
    cards = [folder for folder in _in_natural_order(root / "sys/class/net") if folder.name != "lo" and _is_relevant(root, folder)]
    adapters = _in_natural_order(root / "sys/class/infiniband")
    facts: dict[str, Scalar] = {
        "network.interfaces": len(cards),
        "network.congestion_control": read_text(root / "proc/sys/net/ipv4/tcp_congestion_control"),
        "infiniband.adapters": len(adapters),
    }
    for i, card in enumerate(cards):
        speed = read_int(card / "speed")
        facts |= {
            f"network.{i}.driver": _driver(card / "device"),
            f"network.{i}.speed_mbps": speed if speed is not None and speed > 0 else None,
            f"network.{i}.mtu": read_int(card / "mtu"),
        }
    for i, adapter in enumerate(adapters):
        port = adapter / "ports/1"
        facts |= {
            f"infiniband.{i}.driver": _driver(adapter / "device"),
            f"infiniband.{i}.rate": read_text(port / "rate"),
            f"infiniband.{i}.link_layer": read_text(port / "link_layer"),
            f"infiniband.{i}.firmware": read_text(adapter / "fw_ver"),
        }
    return facts


def _is_relevant(root: Path, interface: Path) -> bool:
    """A card, or a pod's way out. Bridges, tunnels and ends of pods' pairs come and go."""
    return (interface / "device").exists() or interface.name == _default_interface(root)


def _default_interface(root: Path) -> str | None:
    for line in (read_text(root / "proc/net/route") or "").splitlines()[1:]:
        fields = line.split()
        if len(fields) > 1 and fields[1] == "00000000":
            return fields[0]
    return None


def _driver(device: Path) -> str | None:
    return (device / "driver").resolve().name if (device / "driver").exists() else None


def _in_natural_order(folder: Path) -> list[Path]:
    return sorted(folder.glob("*"), key=lambda path: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path.name)])


_LIBRARIES = (
    "opt/amazon/ofi-nccl/lib*",
    "opt/amazon/ofi-nccl/lib/*-linux-gnu",
    "opt/amazon/aws-ofi-nccl/lib*",
    "opt/aws-ofi-nccl/lib*",
    "opt/amazon/efa/lib*",
    "opt/hpcx/nccl_rdma_sharp_plugin/lib",
    "usr/local/gib/lib64",
    "usr/local/nvidia/lib64",
    "usr/local/lib",
    "usr/lib/*-linux-gnu",
    "usr/lib64",
    "usr/lib",
)
"""Where the EFA installer, HPC-X, GKE's installers and distributions put them, beside LD_LIBRARY_PATH, which comes first."""
_STRING_LIMIT = 64 * 2**20


def fabric_facts(root: Path = ROOT) -> dict[str, Scalar]:
    """`nccl.net_plugin` (file names, without a version), `ofi_nccl.version`, `libfabric.version`, `efa.installer`, `efa.driver`.

    None: not there. A plugin that is there is not yet one that NCCL chose.
    """
    folders = list(dict.fromkeys(_library_folders(root)))
    plugins = {file.name.split(".so")[0]: file for folder in reversed(folders) for file in sorted(folder.glob("libnccl-net*.so*"))}
    ofi = next((file for folder in folders for file in _ofi_plugins(folder)), None)
    return {
        "nccl.net_plugin": " ".join(sorted(plugins)) or None,
        "ofi_nccl.version": None if ofi is None else _version_string(rb"aws-ofi-nccl v?(\d+\.\d[\w.+-]*)", ofi),
        "libfabric.version": next(
            (version for folder in folders if (version := _pkgconfig_version(folder / "pkgconfig/libfabric.pc"))), None
        ),
        "efa.installer": _first_match(r"EFA installer version: (\S+)", read_text(root / "opt/amazon/efa_installed_packages")),
        "efa.driver": read_text(root / "sys/module/efa/version"),
    }


def _library_folders(root: Path) -> Iterator[Path]:
    for part in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep):
        if part.startswith("/"):
            yield root / part[1:]
    for pattern in _LIBRARIES:
        yield from sorted(root.glob(pattern))


def _ofi_plugins(folder: Path) -> list[Path]:
    # Releases named the library after NCCL's convention alone, later ones after themselves.
    return [
        file for pattern in ("libnccl-net-ofi.so*", "libnccl-net-aws-ofi.so*", "libnccl-net.so*") for file in sorted(folder.glob(pattern))
    ]


def _version_string(pattern: bytes, file: Path) -> str | None:
    try:
        with file.open("rb") as opened:
            match = re.search(pattern, opened.read(_STRING_LIMIT))
    except OSError:
        return None
    return match[1].decode() if match else None


def _pkgconfig_version(file: Path) -> str | None:
    return _first_match(r"(?m)^Version:\s*(\S+)", read_text(file))


def _first_match(pattern: str, content: str | None) -> str | None:
    match = re.search(pattern, content or "")
    return match[1] if match else None
