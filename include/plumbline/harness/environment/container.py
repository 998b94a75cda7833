"""The container and the limits that a cluster put around the trial. A pod learns them from variables set in its manifest (downward API).

Only what could explain a change is a fact. A pod's name, uid and node are its identity: they differ at every trial and would make every
environment a new one; the launcher records them, with the node's labels and versions, which a pod cannot see.
"""

from __future__ import annotations

import os
from pathlib import Path

from plumbline.harness.environment.cpu import ROOT
from plumbline.results import Scalar


def facts(root: Path = ROOT) -> dict[str, Scalar]:
    """`container.*` and `limits.pod_*`; None outside of a container or where the manifest does not say.

    `limits.pod_cpu` is in cores, `limits.pod_memory_bytes` in bytes.
    """
    image = os.environ.get("PLUMBLINE_IMAGE") or None
    return {
        "container.kind": _kind(root),
        "container.image": image,
        "container.image_digest": image.partition("@")[2] or None if image else None,
        "limits.pod_cpu": _whole("PLUMBLINE_CPU_LIMIT"),
        "limits.pod_memory_bytes": _whole("PLUMBLINE_MEMORY_LIMIT"),
    }


def _kind(root: Path) -> str:
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return "kubernetes"
    if (root / "run/.containerenv").exists():
        return "podman"
    return "docker" if (root / ".dockerenv").exists() else "none"


def _whole(name: str) -> int | None:
    value = os.environ.get(name)
    return int(value) if value else None
