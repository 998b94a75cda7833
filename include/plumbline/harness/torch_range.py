"""The PyTorch releases that the harness supports, declared once: for the image build, the doctor and each trial."""

from __future__ import annotations

import re

OLDEST, NEWEST = (2, 7), (2, 13)
"""Major and minor release, both included. docs/hardware-probes.md says how both ends are tried."""


def unsupported(version: str | None) -> str | None:
    """Why the harness does not run on this PyTorch, in one sentence that names the version and the supported range; None if it does.

    `version` as `torch.__version__` or the package's metadata give it, such as `2.13.0+cpu` or `2.9.0a0+145a3a7bda.nv25.10`; None if
    PyTorch is not installed.
    """
    expected = f"the harness supports {text(OLDEST)} to {text(NEWEST)}"
    if version is None:
        return f"PyTorch is not installed; {expected}"
    release = re.match(r"(\d+)\.(\d+)", version)
    if release is None:
        return f"PyTorch has the unreadable version {version!r}; {expected}"
    if OLDEST <= (int(release[1]), int(release[2])) <= NEWEST:
        return None
    return f"PyTorch {version} is not supported; {expected}"


def text(release: tuple[int, int]) -> str:
    """A release as people write it: 2.7."""
    return f"{release[0]}.{release[1]}"
