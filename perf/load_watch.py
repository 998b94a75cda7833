"""Run a load client as a process and measure, from outside and equally for every client, its CPU time for a request."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

EVERY_S = 0.4


@dataclass(frozen=True)
class Watched:
    """How a client's process ended. `requests`: the server's count. `cpu_us`: CPU (user and system) of the client's processes for a request, from
    the first 10 % of the requests to the last 5 %, so without start and evaluation; None if the load was too short. `took_s`: seconds
    from start to end of the process.
    """

    status: int
    output: str
    requests: int
    cpu_us: float | None
    took_s: float


def watch(
    command: Sequence[str], served: Callable[[], int], *, env: Mapping[str, str] | None = None, cwd: Path | None = None, within_s: float
) -> Watched:
    """Run the command to its end, or kill it and its children after `within_s` (status -9)."""
    began, first = time.monotonic(), served()
    # Into a file: a client that prints more than a pipe's buffer would block.
    with (cwd or Path.cwd()).joinpath("client.out").open("w+", encoding="utf-8", errors="replace") as output_file:
        process = subprocess.Popen(
            command,
            env=env and {**os.environ, **env},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output_file,
            stderr=output_file,
            start_new_session=True,
        )
        samples: list[tuple[int, float]] = []
        family: list[psutil.Process] = []
        try:
            while process.poll() is None and time.monotonic() - began < within_s:
                count = served() - first
                if not count or not family:
                    # A client's processes exist before its first request; a later walk over all processes would distort the measurement.
                    with suppress(psutil.NoSuchProcess):
                        root = psutil.Process(process.pid)
                        family = [root, *root.children(recursive=True)]
                samples.append((count, sum(map(_cpu_s, family))))
                with suppress(subprocess.TimeoutExpired):
                    process.wait(EVERY_S)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for member in family:
                with suppress(psutil.NoSuchProcess):
                    member.kill()
        output_file.seek(0)
        output = output_file.read()
    total = served() - first
    return Watched(process.returncode, output, total, _slope(samples, total), time.monotonic() - began)


def _slope(samples: list[tuple[int, float]], total: int) -> float | None:
    inside = [(count, cpu) for count, cpu in samples if 0.1 * total <= count <= 0.95 * total]
    if len(inside) < 2 or inside[-1][0] == inside[0][0]:
        return None
    return (inside[-1][1] - inside[0][1]) / (inside[-1][0] - inside[0][0]) * 1e6


def _cpu_s(process: psutil.Process) -> float:
    """CPU seconds of the process's threads, in nanoseconds' resolution: clock ticks are too coarse for a second of load."""
    total = 0
    for thread in Path(f"/proc/{process.pid}/task").glob("*/schedstat"):
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread may end while its siblings are read
            total += int(thread.read_text().split()[0])
    return total / 1e9
