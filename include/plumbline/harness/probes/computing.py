"""The probes that need torch, as the harness sees them: rows out of a process of its own (`torch_worker`)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from plumbline.results import MetricRow, row

LIMIT_S = 180.0


class ProbeFailed(RuntimeError):
    """A probe could not measure; the message ends with what it wrote."""


def rows(
    probes: Sequence[str], device: str, threads: int, ranks: int, folder: Path, limit_s: float = LIMIT_S, gpus: int | None = None
) -> list[MetricRow]:
    """What `torch_worker` finds on a device (`gpus`: on the first so many of them).

    ProbeFailed if the process fails or takes over `limit_s` seconds.
    """
    if not probes:
        return []
    command = [sys.executable, "-m", "plumbline.harness.probes.torch_worker", "--device", device, "--threads", str(threads)]
    command += ["--ranks", str(ranks), "--folder", str(folder), "--probes", *probes]
    if gpus is not None:
        command += ["--gpus", str(gpus)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired as error:
        raise ProbeFailed(f"the {', '.join(probes)} probes took longer than {limit_s:.3g}s") from error
    if done.returncode != 0:
        raise ProbeFailed(f"the {', '.join(probes)} probes ended with {done.returncode}: {done.stderr[-2000:].strip()}")
    found: dict[str, tuple[float, int]] = json.loads(done.stdout)
    return [row(metric, value, n, phase="environment") for metric, (value, n) in found.items()]
