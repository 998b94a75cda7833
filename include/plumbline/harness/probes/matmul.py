"""The best matrix multiplication that PyTorch reaches here: what the hardware can do, whatever the model does with it.

It is measured in a process of its own (`torch_worker`), so that neither PyTorch's threads nor a GPU context stay behind in
the harness while the trial is measured.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from plumbline.results import MetricRow, row

_LIMIT_S = 180.0


class ProbeFailed(RuntimeError):
    """A probe could not measure; the message ends with what it wrote."""


def rows(cpus: Sequence[int]) -> list[MetricRow]:
    """`matmul_tflops` in FLOP/s: fp32 on as many threads as cores. ProbeFailed if the process fails or takes over three minutes."""
    found = _worker("cpu", len(cpus))
    return [row("matmul_tflops", found["flops_per_s"], found["products"], phase="environment")]


def accelerator_rows(cpus: Sequence[int]) -> list[MetricRow]:
    """`matmul_tflops` (bf16) and `memory_bandwidth` of the slowest visible GPU: the one that all others wait for."""
    found = _worker("cuda", len(cpus))
    return [
        row("matmul_tflops", found["flops_per_s"], found["products"], phase="environment"),
        row("memory_bandwidth", found["bytes_per_s"], found["copies"], phase="environment"),
    ]


def _worker(device: str, threads: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "plumbline.harness.probes.torch_worker", "--device", device, "--threads", str(threads)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise ProbeFailed(f"the matmul probe took longer than {_LIMIT_S:g}s") from error
    if done.returncode != 0:
        raise ProbeFailed(f"the matmul probe ended with {done.returncode}: {done.stderr[-2000:].strip()}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found
