"""Network cards and InfiniBand adapters, as far as they can explain how fast ranks reach each other.

They are numbered by the order of their names: names of virtual functions differ from pod to pod, what they are does not. Addresses are no facts.
"""

from __future__ import annotations

import re
from pathlib import Path

from plumbline.harness.environment.cpu import ROOT
from plumbline.harness.environment.sysfs import number, text
from plumbline.results import Scalar


def facts(root: Path = ROOT) -> dict[str, Scalar]:
    """`network.interfaces`, `network.<i>.driver`, `.speed_mbps` (None while it is down or virtual), `.mtu`; of
    `infiniband.<i>` `.driver`, `.rate`, `.link_layer`, `.firmware`; `network.congestion_control`."""
    cards = [folder for folder in _named(root / "sys/class/net") if folder.name != "lo" and _counts(root, folder)]
    adapters = _named(root / "sys/class/infiniband")
    found: dict[str, Scalar] = {
        "network.interfaces": len(cards),
        "network.congestion_control": text(root / "proc/sys/net/ipv4/tcp_congestion_control"),
        "infiniband.adapters": len(adapters),
    }
    for i, card in enumerate(cards):
        speed = number(card / "speed")
        found |= {
            f"network.{i}.driver": _driver(card / "device"),
            f"network.{i}.speed_mbps": speed if speed is not None and speed > 0 else None,
            f"network.{i}.mtu": number(card / "mtu"),
        }
    for i, adapter in enumerate(adapters):
        port = adapter / "ports/1"
        found |= {
            f"infiniband.{i}.driver": _driver(adapter / "device"),
            f"infiniband.{i}.rate": text(port / "rate"),
            f"infiniband.{i}.link_layer": text(port / "link_layer"),
            f"infiniband.{i}.firmware": text(adapter / "fw_ver"),
        }
    return found


def _counts(root: Path, interface: Path) -> bool:
    """Whether it is a card, or the way out of a pod. A machine's bridges, tunnels and ends of pods' pairs come and go."""
    return (interface / "device").exists() or interface.name == _way_out(root)


def _way_out(root: Path) -> str | None:
    """The interface of the default route."""
    for line in (text(root / "proc/net/route") or "").splitlines()[1:]:
        fields = line.split()
        if len(fields) > 1 and fields[1] == "00000000":
            return fields[0]
    return None


def _driver(device: Path) -> str | None:
    return (device / "driver").resolve().name if (device / "driver").exists() else None


def _named(folder: Path) -> list[Path]:
    """In the order that people count in: mlx5_2 before mlx5_10."""
    return sorted(folder.glob("*"), key=lambda path: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path.name)])
