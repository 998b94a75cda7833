"""Matrix products and memory copies of one device. Needs torch; runs in the probe process only."""

from __future__ import annotations

import argparse
import math
import mmap
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch

from plumbline.harness.probes import NOT_COMPUTED, memory
from plumbline.results import MetricRow, metric_row

_OTHER_GPUS_S = 0.3
_COPY_BYTES, _TRANSFER_BYTES = 2**30, 2**28


def rows(part: str, options: argparse.Namespace) -> list[MetricRow]:
    """The row of `matmul_<format>`, of `memory` of GPUs, or of `host_to_device` or `device_to_host`; the slowest GPU's."""
    if part.startswith("matmul_"):
        return [_matmul_row(part.removeprefix("matmul_"), options)]
    gpus = usable_gpus(options.gpus)
    if part == "memory":
        return [metric_row("memory_bandwidth", *min(copy_within_device(gpu, _COPY_BYTES) for gpu in gpus), phase="environment")]
    copy = copy_to_device if part == "host_to_device" else copy_to_host
    rate, n, where = min(copy(gpu, _TRANSFER_BYTES) for gpu in gpus)
    return [metric_row(f"{part}_bandwidth", rate, n, phase="environment", method=where)]


def usable_gpus(most: int | None) -> list[torch.device]:
    """The first `most` GPUs, or all; RuntimeError without any."""
    gpus = [torch.device("cuda", i) for i in range(torch.cuda.device_count())][:most]
    if not gpus:
        raise RuntimeError("PyTorch sees no GPU; expected at least one")
    return gpus


def _matmul_row(name: str, options: argparse.Namespace) -> MetricRow:
    cpu = options.device == "cpu"
    first, *others = [torch.device("cpu")] if cpu else usable_gpus(options.gpus)
    metric = f"matmul_tflops_{name}"
    why = unsupported_format(first, name)
    if why is not None:
        return metric_row(metric, None, 0, phase="environment", reason=NOT_COMPUTED + why)
    if cpu:
        torch.set_num_threads(len(options.cpus))
    rate, n, shape = best_matmul(first, name, CPU_SHAPES if cpu else GPU_SHAPES)
    slowest = min([(rate, n), *(sustained_matmul(gpu, name, shape, _OTHER_GPUS_S)[:2] for gpu in others)])
    return metric_row(metric, *slowest, phase="environment")


Shape = tuple[int, int, int]
"""rows, inner, columns. The fastest product depends on caches and cores, so a few sizes are tried, smaller ones first."""

CPU_SHAPES: tuple[Shape, ...] = ((512, 512, 512), (1024, 1024, 1024), (2048, 2048, 1024))
GPU_SHAPES: tuple[Shape, ...] = (
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (8448, 8192, 8448),  # 132 multiprocessors have no multiple of a power of two to share
    (16384, 8192, 8192),
    (16384, 16384, 16384),
)
_SEARCH_S, _SUSTAINED_S, _LONGEST_S = 0.15, 1.0, 0.6
_DTYPES = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp8": torch.float8_e4m3fn,
}


_MIN_CAPABILITY = {"fp32": (0, 0), "tf32": (8, 0), "bf16": (8, 0), "fp16": (7, 0), "fp8": (8, 9)}
"""Lowest compute capability of NVIDIA's GPUs for each format."""


def unsupported_format(device: torch.device, name: str) -> str | None:
    """Why the device does not compute in a format; None if it does."""
    if device.type == "cpu":
        return None if name in ("fp32", "bf16") else f"{name} is measured on GPUs only"
    if torch.version.hip is not None:
        # AMD's 8-bit formats differ from card to card, and few have TF32.
        return None if name in ("fp32", "bf16", "fp16") else f"{name} is not measured on AMD GPUs"
    capability = torch.cuda.get_device_capability(device)
    if capability >= _MIN_CAPABILITY[name]:
        return None
    return f"{name} takes compute capability {_format_capability(_MIN_CAPABILITY[name])}, and this GPU has {_format_capability(capability)}"


