"""Hardware probes before each trial, which separate slower hardware from slower software.

All rows are in phase `environment`. On a CPU they take three to five seconds in all, on a GPU one to two minutes, half of it the disk's.

    matmul      matmul_tflops, and one figure for each number format that the device computes in
    memory      memory_bandwidth, of main memory or of the GPUs
    copy        host_to_device_bandwidth, device_to_host_bandwidth: of GPUs only, near each GPU's NUMA node
    all_reduce  all_reduce_bus_bandwidth: over this node's ranks, if there are several
    disk        disk_write_bandwidth, disk_read_bandwidth: where checkpoints go
    dataset     dataset_read_bandwidth: as batches are read

A failed probe costs its rows, never the trial. `inter_node` probes between nodes.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Literal

from plumbline.declarations.providers.launcher_base import COLLECTIVE_LIMIT_S
from plumbline.harness import engine_python
from plumbline.harness.child_process import ChildProcess
from plumbline.harness.process_tree import describe_exit
from plumbline.results import MetricRow, metric_row

__all__ = ["ALL_PROBES", "ProbeName", "run"]

ProbeName = Literal["matmul", "memory", "copy", "all_reduce", "disk", "dataset"]
ALL_PROBES: tuple[ProbeName, ...] = ("matmul", "memory", "copy", "all_reduce", "disk", "dataset")
FORMATS = ("fp32", "tf32", "bf16", "fp16", "fp8")
NOT_COMPUTED = "not computed here: "
"""Prefix of the reason where a device does not compute in a format, which is not a failure."""

_LIMIT_S = 900.0
PART_LIMIT_S = 120.0
"""How long one part may take; the collective has a declared limit beside it."""
_START_S = 60.0
"""Seconds that the worker's start may add to the limit of a collective."""
_STDERR_TAIL_BYTES = 4000
_CHUNK = 1 << 16

Parts = Mapping[str, Sequence[str]]
"""Part → the metrics that it measures."""


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
    """The rows of the probes in `only`, where they apply; of several GPUs the slowest counts.

    `cpus`: the cores that the trial may use. `ranks`: processes of a job on this node's CPU; on GPUs there is one for each.
    `collective_s`: limit of the all-reduce; `limit_s`: of all probes together. `gpus`: only the first ones."""
    parts = _parts(device, ranks, only)
    with _scratch_folder(workdir) as folder:
        arguments = ["--device", device, "--ranks", str(ranks), "--folder", str(folder), "--collective-s", str(collective_s)]
        arguments += ["--cpus", *map(str, cpus)]
        if gpus is not None:
            arguments += ["--gpus", str(gpus)]
        rows = run_parts(parts, arguments, {"all_reduce": collective_s + _START_S}, limit_s)
    return [*_default_matmul_row(rows, device), *rows]


@contextmanager
def _scratch_folder(workdir: Path) -> Iterator[Path]:
    """A folder below `workdir` that is removed with what a killed probe leaves; `workdir` itself if it is read-only."""
    with ExitStack() as stack:
        folder = workdir
        with suppress(OSError):
            made = tempfile.TemporaryDirectory(prefix="probes-", dir=workdir, ignore_cleanup_errors=True)
            folder = Path(stack.enter_context(made))
        yield folder


def _parts(device: str, ranks: int, only: Collection[ProbeName]) -> dict[str, tuple[str, ...]]:
    """Applicable parts in order. The all-reduce comes first: it forks, and a process that has computed has threads, which a fork loses."""
    of: dict[ProbeName, dict[str, tuple[str, ...]]] = {
        "all_reduce": {"all_reduce": ("all_reduce_bus_bandwidth",)} if ranks > 1 or device == "cuda" else {},
        "matmul": {f"matmul_{name}": (f"matmul_tflops_{name}",) for name in FORMATS},
        "memory": {"memory": ("memory_bandwidth",)},
        "copy": {each: (f"{each}_bandwidth",) for each in ("host_to_device", "device_to_host")} if device == "cuda" else {},
        "disk": {"disk": ("disk_write_bandwidth", "disk_read_bandwidth")},
        "dataset": {"dataset": ("dataset_read_bandwidth",)},
    }
    return {part: metrics for name, parts in of.items() if name in only for part, metrics in parts.items()}


