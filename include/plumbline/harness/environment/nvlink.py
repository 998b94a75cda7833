"""How NVIDIA GPUs are connected with each other: what a collective's speed depends on."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from plumbline.results import Scalar

_NEAREST = {0: "one board", 10: "one PCIe switch", 20: "PCIe switches", 30: "one host bridge", 40: "one CPU", 50: "between CPUs"}
"""NVML's levels of the nearest common ancestor of two GPUs."""


def links(nvml: Any, handle: Any) -> dict[str, Scalar]:
    """`nvlink_active`: links that are up (0 without NVLink), and `nvlink_version`, None without one."""
    active: list[int] = []
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        try:
            if nvml.nvmlDeviceGetNvLinkState(handle, link) == nvml.NVML_FEATURE_ENABLED:
                active.append(link)
        except nvml.NVMLError:
            break  # links are numbered from 0: a GPU without this one has no further one
    return {"nvlink_active": len(active), "nvlink_version": _version(nvml, handle, active[0]) if active else None}


def topology(nvml: Any, handles: Sequence[Any]) -> str | None:
    """Between which GPUs data goes which way, such as `NVLink: all` or `NVLink: 0-1 2-3; between CPUs: 0-2 0-3 1-2 1-3`."""
    ways: dict[str, list[str]] = {}
    for (i, one), (j, other) in combinations(enumerate(handles), 2):
        ways.setdefault(_way(nvml, one, other), []).append(f"{i}-{j}")
    if len(ways) == 1:
        return f"{next(iter(ways))}: all"
    return "; ".join(f"{way}: {' '.join(pairs)}" for way, pairs in sorted(ways.items())) or None


def _version(nvml: Any, handle: Any, link: int) -> int | None:
    try:
        return int(nvml.nvmlDeviceGetNvLinkVersion(handle, link))
    except nvml.NVMLError:
        return None


def _way(nvml: Any, one: Any, other: Any) -> str:
    try:
        if nvml.nvmlDeviceGetP2PStatus(one, other, nvml.NVML_P2P_CAPS_INDEX_NVLINK) == nvml.NVML_P2P_STATUS_OK:
            return "NVLink"  # also through switches, whose far end no single link tells
        return _NEAREST.get(nvml.nvmlDeviceGetTopologyCommonAncestor(one, other), "unknown")
    except nvml.NVMLError:
        return "unknown"
