"""The Python that runs torch and the engines: this one, or in an image over a GPU vendor's base that base's own (docs/decisions/0016).

Such an image keeps the harness's packages in an environment apart. Its engine Python searches the base's packages first and the
harness's last, so that no package of ours replaces one that the base was built and tested with.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path

from plumbline.harness.measurement import TrialFailed

VARIABLE = "PLUMBLINE_ENGINE_PYTHON"
_PACKAGE_ROOT = str(Path(__file__).resolve().parents[2])
_QUERY_TIMEOUT_S = 60.0
_QUERY = "import json, sys, sysconfig; print(json.dumps([sys.executable, sysconfig.get_config_var('LIBDIR'), sys.path, sys.prefix]))"


@dataclass(frozen=True)
class EnginePython:
    """`executable`, the folder of its libpython, its module search path and `prefix` (sys.prefix); `apart`: not this process's own."""

    executable: str
    libraries: str
    search_path: tuple[str, ...]
    apart: bool
    prefix: str = sys.prefix

    def require(self, package: str, remedy: str) -> None:
        """TrialFailed("image_error") unless it can import the top-level package; nothing is imported."""
        if PathFinder.find_spec(package, self.search_path) is None:
            raise TrialFailed("image_error", f"{self.executable} has no package {package}; {remedy}")

    def version(self, distribution: str) -> str | None:
        """The version of an installed distribution; None if it is not installed."""
        found = next(iter(metadata.distributions(name=distribution, path=list(self.search_path))), None)
        return None if found is None else found.version

    @property
    def base_path(self) -> tuple[str, ...]:
        """The search path without the harness's packages: what an engine sees that needs nothing of ours."""
        return tuple(path for path in self.search_path if path != _PACKAGE_ROOT) if self.apart else self.search_path


def executable() -> str:
    """The program that runs a module of ours on torch: `PLUMBLINE_ENGINE_PYTHON`, else this interpreter."""
    return os.environ.get(VARIABLE) or sys.executable


def command_path(inherited: str | None) -> str:
    """PATH of a team's command: its own python and torchrun are the engine's, in a vendor's image the base's and not the harness's."""
    return os.pathsep.join([str(Path(describe().executable).parent), inherited or os.defpath])


def environment() -> dict[str, str]:
    """Environment variables under which `executable` finds this package."""
    if os.environ.get(VARIABLE):
        return dict(os.environ)  # its search path is its own: a variable that puts ours in front would shadow the base's packages
    inherited = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([_PACKAGE_ROOT, *filter(None, [inherited])])}


def run(*arguments: str, request: object = None, limit_s: float | None = None) -> subprocess.CompletedProcess[str]:
    """The ended `executable` with these arguments and `request` as JSON on its input, in a process of its own: torch has no place beside the
    client. `subprocess.TimeoutExpired` after `limit_s`."""
    return subprocess.run(
        [executable(), *arguments],
        input=json.dumps(request),
        env=environment(),
        capture_output=True,
        text=True,
        errors="replace",
        timeout=limit_s,
        check=False,
    )


def describe() -> EnginePython:
    """The engine Python as it describes itself; TrialFailed("image_error") if it does not run."""
    program = os.environ.get(VARIABLE)
    if not program:
        return EnginePython(sys.executable, str(sysconfig.get_config_var("LIBDIR")), tuple(sys.path), apart=False)
    return _query(program)


@lru_cache(maxsize=4)
def _query(program: str) -> EnginePython:
    expected = f"{VARIABLE} is {program}; expected a Python with torch and the engines of this image"
    try:
        done = subprocess.run([program, "-c", _QUERY], capture_output=True, text=True, timeout=_QUERY_TIMEOUT_S, check=False)
        base, libraries, path, prefix = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise TrialFailed("image_error", f"{expected}: {type(error).__name__}: {error}") from error
    return EnginePython(base, libraries, tuple(part for part in path if part), apart=True, prefix=prefix)
