"""The checks that need torch, in a process of their own: the harness itself never imports it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder

from plumbline.harness import engine_python
from plumbline.harness.selfcheck.lines import failed, not_applicable
from plumbline.results import CheckLine

_LIMIT_S = {"cpu": 60.0, "cuda": 180.0}
_COMMAND = (engine_python.executable(), "-m", "plumbline.harness.selfcheck.torch_checks")


@contextmanager
def started(device: str, architectures: Collection[str]) -> Iterator[Callable[[], list[CheckLine]]]:
    """The process, already running; calling what it yields waits for its lines. It is gone at the end of the block."""
    if not _has_torch():
        yield lambda: [
            not_applicable("counted_flops", "PyTorch is not installed"),
            not_applicable("energy_counter", "PyTorch is not installed"),
        ]
        return
    with subprocess.Popen(
        [*_COMMAND, device, *architectures],
        env=engine_python.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield lambda: _lines(process, _LIMIT_S[device])
        finally:
            process.kill()


def _has_torch() -> bool:
    return PathFinder.find_spec("torch", engine_python.about().search_path) is not None


def _lines(process: subprocess.Popen[str], limit_s: float) -> list[CheckLine]:
    try:
        printed, complaint = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        return [failed("counted_flops", f"the checks that need PyTorch took longer than {limit_s:.0f} s")]
    if process.returncode != 0:
        return [failed("counted_flops", f"the checks that need PyTorch ended with {process.returncode}: {complaint[-1000:].strip()}")]
    return [CheckLine(**line) for line in json.loads(printed.splitlines()[-1])]
