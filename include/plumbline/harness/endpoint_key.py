"""The API key of a hosted model: in the environment of the harness's process and nowhere else."""

from __future__ import annotations

import os

VARIABLE = "PLUMBLINE_ENDPOINT_KEY"
"""The environment variable by which the launcher hands the key over."""


def take() -> str | None:
    """The key, once: it is out of the environment afterwards, so that no process that the harness starts inherits it."""
    return os.environ.pop(VARIABLE, None)
