"""The GPUs of this machine as the generated provider `local-gpu`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml

from plumbline.declarations import Declarations, Provider
from plumbline.declarations.installation import installation_paths
from plumbline.harness.environment import amd, nvidia
from plumbline.harness.environment.sysfs import ROOT
from plumbline.results import Scalar

PROVIDER_NAME = "local-gpu"
GPU_WORKLOADS = ("gpt-small-gpu", "chat-small-gpu")
_SOURCES = {"nvidia": "NVML", "amd": "AMD SMI"}
_MEMORY_SHARE, _MIB = 0.8, 2**20
_TORCH = "import json, torch; v = torch.version; print(json.dumps([torch.__version__, v.cuda, v.hip, torch.cuda.device_count()]))"
_TORCH_LIMIT_S = 120.0


@dataclass(frozen=True)
class TorchInstallation:
    """What the installed PyTorch says: its version, the CUDA and the ROCm that it was built for (None: for none) and how many GPUs it can use."""

    version: str
    cuda: str | None
    gpus: int
    rocm: str | None = None


def refresh_declaration(
    declared: Declarations, *, nvml: Any = None, amdsmi: Any = None, torch: TorchInstallation | None = None, root: Path = ROOT
) -> str | None:
    """Write the declaration if NVML or AMD SMI finds a GPU that PyTorch can use, else remove it. Returns why a GPU that is there is not
    measured; None if there is none, or if it is. `declared`: what people declared; `nvml`, `amdsmi`, `torch` and `root`: this machine's if
    left out."""
    file = installation_paths().generated_providers / f"{PROVIDER_NAME}.yaml"
    facts = {} if PROVIDER_NAME in declared.providers else _facts(nvml, amdsmi, root)
    count, vendor = facts.get("gpu.count"), str(facts.get("gpu.vendor"))
    if not isinstance(count, int) or count < 1:
        file.unlink(missing_ok=True)
        return None
    products = sorted({str(facts[f"gpu.{i}.product"]) for i in range(count)})
    gpu = f"{count} × {', '.join(products)}"
    if why := _unusable_reason(declared, vendor, torch or _installed_torch()):
        file.unlink(missing_ok=True)
        return f"this machine has {gpu}, which is not measured: {why}"
    product = products[0] if len(products) == 1 else None
    data: dict[str, Any] = {
        "name": PROVIDER_NAME,
        "description": f"the GPUs of this machine ({gpu}), found by {_SOURCES[vendor]}",
        "cloud": "local",
        "region": "here",
        "instance_type": f"host-{count}x{product or 'several'}"[:63].rstrip("-._"),
        "accelerator": {"kind": vendor, "product": product, "count": count},
        "launcher": {
            "kind": "local",
            "cpus": sorted(os.sched_getaffinity(0)),
            "memory": f"{int(psutil.virtual_memory().total * _MEMORY_SHARE) // _MIB}MiB",
            "timeout": "30min",
        },
        "manual_steps": [],
        "workloads": list(GPU_WORKLOADS),
    }
    Provider.model_validate_json(json.dumps(data))
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(".part")
    how = "# Written by `plumbline run` and `plumbline up`, which replace it. To change it, put a copy among your own declarations of providers.\n"
    draft.write_text(how + yaml.safe_dump(data, sort_keys=False))
    draft.replace(file)
    return None


def _facts(nvml: Any, amdsmi: Any, root: Path) -> dict[str, Scalar]:
    """Of NVIDIA's GPUs, or where there is none of AMD's."""
    found = nvidia.nvidia_facts(root, nvml)
    return found if found["gpu.count"] else amd.amd_facts(root, amdsmi)


def _unusable_reason(declared: Declarations, vendor: str, torch: TorchInstallation | None) -> str | None:
    if missing := [name for name in GPU_WORKLOADS if name not in declared.workloads]:
        return f"no workload is called {' or '.join(missing)} in these declarations"
    if torch is None:
        return "PyTorch is not installed; `make setup` installs it"
    platform, built_for = ("ROCm", torch.rocm) if vendor == "amd" else ("CUDA", torch.cuda)
    if built_for is None:
        return (
            f"PyTorch {torch.version} is built without {platform}; expected a build for {platform}: "
            f"rm -rf .venv && PIP_EXTRA_INDEX_URL=<the PyTorch index of your {platform} version> make run"
        )
    if not torch.gpus:
        groups = ", and membership in the groups render and video" if vendor == "amd" else ""
        return (
            f"PyTorch {torch.version} for {platform} {built_for} finds no GPU that it can use; expected a driver for that {platform} version "
            f"or newer{groups}"
        )
    return None


def _installed_torch() -> TorchInstallation | None:
    """In a process of its own: PyTorch takes seconds to import and would keep a context on the GPU that is to be measured."""
    try:
        asked = subprocess.run([sys.executable, "-c", _TORCH], capture_output=True, text=True, timeout=_TORCH_LIMIT_S, check=True)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return None
    version, cuda, rocm, gpus = json.loads(asked.stdout.splitlines()[-1])
    return TorchInstallation(version, cuda, gpus, rocm)
