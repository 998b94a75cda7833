"""Files that a command writes where they outlast the trial, as far as they are open when they are looked for."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import time_ns

import psutil

_MOST = 20


class OutsideWrites:
    """Up to 20 files of a command's processes outside of `own` that were written since now. The temporary folder does not count, nor do
    caches: hidden folders, compiled Python, and what variables of the command such as HF_HOME and TRITON_CACHE_DIR name."""

    def __init__(self, own: Path, variables: Mapping[str, str]) -> None:
        named = [value for name, value in variables.items() if name.endswith("_HOME") or "CACHE" in name]
        places = (str(own), "/dev", "/proc", "/sys", "/run", variables.get("TMPDIR", "/tmp"), *filter(os.path.isabs, named))
        self._expected = [Path(place).resolve() for place in places]
        self._began_ns, self.paths = time_ns(), list[str]()

    def look(self, processes: Sequence[psutil.Process]) -> bool:
        """Whether there is one that is not in `paths` yet; it is then."""
        known = len(self.paths)
        for process in processes if known < _MOST else ():
            with suppress(psutil.Error, OSError):
                opened = {file.path for file in process.open_files() if file.mode != "r"}
                self.paths += [path for path in sorted(opened - set(self.paths)) if self._is_left(Path(path))]
        return len(self.paths) > known

    def _is_left(self, path: Path) -> bool:
        cached = any(part.startswith(".") or part == "__pycache__" for part in path.parts)
        return not (cached or any(path.is_relative_to(place) for place in self._expected)) and path.stat().st_mtime_ns >= self._began_ns
