"""What the hardware can do, measured before each trial: it tells slower hardware from slower software.

All rows are in phase `environment`. On a CPU they take two to three seconds in all.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from plumbline.harness.probes import disk, matmul, memory
from plumbline.harness.probes.matmul import ProbeFailed
from plumbline.results import MetricRow

__all__ = ["ProbeFailed", "run"]


def run(cpus: Sequence[int], workdir: Path, device: Literal["cpu", "cuda"] = "cpu") -> list[MetricRow]:
    """matmul_tflops, memory_bandwidth (of the GPUs for `cuda`), disk_write_bandwidth (in `workdir`).

    `cpus`: the cores that the trial may use. ProbeFailed if PyTorch cannot compute on the device; OSError if the disk cannot be written.
    """
    computing = matmul.accelerator_rows(cpus) if device == "cuda" else [*matmul.rows(cpus), *memory.rows(cpus)]
    return [*computing, *disk.rows(workdir)]
