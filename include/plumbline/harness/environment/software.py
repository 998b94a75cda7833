"""Versions of what computes, and the settings that change how it does. Nothing heavy is imported to find out."""

from __future__ import annotations

import os
import platform
import runpy
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from plumbline.results import Scalar

_PACKAGES = ("numpy", "torch", "tritonclient", "pyarrow")
_SETTINGS = (
    "OMP_NUM_THREADS",
    "OMP_PROC_BIND",
    "OMP_PLACES",
    "OMP_WAIT_POLICY",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "GOMP_CPU_AFFINITY",
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
    "MALLOC_ARENA_MAX",
    "ONEDNN_MAX_CPU_ISA",
    "ATEN_CPU_CAPABILITY",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_LAUNCH_BLOCKING",
    "NVIDIA_TF32_OVERRIDE",
    "PYTORCH_CUDA_ALLOC_CONF",
    "NCCL_ALGO",
    "NCCL_PROTO",
    "NCCL_IB_DISABLE",
    "NCCL_P2P_DISABLE",
    "NCCL_SOCKET_IFNAME",
)


def facts() -> dict[str, Scalar]:
    """`python.*`, `<package>.version`, `torch.cuda`, `harness.version` and one `setting.*` for each variable that is set."""
    found: dict[str, Scalar] = {"python.version": platform.python_version(), "python.implementation": platform.python_implementation()}
    found |= {f"{name}.version": _version(name) for name in _PACKAGES}
    found["harness.version"] = _version("plumbline")
    found["torch.cuda"] = _torch_build("cuda")
    found |= {f"setting.{name}": os.environ[name] for name in _SETTINGS if name in os.environ}
    return found


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _torch_build(name: str) -> str | None:
    """A value of torch/version.py, read without the seconds that importing torch takes."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    value = runpy.run_path(str(Path(spec.origin).with_name("version.py"))).get(name)
    return None if value is None else str(value)
