"""Write bandwidth of the disk that checkpoints go to."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

from plumbline.results import MetricRow, row

_SIZE, _BLOCK, _TIMES = 64 * 2**20, 4 * 2**20, 3


def rows(workdir: Path) -> list[MetricRow]:
    """`disk_write_bandwidth`: median of three files of 64 MiB, written in order and flushed to the device with fsync."""
    block = os.urandom(_BLOCK)  # no file system or disk can compress it
    rates = [_write(workdir / "plumbline-disk-probe", block) for _ in range(_TIMES)]
    return [row("disk_write_bandwidth", statistics.median(rates), len(rates), phase="environment")]


def _write(file: Path, block: bytes) -> float:
    try:
        started = time.perf_counter()
        with file.open("wb", buffering=0) as target:
            for _ in range(_SIZE // len(block)):
                target.write(block)
            os.fsync(target.fileno())
        return _SIZE / (time.perf_counter() - started)
    finally:
        file.unlink(missing_ok=True)
