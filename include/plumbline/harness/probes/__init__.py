"""What the hardware can do, measured before each trial: it tells slower hardware from slower software.

All rows are in phase `environment`. On a CPU they take three to five seconds in all, on a GPU well under a minute.

    matmul      matmul_tflops, and one figure for each number format that the device computes in
    memory      memory_bandwidth, of main memory or of the GPUs
    copy        host_to_device_bandwidth, device_to_host_bandwidth: of GPUs only
    all_reduce  all_reduce_bus_bandwidth: over this node's ranks, if there are several
    disk        disk_write_bandwidth, disk_read_bandwidth: where checkpoints go
    dataset     dataset_read_bandwidth: as batches are read

Between nodes there is `peer`: it needs somebody at the other end.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Literal

from plumbline.harness.probes import computing, disk, memory
from plumbline.harness.probes.computing import ProbeFailed
from plumbline.results import MetricRow

__all__ = ["ALL", "ProbeFailed", "ProbeName", "run"]

ProbeName = Literal["matmul", "memory", "copy", "all_reduce", "disk", "dataset"]
ALL: tuple[ProbeName, ...] = ("matmul", "memory", "copy", "all_reduce", "disk", "dataset")


def run(
    cpus: Sequence[int],
    workdir: Path,
    device: Literal["cpu", "cuda"] = "cpu",
    ranks: int = 1,
    only: Collection[ProbeName] = ALL,
    limit_s: float = computing.LIMIT_S,
    gpus: int | None = None,
) -> list[MetricRow]:
    """The rows of the probes in `only`, where they apply. Of several GPUs the slowest counts: all others wait for it.

    `cpus`: the cores that the trial may use. `ranks`: processes of a job on this node's CPU; on GPUs there is one for each.
    `gpus`: only so many, the first ones. `limit_s`: of those that compute with PyTorch. ProbeFailed if it cannot compute on the device, or
    not within the limit; OSError if the disk cannot be written.
    """
    needed = [name for name in ("all_reduce", "matmul", "memory", "copy") if name in only]
    if device == "cpu":
        needed = [name for name in needed if name == "matmul" or (name == "all_reduce" and ranks > 1)]
    found = computing.rows(needed, device, len(cpus), ranks, workdir, limit_s, gpus)
    if device == "cpu" and "memory" in only:
        found += memory.rows(cpus)
    if "disk" in only:
        found += disk.rows(workdir)
    return found + (disk.dataset_rows(workdir) if "dataset" in only else [])
