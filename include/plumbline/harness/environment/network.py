"""The network's devices, and the libraries that collectives use on it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from plumbline.harness.environment.sysfs import ROOT, read_int, read_text
from plumbline.metrics.names import natural_order
from plumbline.results import Scalar


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
    return sorted(folder.glob("*"), key=lambda path: natural_order(path.name))


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
    libfabric = [folder / "pkgconfig/libfabric.pc" for folder in folders]
    return {
        "nccl.net_plugin": " ".join(sorted(plugins)) or None,
        "ofi_nccl.version": None if ofi is None else _version_string(rb"aws-ofi-nccl v?(\d+\.\d[\w.+-]*)", ofi),
        "libfabric.version": next((v for file in libfabric if (v := _first_match(r"(?m)^Version:\s*(\S+)", read_text(file)))), None),
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


def _first_match(pattern: str, content: str | None) -> str | None:
    match = re.search(pattern, content or "")
    return match[1] if match else None
