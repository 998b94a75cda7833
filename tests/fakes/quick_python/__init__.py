"""PYTHONPATH of the processes that tests start."""

from __future__ import annotations

import os
from pathlib import Path


def search_path(*folders: Path | str) -> str:
    """A PYTHONPATH of these folders and of the one whose `sitecustomize` makes Python start quickly."""
    return os.pathsep.join(dict.fromkeys([*map(str, folders), str(Path(__file__).parent)]))