def _format_capability(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"


def best_matmul(device: torch.device, name: str, shapes: Sequence[Shape]) -> tuple[float, int, Shape]:
    """Best rate in FLOP/s (a multiplication and an addition count two), number of timed products, and the best shape.

    Of a CPU the fastest single product, as its neighbours disturb it. Of a GPU the rate over a second, as its first clocks exceed its power
    supply."""
    results: list[tuple[float, Shape]] = []
    n = 0
    for shape in shapes:
        if results and (_flops(shape) / max(results)[0] > _LONGEST_S or not _fits(device, shape)):
            break
        times = _time_matmul(device, name, shape, _SEARCH_S)
        results.append((_flop_rate(device, shape, times), shape))
        n += len(times)
    rate, shape = max(results)
    return (rate, n, shape) if device.type == "cpu" else sustained_matmul(device, name, shape, _SUSTAINED_S)


def sustained_matmul(device: torch.device, name: str, shape: Shape, seconds: float) -> tuple[float, int, Shape]:
    times = _time_matmul(device, name, shape, seconds)
    return _flop_rate(device, shape, times), len(times), shape


def matmul_call(device: torch.device, name: str, shape: Shape) -> Callable[[], torch.Tensor]:
    """Multiplies two random matrices. Zeros draw less power and so raise the clocks."""
    rows, inner, columns = shape
    generator = torch.Generator(device).manual_seed(1)
    left = torch.randn(rows, inner, generator=generator, device=device).to(_DTYPES[name])
    if name == "fp8":
        # The tensor cores take the second factor column by column.
        right = torch.randn(columns, inner, generator=generator, device=device).to(_DTYPES[name]).t()
        return _fp8_matmul(left, right)
    right = torch.randn(inner, columns, generator=generator, device=device).to(_DTYPES[name])
    out = torch.empty(rows, columns, dtype=_DTYPES[name], device=device)
    return lambda: torch.matmul(left, right, out=out)


def _fp8_matmul(left: torch.Tensor, right: torch.Tensor) -> Callable[[], torch.Tensor]:
    """An fp8 product with one scale a matrix; the public interface came with torch 2.10."""
    one = torch.ones((), device=left.device)
    public = getattr(torch.nn.functional, "scaled_mm", None)
    if public is None:
        return lambda: torch._scaled_mm(left, right, one, one, out_dtype=torch.bfloat16, use_fast_accum=True)
    whole = torch.nn.functional.ScalingType.TensorWise
    return lambda: cast(torch.Tensor, public(left, right, one, whole, one, whole, output_dtype=torch.bfloat16, use_fast_accum=True))


def _time_matmul(device: torch.device, name: str, shape: Shape, seconds: float) -> list[float]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if name == "tf32" else "highest")
    try:
        return time_repetitions(matmul_call(device, name, shape), device, seconds)
    finally:
        torch.set_float32_matmul_precision(before)


def _flop_rate(device: torch.device, shape: Shape, times: list[float]) -> float:
    return _flops(shape) / (min(times) if device.type == "cpu" else statistics.median(times))


def _flops(shape: Shape) -> float:
    return 2.0 * shape[0] * shape[1] * shape[2]


def _fits(device: torch.device, shape: Shape) -> bool:
    rows, inner, columns = shape
    needed = 4 * (rows * inner + inner * columns + rows * columns)
    return device.type == "cpu" or needed < torch.cuda.mem_get_info(device)[0] // 2


_MIN_REPETITIONS = 3
_WINDOW_S = 0.02
"""Seconds of repetitions on a GPU that are timed together, so that launches cost nothing."""


def time_repetitions(work: Callable[[], object], device: torch.device, seconds: float) -> list[float]:
    """Seconds of each repetition, after an untimed one that starts threads, maps memory and chooses kernels."""
    work()
    if device.type == "cpu":
        times: list[float] = []
        started = time.perf_counter()
        while len(times) < _MIN_REPETITIONS or time.perf_counter() - started < seconds:
            before = time.perf_counter()
            work()
            times.append(time.perf_counter() - before)
        return times
    with torch.cuda.device(device):
        each = max(math.ceil(_WINDOW_S / _time_window(work, 1)), 1)
        windows = max(math.ceil(seconds / _WINDOW_S), _MIN_REPETITIONS) if each > 1 else _MIN_REPETITIONS
        return [_time_window(work, each) / each for _ in range(windows)]


def _time_window(work: Callable[[], object], times: int) -> float:
    began = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    ended = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    began.record()
    for _ in range(times):
        work()
    ended.record()
    ended.synchronize()
    return float(began.elapsed_time(ended)) / 1e3


_COPY_SECONDS = 0.3


def copy_within_device(device: torch.device, size: int) -> tuple[float, int]:
    """Best rate in bytes/s, read plus written, of copies between two buffers of `size` bytes on the device; and their number."""
    source = torch.ones(size // 4, device=device)
    target = torch.empty_like(source)
    times = time_repetitions(lambda: target.copy_(source), device, _COPY_SECONDS)
    return 2.0 * source.nbytes / min(times), len(times)


def copy_to_device(device: torch.device, size: int) -> tuple[float, int, str]:
    """Best rate in bytes/s from page-locked main memory to the GPU; the number of copies; and where that memory lies."""
    return _time_copy(device, size, lambda host, there: there.copy_(host, non_blocking=True))


def copy_to_host(device: torch.device, size: int) -> tuple[float, int, str]:
    """Like `copy_to_device`, from the GPU."""
    return _time_copy(device, size, lambda host, there: host.copy_(there, non_blocking=True))


def _time_copy(device: torch.device, size: int, copy: Callable[[torch.Tensor, torch.Tensor], object]) -> tuple[float, int, str]:
    with memory.bound_to_node(memory.numa_node_of(device)) as where, _page_locked(device, size) as host:
        there = torch.ones(size // 4, device=device)
        times = time_repetitions(lambda: copy(host, there), device, _COPY_SECONDS)
        return size / min(times), len(times), where


@contextmanager
def _page_locked(device: torch.device, size: int) -> Iterator[torch.Tensor]:
    """Freshly mapped main memory, whose pages come from this thread's NUMA node: PyTorch reuses its page-locked memory wherever it lies."""
    host = torch.frombuffer(mmap.mmap(-1, size), dtype=torch.float32).fill_(1)
    if device.type != "cuda":
        yield host
        return
    runtime: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    error = int(runtime.cudaHostRegister(host.data_ptr(), size, 0))
    if error != 0:
        raise RuntimeError(f"cudaHostRegister of {size} bytes failed with {error}; expected that memory may be locked (ulimit -l)")
    try:
        yield host
    finally:
        torch.cuda.synchronize(device)
        runtime.cudaHostUnregister(host.data_ptr())