def _default_matmul_row(rows: Sequence[MetricRow], device: str) -> list[MetricRow]:
    """`matmul_tflops`: the figure in the device's usual format, fp32 on a CPU and bf16 on a GPU, or fp32 on one too old for it."""
    by_metric = {each.metric: each for each in rows}
    usual = by_metric.get("matmul_tflops_fp32" if device == "cpu" else "matmul_tflops_bf16")
    if usual is not None and (usual.reason or "").startswith(NOT_COMPUTED):
        usual = by_metric["matmul_tflops_fp32"]
    if usual is None:
        return []
    return [metric_row("matmul_tflops", usual.value, usual.n, phase="environment", reason=usual.reason)]


def run_parts(parts: Parts, arguments: Sequence[str], limits_s: Mapping[str, float], limit_s: float) -> list[MetricRow]:
    """The rows of all parts, in their order, from a separate process. If a part fails, hangs or kills the process, its rows carry the reason and
    a fresh process continues with the next part.

    `arguments`: of the worker, without the parts. `limits_s`: of parts with another limit than PART_LIMIT_S; `limit_s`: of all together."""
    deadline = time.monotonic() + limit_s
    rows: dict[str, list[MetricRow]] = {}
    while left := [part for part in parts if part not in rows]:
        if time.monotonic() >= deadline:
            rows |= {part: _absent_rows(parts[part], f"not started: the time limit of {limit_s:g} s had passed") for part in left}
            break
        done, why = _run_worker({part: parts[part] for part in left}, arguments, limits_s, deadline)
        rows |= done
        if why is not None:
            broken = next(part for part in left if part not in done)
            rows[broken] = _absent_rows(parts[broken], why)
    return [row for part in parts for row in rows[part]]


def _absent_rows(metrics: Sequence[str], why: str) -> list[MetricRow]:
    return [metric_row(metric, None, 0, phase="environment", reason=why) for metric in metrics]


def _run_worker(
    parts: Parts, arguments: Sequence[str], limits_s: Mapping[str, float], deadline: float
) -> tuple[dict[str, list[MetricRow]], str | None]:
    """Reported rows, and why the first missing part is absent; None if the process ended by itself in between."""
    rows: dict[str, list[MetricRow]] = {}
    words = [*command(), *arguments, "--parts", *parts]
    with ChildProcess(words, engine_python.environment(), output=subprocess.PIPE, errors=subprocess.PIPE) as process:
        streams = _Streams(process)
        for part in parts:
            limit_s = min(limits_s.get(part, PART_LIMIT_S), max(deadline - time.monotonic(), 0.0))
            line = streams.line(limit_s)
            if line is None:
                return rows, f"took longer than {limit_s:.3g} s"
            if not line:
                # A worker that reported a part may end on purpose, to begin the next one in a fresh process.
                code = process.wait()
                return rows, None if rows and code == 0 else f"its process {describe_exit(code, streams.errors)}"
            answer = json.loads(line)
            rows[part] = (
                _absent_rows(parts[part], answer["failed"]) if "failed" in answer else [MetricRow(**each) for each in answer["rows"]]
            )
    return rows, None


def command() -> list[str]:
    return [engine_python.executable(), "-m", "plumbline.harness.probes.worker"]


class _Streams:
    """The process's output by lines, while its errors are drained so that it never blocks."""

    def __init__(self, process: ChildProcess) -> None:
        assert process.stdout is not None and process.stderr is not None
        self._out, self._errors = process.stdout.fileno(), process.stderr.fileno()
        self._selector = selectors.DefaultSelector()
        for stream in (self._out, self._errors):
            self._selector.register(stream, selectors.EVENT_READ)
        self._buffer, self._tail = b"", b""

    @property
    def errors(self) -> str:
        return self._tail.decode(errors="replace")

    def line(self, limit_s: float) -> bytes | None:
        """The next whole line; empty once there are no more; None if none comes within the limit."""
        deadline = time.monotonic() + limit_s
        while b"\n" not in self._buffer and self._selector.get_map():
            ready = self._selector.select(max(deadline - time.monotonic(), 0.0))
            if not ready:
                return None
            for key, _ in ready:
                data = os.read(key.fd, _CHUNK)
                if not data:
                    self._selector.unregister(key.fd)
                elif key.fd == self._out:
                    self._buffer += data
                else:
                    self._tail = (self._tail + data)[-_STDERR_TAIL_BYTES:]
        line, newline, self._buffer = self._buffer.partition(b"\n")
        return line if newline else b""
