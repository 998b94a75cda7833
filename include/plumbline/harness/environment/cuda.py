"""Whether the image's CUDA runs on the node's driver: compared by release, and tried in a process of its own.

NVIDIA's images make their forward-compatibility libraries visible in an entry point, which the harness replaces."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from plumbline.harness import engine_python
from plumbline.harness.environment.sysfs import ROOT
from plumbline.harness.measurement import TrialFailed
from plumbline.results import Scalar

_DRIVERS = {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}
"""The oldest driver for all releases of a CUDA of that major number (NVIDIA's CUDA compatibility guide)."""
_FORWARD = ("usr/local/cuda/compat/lib.real", "usr/local/cuda/compat/lib", "usr/local/cuda/compat")
_OPEN = "import torch; torch.zeros(1, device='cuda')"
_OPEN_LIMIT_S = 180.0


def require_driver(facts: Mapping[str, Scalar], root: Path = ROOT) -> None:
    """Where the driver is older than the CUDA of the image's PyTorch, let the processes that start from here find the image's
    forward-compatibility libraries. TrialFailed("image_error") if it has none, or they do not open CUDA."""
    if (problem := driver_too_old(facts)) is None:
        return
    folder = next((root / name for name in _FORWARD if (root / name / "libcuda.so.1").exists()), None)
    if folder is None:
        raise TrialFailed("image_error", f"{problem}; the image has no forward-compatibility libraries")
    os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [str(folder), os.environ.get("LD_LIBRARY_PATH")]))
    if (why := open_fault()) is not None:
        raise TrialFailed("image_error", f"{problem}; the image's forward-compatibility libraries do not open it: {why}")


def driver_too_old(facts: Mapping[str, Scalar]) -> str | None:
    """Why the driver cannot run the CUDA that the image's PyTorch is built for; None if it can, or either is unknown.

    Within one major number every driver runs every CUDA.
    """
    needed, supported = facts.get("torch.cuda"), facts.get("cuda.version")
    if needed is None or supported is None or (major := _major(needed)) <= _major(supported):
        return None
    return (
        f"CUDA {needed} of the image needs driver {_DRIVERS.get(major, 'of its release')} or newer; driver {facts.get('driver.version')} of the "
        f"node supports CUDA {supported}: use an image with CUDA {_major(supported)}, or update the driver"
    )


def _major(release: Scalar) -> int:
    first = str(release).partition(".")[0]
    return int(first) if first.isdigit() else 0


def open_fault() -> str | None:
    """Why the image's PyTorch cannot hold one number on a GPU, tried in a process of its own; None if it can."""
    try:
        done = engine_python.run("-c", _OPEN, limit_s=_OPEN_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{type(error).__name__}: {error}"
    if done.returncode == 0:
        return None
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return next((line.strip() for line in reversed(lines) if not line.startswith(" ")), f"exit status {done.returncode}")
