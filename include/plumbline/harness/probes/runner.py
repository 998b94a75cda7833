"""Runs probes in a process of their own and turns what it reports into rows. A probe that fails costs its rows, never the others'.

The process (`worker`) takes the parts one after the other and reports each with one line. If a part fails, hangs or takes the process with
it, its rows carry the reason, and a fresh process goes on with the next part.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress

import psutil

from plumbline.harness import engine_python
from plumbline.results import MetricRow, metric_row

PART_LIMIT_S = 120.0
"""How long one part may take; the collective has a declared limit beside it."""
_STDERR_TAIL_BYTES = 4000
_CHUNK = 1 << 16

Parts = Mapping[str, Sequence[str]]
"""Part → the metrics that it measures."""


def run_parts(parts: Parts, arguments: Sequence[str], limits_s: Mapping[str, float], limit_s: float) -> list[MetricRow]:
    """The rows of all parts, in their order; of a part that failed one row a metric, absent and with its reason.

    `arguments`: of the worker, without the parts. `limits_s`: of parts that may take another time than PART_LIMIT_S; `limit_s`: of all
    together.
    """
    deadline = time.monotonic() + limit_s
    found: dict[str, list[MetricRow]] = {}
    while left := [part for part in parts if part not in found]:
        if time.monotonic() >= deadline:
            found |= {part: _absent_rows(parts[part], f"not started: the probes' limit of {limit_s:g} s was over") for part in left}
            break
        done, why = _run_worker({part: parts[part] for part in left}, arguments, limits_s, deadline)
        found |= done
        if why is not None:
            broken = next(part for part in left if part not in done)
            found[broken] = _absent_rows(parts[broken], why)
    return [row for part in parts for row in found[part]]


def _absent_rows(metrics: Sequence[str], why: str) -> list[MetricRow]:
    return [metric_row(metric, None, 0, phase="environment", reason=why) for metric in metrics]


def _run_worker(
    parts: Parts, arguments: Sequence[str], limits_s: Mapping[str, float], deadline: float
) -> tuple[dict[str, list[MetricRow]], str | None]:
    """What one process reported, and why the first part that it did not report is absent; None if the process ended by itself in between."""
    found: dict[str, list[MetricRow]] = {}
    with _worker([*command(), *arguments, "--parts", *parts]) as process:
        streams = _Streams(process)
        for part in parts:
            limit_s = min(limits_s.get(part, PART_LIMIT_S), max(deadline - time.monotonic(), 0.0))
            line = streams.line(limit_s)
            if line is None:
                return found, f"took longer than {limit_s:.3g} s"
            if not line:
                # A worker that reported a part may end on purpose, to begin the next one in a fresh process.
                code = process.wait()
                return found, None if found and code == 0 else _describe_exit(code, streams.errors)
            answer = json.loads(line)
            found[part] = (
                _absent_rows(parts[part], answer["failed"]) if "failed" in answer else [MetricRow(**each) for each in answer["rows"]]
            )
    return found, None


def command() -> list[str]:
    """What starts the worker."""
    return [engine_python.executable(), "-m", "plumbline.harness.probes.worker"]


def _describe_exit(code: int, errors: str) -> str:
    how = f"its process was ended by signal {-code}" if code < 0 else f"its process ended with exit code {code}"
    last = errors.strip().splitlines()[-1:]
    return f"{how}: {last[0]}" if last else how


class _Streams:
    """The process's output, a line at a time, while its errors are drained so that it never waits for room."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None and process.stderr is not None
        self._out, self._errors = process.stdout.fileno(), process.stderr.fileno()
        self._selector = selectors.DefaultSelector()
        for stream in (self._out, self._errors):
            self._selector.register(stream, selectors.EVENT_READ)
        self._buffer, self._tail = b"", b""

    @property
    def errors(self) -> str:
        """The last of what it wrote to its standard error."""
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


@contextmanager
def _worker(words: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """The process; at the end of the block it and whatever it started are gone."""
    with ExitStack() as stack:
        process = stack.enter_context(
            subprocess.Popen(
                words,
                env=engine_python.environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        )
        stack.callback(kill_process_tree, process.pid)
        yield process


def kill_process_tree(pid: int) -> None:
    """Kill a process that we started and its descendants."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for each in [*process.children(recursive=True), process]:
            with suppress(psutil.NoSuchProcess):
                each.kill()
