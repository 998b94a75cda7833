"""The process behind `matmul`: `python -m plumbline.harness.probes.torch_worker --device cpu --threads 2` prints one JSON object."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable

import torch

_CPU_SHAPES = ((512, 512, 512), (1024, 1024, 1024), (2048, 2048, 1024))
_GPU_SHAPES = ((4096, 4096, 4096), (8192, 8192, 8192))
"""rows, inner, columns. Which product is fastest depends on caches and cores, so a few sizes are tried."""
_SECONDS_EACH, _AT_LEAST = 0.15, 3
_GPU_BUFFER_BYTES = 2**30


def products(device: torch.device, dtype: torch.dtype, shapes: tuple[tuple[int, int, int], ...]) -> tuple[float, int]:
    """Best rate in FLOP/s (a multiplication and an addition count two) and how many products were timed."""
    generator = torch.Generator(device).manual_seed(1)
    best, n = 0.0, 0
    for rows, inner, columns in shapes:
        # Random numbers: zeros draw less power, and so let clocks rise higher than real work does.
        left = torch.randn(rows, inner, generator=generator, device=device).to(dtype)
        right = torch.randn(inner, columns, generator=generator, device=device).to(dtype)
        result = left @ right
        times = timed(lambda a=left, b=right, out=result: torch.matmul(a, b, out=out), device)  # type: ignore[misc]
        best, n = max(best, 2.0 * rows * inner * columns / min(times)), n + len(times)
    return best, n


def copies(device: torch.device, size: int) -> tuple[float, int]:
    """Best rate in bytes/s, read plus written, of copies between two buffers of `size` bytes on the device; and their number."""
    source = torch.ones(size // 4, device=device)
    target = torch.empty_like(source)
    times = timed(lambda: target.copy_(source), device)
    return 2.0 * source.nbytes / min(times), len(times)


def timed(work: Callable[[], object], device: torch.device) -> list[float]:
    """Seconds of each repetition; one before them is left out, in which threads start and memory is mapped."""
    work()
    _finish(device)
    times: list[float] = []
    started = time.perf_counter()
    while len(times) < _AT_LEAST or time.perf_counter() - started < _SECONDS_EACH:
        before = time.perf_counter()
        work()
        _finish(device)
        times.append(time.perf_counter() - before)
    return times


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    parser.add_argument("--threads", type=int, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.device == "cpu":
        rate, n = products(torch.device("cpu"), torch.float32, _CPU_SHAPES)
        sys.stdout.write(json.dumps({"flops_per_s": rate, "products": n}))
        return
    gpus = [torch.device("cuda", i) for i in range(torch.cuda.device_count())]
    if not gpus:
        parser.error("PyTorch sees no GPU; expected at least one for --device cuda")
    rate, n = min(products(gpu, torch.bfloat16, _GPU_SHAPES) for gpu in gpus)
    bandwidth, n_copies = min(copies(gpu, _GPU_BUFFER_BYTES) for gpu in gpus)
    sys.stdout.write(json.dumps({"flops_per_s": rate, "products": n, "bytes_per_s": bandwidth, "copies": n_copies}))


if __name__ == "__main__":
    main()
