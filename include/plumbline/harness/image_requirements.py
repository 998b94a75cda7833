"""Requirements of an image: the supported PyTorch releases, and messages that show a missing compiler, kernel or package."""

from __future__ import annotations

import re

OLDEST_TORCH, NEWEST_TORCH = (2, 7), (2, 13)
"""Major and minor release, both included. docs/hardware-probes.md says how both ends are tried."""


def unsupported_torch(version: str | None) -> str | None:
    """Why this PyTorch is unsupported, with its version and the supported range; None if it is supported.

    `version` as `torch.__version__` or the package's metadata give it, such as `2.13.0+cpu` or `2.9.0a0+145a3a7bda.nv25.10`; None if
    PyTorch is not installed."""
    expected = f"the harness supports {format_release(OLDEST_TORCH)} to {format_release(NEWEST_TORCH)}"
    if version is None:
        return f"PyTorch is not installed; {expected}"
    release = re.match(r"(\d+)\.(\d+)", version)
    if release is None:
        return f"PyTorch has the unreadable version {version!r}; {expected}"
    if OLDEST_TORCH <= (int(release[1]), int(release[2])) <= NEWEST_TORCH:
        return None
    return f"PyTorch {version} is not supported; {expected}"


def format_release(release: tuple[int, int]) -> str:
    return f"{release[0]}.{release[1]}"


_FAULT_MESSAGES = (
    "No working C++ compiler found",  # torch Inductor, on a CPU
    "Failed to find C compiler",  # Triton, whose launchers are C
    "Cannot find a working triton installation",
    "Python.h: No such file",
    "no kernel image is available for execution",  # torch was built for other GPUs
    "driver on your system is too old",  # torch was built for a newer CUDA than the node's driver has
    "CUDA driver version is insufficient",
    "compiled with an unsupported toolchain",  # its PTX is of a newer CUDA
    "unsupported display driver / cuda driver combination",  # its forward-compatibility libraries do not fit the driver
    "ModuleNotFoundError: No module named",
)


_WARNING = re.compile(r"W\d{4} \d{2}:")


class ImageIncomplete(Exception):
    """The image lacks what the declaration needs; the message says what, and what works without it."""


def find_image_fault(stderr: str) -> str | None:
    """The last line of output that names something missing from the image; None without one. A warning of Triton ends nothing: without a
    GPU each of its servers warns of the driver."""
    lines = (line.strip() for line in reversed(stderr.splitlines()) if not _WARNING.match(line))
    return next((line for line in lines if any(words in line for words in _FAULT_MESSAGES)), None)
