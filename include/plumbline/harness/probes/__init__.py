"""What the hardware can do, measured before each trial: it tells slower hardware from slower software.

All rows are in phase `environment`. On a CPU they take three to five seconds in all, on a GPU one to two minutes, half of it the disk's.

    matmul      matmul_tflops, and one figure for each number format that the device computes in
    memory      memory_bandwidth, of main memory or of the GPUs
    copy        host_to_device_bandwidth, device_to_host_bandwidth: of GPUs only, near each GPU's NUMA node
    all_reduce  all_reduce_bus_bandwidth: over this node's ranks, if there are several
    disk        disk_write_bandwidth, disk_read_bandwidth: where checkpoints go
    dataset     dataset_read_bandwidth: as batches are read

A probe that fails costs its rows and never the trial: they are absent and say why. Between nodes there are `peer` and `inter_node`, which
need the other nodes' harnesses.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Literal

from plumbline.declarations.providers.launchers import COLLECTIVE_LIMIT_S
from plumbline.harness.probes import runner
from plumbline.results import MetricRow, metric_row

__all__ = ["ALL_PROBES", "ProbeName", "run"]

ProbeName = Literal["matmul", "memory", "copy", "all_reduce", "disk", "dataset"]
ALL_PROBES: tuple[ProbeName, ...] = ("matmul", "memory", "copy", "all_reduce", "disk", "dataset")
FORMATS = ("fp32", "tf32", "bf16", "fp16", "fp8")

_LIMIT_S = 900.0
_START_S = 60.0
"""What starting the worker may add to the limit of a collective."""


def run(
    cpus: Sequence[int],
    workdir: Path,
    device: Literal["cpu", "cuda"] = "cpu",
    ranks: int = 1,
    collective_s: float = COLLECTIVE_LIMIT_S,
    *,
    only: Collection[ProbeName] = ALL_PROBES,
    limit_s: float = _LIMIT_S,
    gpus: int | None = None,
) -> list[MetricRow]:
    """The rows of the probes in `only`, where they apply. Of several GPUs the slowest counts: all others wait for it.

    `cpus`: the cores that the trial may use. `ranks`: processes of a job on this node's CPU; on GPUs there is one for each.
    `collective_s`: limit of the all-reduce; `limit_s`: of all probes together. `gpus`: only so many, the first ones.
    """
    parts = _parts(device, ranks, only)
    with _scratch_folder(workdir) as folder:
        arguments = ["--device", device, "--ranks", str(ranks), "--folder", str(folder), "--collective-s", str(collective_s)]
        arguments += ["--cpus", *map(str, cpus)]
        if gpus is not None:
            arguments += ["--gpus", str(gpus)]
        found = runner.run_parts(parts, arguments, {"all_reduce": collective_s + _START_S}, limit_s)
    return [*_default_matmul_row(found, device), *found]


@contextmanager
def _scratch_folder(workdir: Path) -> Iterator[Path]:
    """A folder below `workdir` that takes with it what a killed probe leaves behind; `workdir` itself if nothing can be written there, which
    the probes that write find out."""
    with ExitStack() as stack:
        folder = workdir
        with suppress(OSError):
            made = tempfile.TemporaryDirectory(prefix="probes-", dir=workdir, ignore_cleanup_errors=True)
            folder = Path(stack.enter_context(made))
        yield folder


def _parts(device: str, ranks: int, only: Collection[ProbeName]) -> dict[str, tuple[str, ...]]:
    """The parts of the probes that apply, in the order in which they are measured. The all-reduce comes first: it forks, and a process that
    has computed has threads, which a fork does not carry over."""
    of: dict[ProbeName, dict[str, tuple[str, ...]]] = {
        "all_reduce": {"all_reduce": ("all_reduce_bus_bandwidth",)} if ranks > 1 or device == "cuda" else {},
        "matmul": {f"matmul_{name}": (f"matmul_tflops_{name}",) for name in FORMATS},
        "memory": {"memory": ("memory_bandwidth",)},
        "copy": {each: (f"{each}_bandwidth",) for each in ("host_to_device", "device_to_host")} if device == "cuda" else {},
        "disk": {"disk": ("disk_write_bandwidth", "disk_read_bandwidth")},
        "dataset": {"dataset": ("dataset_read_bandwidth",)},
    }
    return {part: metrics for name, parts in of.items() if name in only for part, metrics in parts.items()}


def _default_matmul_row(found: Sequence[MetricRow], device: str) -> list[MetricRow]:
    """`matmul_tflops`: the figure in the device's usual format, fp32 on a CPU and bf16 on a GPU, or fp32 on one too old for it."""
    by_metric = {each.metric: each for each in found}
    usual = by_metric.get("matmul_tflops_fp32" if device == "cpu" else "matmul_tflops_bf16")
    if usual is not None and (usual.reason or "").startswith(NOT_COMPUTED):
        usual = by_metric["matmul_tflops_fp32"]
    if usual is None:
        return []
    return [metric_row("matmul_tflops", usual.value, usual.n, phase="environment", reason=usual.reason)]


NOT_COMPUTED = "not computed here: "
"""How the reason begins where a device does not compute in a format: not a failure."""
