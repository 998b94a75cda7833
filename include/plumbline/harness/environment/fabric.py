"""What carries collectives between nodes: NCCL's network plugin, libfabric and EFA. Read from files; nothing is loaded."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from plumbline.harness.environment.cpu import ROOT
from plumbline.harness.environment.sysfs import text
from plumbline.results import Scalar

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


def facts(root: Path = ROOT) -> dict[str, Scalar]:
    """`nccl.net_plugin` (file names, without a version), `ofi_nccl.version`, `libfabric.version`, `efa.installer`, `efa.driver`.

    None: not there. A plugin that is there is not yet one that NCCL chose.
    """
    folders = list(dict.fromkeys(_folders(root)))
    plugins = {file.name.split(".so")[0]: file for folder in reversed(folders) for file in sorted(folder.glob("libnccl-net*.so*"))}
    ofi = next((file for folder in folders for file in _ofi(folder)), None)
    return {
        "nccl.net_plugin": " ".join(sorted(plugins)) or None,
        "ofi_nccl.version": None if ofi is None else _matched(rb"aws-ofi-nccl v?(\d+\.\d[\w.+-]*)", ofi),
        "libfabric.version": next((version for folder in folders if (version := _packaged(folder / "pkgconfig/libfabric.pc"))), None),
        "efa.installer": _first(r"EFA installer version: (\S+)", text(root / "opt/amazon/efa_installed_packages")),
        "efa.driver": text(root / "sys/module/efa/version"),
    }


def _folders(root: Path) -> Iterator[Path]:
    for part in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep):
        if part.startswith("/"):
            yield root / part[1:]
    for pattern in _LIBRARIES:
        yield from sorted(root.glob(pattern))


def _ofi(folder: Path) -> list[Path]:
    # Releases named the library after NCCL's convention alone, later ones after themselves.
    return [
        file for pattern in ("libnccl-net-ofi.so*", "libnccl-net-aws-ofi.so*", "libnccl-net.so*") for file in sorted(folder.glob(pattern))
    ]


def _matched(pattern: bytes, file: Path) -> str | None:
    """A library's own version string: what it logs when NCCL loads it."""
    try:
        with file.open("rb") as opened:
            found = re.search(pattern, opened.read(_STRING_LIMIT))
    except OSError:
        return None
    return found[1].decode() if found else None


def _packaged(file: Path) -> str | None:
    return _first(r"(?m)^Version:\s*(\S+)", text(file))


def _first(pattern: str, content: str | None) -> str | None:
    found = re.search(pattern, content or "")
    return found[1] if found else None
