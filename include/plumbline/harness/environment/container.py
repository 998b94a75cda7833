"""The container and cluster around the trial. A pod learns its image's digest and its node from variables set in its manifest."""

from __future__ import annotations

import os
from pathlib import Path

from plumbline.harness.environment.cpu import ROOT
from plumbline.results import Scalar


def facts(root: Path = ROOT) -> dict[str, Scalar]:
    """`container.*` and `kubernetes.version`; None outside of a container or where the manifest does not say."""
    return {
        "container.kind": _kind(root),
        "container.image": os.environ.get("PLUMBLINE_IMAGE") or None,
        "container.image_digest": os.environ.get("PLUMBLINE_IMAGE_DIGEST") or None,
        "kubernetes.version": os.environ.get("PLUMBLINE_KUBERNETES_VERSION") or None,
    }


def _kind(root: Path) -> str:
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return "kubernetes"
    if (root / "run/.containerenv").exists():
        return "podman"
    return "docker" if (root / ".dockerenv").exists() else "none"
