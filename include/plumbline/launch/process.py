"""Start a trial's process under its keeper and stay with it to the end: limits, output, and a clean place afterwards."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

import psutil

from plumbline.launch import keeper, tree

_MEMORY_EVERY_S, _LOOK_EVERY_S = 0.5, 0.1
_MOST_LOG_BYTES, _TAIL_BYTES, _LONGEST_LINE = 32 * 2**20, 4096, 65536


@dataclass(frozen=True)
class Limits:
    """`memory_bytes` is of the whole process tree; `grace_s` lies between SIGTERM and SIGKILL."""

    timeout_s: float
    memory_bytes: float
    grace_s: float


@dataclass(frozen=True)
class Ended:
    """How it ended: `code` as in subprocess (negative: a signal); `stopped` if it was we who ended it, and why."""

    code: int
    stopped: Literal["timeout", "memory"] | None
    detail: str


class Output:
    """What a trial prints: all of it in a file (up to 32 MiB), each line told as it comes, the last 4 kB for people at hand.

    `on_line` answers whether a line was for machines (progress); such lines would push the last words of a crash out of the tail.
    """

    def __init__(self, file: IO[bytes], on_line: Callable[[str], bool]) -> None:
        self._file, self._on_line = file, on_line
        self._written, self._dropped = 0, 0
        self._rest = b""
        self._tail: deque[str] = deque()
        self._tail_bytes = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        room = max(_MOST_LOG_BYTES - self._written, 0)
        self._file.write(data[:room])
        self._written += len(data[:room])
        self._dropped += len(data) - len(data[:room])
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._line(line)
        # A flood without line ends must not fill the memory; no progress line is that long.
        self._rest = self._rest[-_LONGEST_LINE:]

    def close(self) -> None:
        """Tell an unfinished last line and say what the file does not hold."""
        if self._rest:
            self._line(self._rest)
            self._rest = b""
        if self._dropped:
            self._file.write(f"\n({self._dropped} bytes more were printed and are not kept)\n".encode())
        self._file.flush()

    def _line(self, raw: bytes) -> None:
        line = raw.decode("utf-8", "replace")
        if self._on_line(line):
            return
        self._tail.append(line[-_TAIL_BYTES // 4 :])
        self._tail_bytes += len(self._tail[-1].encode()) + 1
        while self._tail_bytes > _TAIL_BYTES:
            self._tail_bytes -= len(self._tail.popleft().encode()) + 1

    @property
    def tail(self) -> str:
        """The last whole lines for people, 4 kB at most."""
        return "\n".join(self._tail)


@dataclass(frozen=True)
class Supervised:
    """A trial's running process. `pid` and `start` are its keeper's."""

    pid: int
    start: str
    wait: Callable[[], Ended]


@contextmanager
def supervised(
    command: Sequence[str],
    *,
    cpus: Sequence[int],
    environment: Mapping[str, str],
    token: str,
    folder: Path,
    hold: int,
    limits: Limits,
    output: Output,
) -> Iterator[Supervised]:
    """Run a command pinned to `cpus`, in a session of its own, in `folder`.

    However the block is left, no process of the trial is left after it; RuntimeError if one cannot be ended.
    """
    wrapped = [
        *(sys.executable, "-I", "-S", keeper.__file__),
        *("--launcher", str(os.getpid()), "--cpus", ",".join(map(str, cpus)), "--hold", str(hold), "--grace", str(limits.grace_s)),
        *("--", *command),
    ]
    process = subprocess.Popen(
        wrapped,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
        env=dict(environment),
        start_new_session=True,
        pass_fds=(hold,),
    )
    # Not reaped yet, so the pid is still its own, even if it ended at once.
    start = tree.start_of(process.pid) or "ended"
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    began = time.monotonic()
    try:
        yield Supervised(process.pid, start, lambda: _stay(process, start, token, began, limits, output))
    finally:
        tree.end(token, process.pid, start, limits.grace_s)
        process.wait()
        _drain(process.stdout, output, most=None)
        process.stdout.close()
        output.close()


def _stay(process: subprocess.Popen[bytes], start: str, token: str, began: float, limits: Limits, output: Output) -> Ended:
    assert process.stdout is not None
    stopped: Literal["timeout", "memory"] | None = None
    detail = ""
    next_memory = began + _MEMORY_EVERY_S
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while process.poll() is None:
            if selector.get_map() and selector.select(_LOOK_EVERY_S):
                if not _drain(process.stdout, output):
                    selector.unregister(process.stdout)
            elif not selector.get_map():
                time.sleep(_LOOK_EVERY_S)
            now = time.monotonic()
            if now - began > limits.timeout_s:
                stopped, detail = "timeout", f"not done after {limits.timeout_s:g}s, the launcher's timeout"
            elif now >= next_memory:
                next_memory = now + _MEMORY_EVERY_S
                used = resident_bytes(process.pid, limits.memory_bytes)
                if used > limits.memory_bytes:
                    stopped = "memory"
                    detail = (
                        f"its processes held {used / 2**20:.0f} MiB, over the launcher's limit of {limits.memory_bytes / 2**20:.0f} MiB; "
                        "expected a smaller model or batch, or a higher launcher.memory"
                    )
            if stopped:
                tree.end(token, process.pid, start, limits.grace_s)
                process.wait()
    return Ended(process.returncode, stopped, detail)


def _drain(pipe: IO[bytes], output: Output, most: int | None = 16) -> bool:
    """Read what is there, in at most `most` pieces (a flood must not keep the limits from being looked at); False at the end of it."""
    while most is None or most > 0:
        try:
            data = os.read(pipe.fileno(), 65536)
        except BlockingIOError:
            return True
        if not data:
            return False
        output.feed(data)
        most = None if most is None else most - 1
    return True


def resident_bytes(keeper_pid: int, limit: float) -> float:
    """Memory that the processes below the keeper hold.

    Summing resident sizes is cheap but counts shared pages once for each process, so a sum above the limit is checked against the
    proportional sizes before anybody is accused.
    """
    below = keeper.descendants({keeper_pid})
    total = sum(_each(below, lambda p: float(p.memory_info().rss)))
    return sum(_each(below, lambda p: float(p.memory_full_info().pss))) if total > limit else total


def _each(pids: set[int], measure: Callable[[psutil.Process], float]) -> Iterator[float]:
    for pid in pids:
        with contextlib.suppress(psutil.Error):  # it ended meanwhile
            yield measure(psutil.Process(pid))
