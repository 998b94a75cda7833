"""Versions of what computes, and the settings that change how it does. Nothing heavy is imported to find out."""

from __future__ import annotations

import os
import platform
import re
import runpy
from collections.abc import Mapping, Sequence
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path

from plumbline.declarations.secret_texts import is_secret_name
from plumbline.harness import engine_python
from plumbline.harness.environment.sysfs import ROOT
from plumbline.results import Scalar

_CLIENT = ("tritonclient", "pyarrow")
"""Packages of the harness's own process."""
_PACKAGES = ("numpy", "torch", "torchvision", "transformers", "peft", "safetensors")
"""Packages of the engine Python, which computes."""
_ENGINES: Mapping[str, Sequence[str]] = {
    "vllm": ("vllm",),
    "tensorrt_llm": ("tensorrt-llm",),
    "tensorrt": ("tensorrt",),
    "flash_attn": ("flash-attn",),
    "flash_attn_3": ("flash-attn-3",),
    "flashinfer": ("flashinfer-python", "flashinfer"),
    "transformer_engine": ("transformer-engine", "transformer-engine-torch"),
    # `triton.version` is the server's: two programs of one name.
    "triton_compiler": ("triton", "pytorch-triton", "pytorch-triton-rocm", "triton-rocm"),
    "torchao": ("torchao",),
}
"""Package names of a fact; the first one found counts."""
_SITES = (
    *(f"{root}/lib/python3*/{kind}" for root in ("usr/local", "usr") for kind in ("dist-packages", "site-packages")),
    *(f"opt/{name}/lib/python3*/site-packages" for name in ("conda", "venv")),
)
_CUDA = ("-cu13", "-cu12", "-cu11", "")
_LIBRARIES = tuple(map(Path, ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/local/cuda/lib64", "/usr/lib64")))
_SETTINGS = re.compile(
    r"OMP_(NUM_THREADS|PROC_BIND|PLACES|WAIT_POLICY)|(MKL|OPENBLAS)_NUM_THREADS|GOMP_CPU_AFFINITY|KMP_(AFFINITY|BLOCKTIME)|MALLOC_ARENA_MAX|"
    r"ONEDNN_MAX_CPU_ISA|ATEN_CPU_CAPABILITY|CUDA_(VISIBLE_DEVICES|LAUNCH_BLOCKING)|NVIDIA_TF32_OVERRIDE|PYTORCH_(CUDA_)?ALLOC_CONF|"
    r"CUBLAS_WORKSPACE_CONFIG|TORCH_ALLOW_TF32_CUBLAS_OVERRIDE|HIP_VISIBLE_DEVICES"
)
_IDENTITIES = re.compile(r"\b(MIG-GPU|GPU|MIG)-[0-9a-fA-F][0-9a-fA-F-]{7,}(?:/\d+)*")
"""UUIDs of GPUs: another GPU of the same kind is the same environment."""
_FAMILIES = ("NCCL_", "RCCL_", "FI_", "OFI_", "UCX_", "GLOO_")
"""Every variable of the libraries that carry collectives and one-sided transfers: clouds' guides set two dozen of them."""


def software_facts(root: Path = ROOT) -> dict[str, Scalar]:
    """`python.*`, `<package>.version`, `torch.cuda`, `harness.version` and one `setting.*` for each variable that is set.

    Versions of engines and their kernels come from the engine Python's packages, else from those of another Python of the image below `root`.
    """
    facts: dict[str, Scalar] = {"python.version": platform.python_version(), "python.implementation": platform.python_implementation()}
    searched = engine_python.describe().search_path
    facts |= {f"{name}.version": _version(name) for name in _CLIENT}
    facts |= {f"{name}.version": _engine((name,), searched) for name in _PACKAGES}
    sites = [*searched, *(str(site) for pattern in _SITES for site in sorted(root.glob(pattern), reverse=True))]
    facts |= {f"{fact}.version": _engine(names, sites) for fact, names in _ENGINES.items()}
    facts["harness.version"] = _version("plumbline")
    facts["torch.cuda"] = _torch_build("cuda", searched)
    facts["torch.rocm"] = _torch_build("hip", searched)
    facts |= {f"{name}.version": _cuda_library(name, searched) for name in ("nccl", "cudnn", "cublas")}
    facts |= {
        f"setting.{name}": _IDENTITIES.sub(r"\1-…", value)
        for name, value in os.environ.items()
        if _SETTINGS.fullmatch(name) or (name.startswith(_FAMILIES) and not is_secret_name(name))
    }
    return facts


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _engine(names: Sequence[str], sites: Sequence[str]) -> str | None:
    return next((distribution.version for name in names for distribution in distributions(name=name, path=list(sites))), None)


def _cuda_library(name: str, searched: Sequence[str]) -> str | None:
    """The library's version from the package that PyTorch's wheel brings (named after CUDA's version), else from the system's library, as in NVIDIA's images."""
    packaged = next(filter(None, (_engine((f"nvidia-{name}{suffix}",), searched) for suffix in _CUDA)), None)
    if packaged is not None:
        return packaged
    for folder in _LIBRARIES:
        versions = [match[1] for file in folder.glob(f"lib{name}.so.*") if (match := re.search(r"\.so\.(\d+\.\d+[\d.]*)$", file.name))]
        if versions:
            return max(versions, key=lambda text: [int(part) for part in text.split(".") if part])
    return None


def _torch_build(name: str, searched: Sequence[str]) -> str | None:
    """A value of torch/version.py, read without the seconds that importing torch takes."""
    spec = PathFinder.find_spec("torch", searched)
    if spec is None or spec.origin is None:
        return None
    value = runpy.run_path(str(Path(spec.origin).with_name("version.py"))).get(name)
    return None if value is None else str(value)
