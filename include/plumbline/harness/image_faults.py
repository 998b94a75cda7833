"""What programs say when their image lacks a compiler, a kernel or a package: a fault of the image, not of the hardware it runs on."""

from __future__ import annotations

_SIGNS = (
    "No working C++ compiler found",  # torch Inductor, on a CPU
    "Failed to find C compiler",  # Triton, whose launchers are C
    "Cannot find a working triton installation",
    "Python.h: No such file",
    "no kernel image is available for execution",  # torch was built for other GPUs
    "ModuleNotFoundError: No module named",
)


class ImageIncomplete(Exception):
    """The image lacks what the declaration needs; the message says what, and what works without it."""


def sign(said: str) -> str | None:
    """The last line of a program's output that names something missing from its image; None if none does."""
    return next((line.strip() for line in reversed(said.splitlines()) if any(words in line for words in _SIGNS)), None)
