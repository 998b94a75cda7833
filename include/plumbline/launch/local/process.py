"""A trial's processes on this machine: environment, start under the reaper, limits, output, end."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Literal

import psutil

import plumbline
from plumbline.launch.local import reaper
from plumbline.launch.local.reaper import descendants, parents, send

TRIAL_TOKEN = "PLUMBLINE_TRIAL_TOKEN"
"""Unique for each launch and inherited by every descendant: by it a leftover is known, whatever group or session it moved to."""

# Allowed, not forbidden: a secret that nobody thought of (AIRFLOW__*, SLACK_*, database passwords) never reaches a trial.
# OMP_*, MKL_* and their like are left out too: the harness decides how many threads a trial has.
_ALLOWED_VARIABLES = frozenset(
    [
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "LANGUAGE",
        "TZ",
        "PYTHONPATH",
        "LD_LIBRARY_PATH",
        "VIRTUAL_ENV",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
        "http_proxy",
        "https_proxy",
        "no_proxy",
        "CUDA_HOME",
        "CUDA_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
        # Of our own by name too: a server's environment also holds PLUMBLINE_FERNET_KEY, passwords of databases, and what comes next.
        # An endpoint's key is the endpoint launcher's to give.
        "PLUMBLINE_HOME",
        "PLUMBLINE_CONFIG",
        "PLUMBLINE_IMAGE",
        "PLUMBLINE_CPU_LIMIT",
        "PLUMBLINE_MEMORY_LIMIT",
        "PLUMBLINE_ENGINE_PYTHON",
        "PLUMBLINE_TRITONSERVER",
        "PLUMBLINE_SERVER",  # a local Airflow knows its descendants by it
    ]
)
_ALLOWED_PREFIXES = ("LC_",)
# The harness writes its results itself, so it gets the credentials of the one store that it writes to.
_STORE_PREFIXES = {
    "s3": ("AWS_", "FSSPEC_S3"),
    "gs": ("GOOGLE_", "GCLOUD_", "FSSPEC_GS", "STORAGE_EMULATOR_HOST"),
    "gcs": ("GOOGLE_", "GCLOUD_", "FSSPEC_GS", "FSSPEC_GCS", "STORAGE_EMULATOR_HOST"),
    "az": ("AZURE_",),
    "abfs": ("AZURE_",),
    "abfss": ("AZURE_",),
}


def trial_environment(inherited: Mapping[str, str], store_url: str, token: str, scratch: Path) -> dict[str, str]:
    """The variables of one trial.

    `scratch` becomes its TMPDIR. The library of this very process comes first on PYTHONPATH, so that launcher and harness are of one
    version wherever the trial starts.
    """
    prefixes = _ALLOWED_PREFIXES + _STORE_PREFIXES.get(store_url.partition("://")[0].rpartition("::")[2], ())
    kept = {name: value for name, value in inherited.items() if name in _ALLOWED_VARIABLES or name.startswith(prefixes)}
    library = str(Path(plumbline.__path__[0]).resolve().parent)
    others = [part for part in kept.get("PYTHONPATH", "").split(os.pathsep) if part and part != library]
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join([library, *others]),
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": str(scratch),
        TRIAL_TOKEN: token,
    }


_KILL_WAIT_S = 5.0


def process_start(pid: int) -> str | None:
    """What tells a process from a later one with the same pid: boot and start tick. None if there is no such process (or a zombie)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if stat[0] in "ZX" else f"{_boot_id()}/{stat[19]}"


@lru_cache
def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def is_alive(pid: int, start: str) -> bool:
    """Whether this very process still runs."""
    return process_start(pid) == start


def launch_processes(token: str) -> set[int]:
    """Live processes that carry the launch's token in their environment, and everything below them."""
    wanted = f"{TRIAL_TOKEN}={token}".encode()
    parent_of = parents()
    carriers = set()
    for pid in parent_of:
        # Another user's process cannot be ours, and one that ended meanwhile no longer matters.
        with contextlib.suppress(OSError):
            if wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                carriers.add(pid)
    return (carriers | descendants(carriers, parent_of)) - {os.getpid()}


def end_launch(token: str, keeper: int, start: str, grace_s: float) -> set[int]:
    """End every process of a launch and return the ones that were met.

    The keeper is asked first (it gives the trial `grace_s` to clean up); what is then left, or what a dead keeper left, is killed.
    RuntimeError names processes that even SIGKILL did not end.
    """
    met = launch_processes(token)
    if is_alive(keeper, start):
        met.add(keeper)
        send({keeper}, signal.SIGTERM)
        _wait_while(lambda: is_alive(keeper, start), grace_s + _KILL_WAIT_S + 1.0)
    elif met:
        send(met, signal.SIGTERM)
        _wait_while(lambda: bool(launch_processes(token)), grace_s)
    deadline = time.monotonic() + _KILL_WAIT_S
    while left := launch_processes(token):
        met |= left
        if time.monotonic() > deadline:
            raise RuntimeError(f"processes {sorted(left)} of a trial outlived SIGKILL; end them before the next trial is measured")
        send(left, signal.SIGKILL)
        time.sleep(0.05)
    return met


def _wait_while(busy: Callable[[], bool], patience_s: float) -> None:
    deadline = time.monotonic() + patience_s
    while busy() and time.monotonic() < deadline:
        time.sleep(0.05)


_MEMORY_POLL_S, _POLL_S = 0.5, 0.1
_MAX_LOG_BYTES, _TAIL_BYTES, _MAX_LINE = 32 * 2**20, 4096, 65536


@dataclass(frozen=True)
class ProcessLimits:
    """`memory_bytes` is of the whole process tree; `grace_s` lies between SIGTERM and SIGKILL."""

    timeout_s: float
    memory_bytes: float
    grace_s: float


@dataclass(frozen=True)
class ProcessEnd:
    """How it ended: `code` as in subprocess (negative: a signal); `stopped` if it was we who ended it, and why."""

    code: int
    stopped: Literal["timeout", "memory"] | None
    detail: str


class TrialOutput:
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
        room = max(_MAX_LOG_BYTES - self._written, 0)
        self._file.write(data[:room])
        self._written += len(data[:room])
        self._dropped += len(data) - len(data[:room])
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._line(line)
        # A flood without line ends must not fill the memory; no progress line is that long.
        self._rest = self._rest[-_MAX_LINE:]

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
class SupervisedProcess:
    """A trial's running process. `pid` and `start` are its keeper's."""

    pid: int
    start: str
    wait: Callable[[], ProcessEnd]


@contextmanager
def supervised(
    command: Sequence[str],
    *,
    cpus: Sequence[int],
    environment: Mapping[str, str],
    token: str,
    folder: Path,
    hold: int,
    limits: ProcessLimits,
    output: TrialOutput,
) -> Iterator[SupervisedProcess]:
    """Run a command pinned to `cpus`, in a session of its own, in `folder`.

    However the block is left, no process of the trial is left after it; RuntimeError if one cannot be ended.
    """
    wrapped = [
        *(sys.executable, "-I", "-S", reaper.__file__),
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
    start = process_start(process.pid) or "ended"
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    began = time.monotonic()
    try:
        yield SupervisedProcess(process.pid, start, lambda: _supervise(process, start, token, began, limits, output))
    finally:
        end_launch(token, process.pid, start, limits.grace_s)
        process.wait()
        _drain(process.stdout, output, most=None)
        process.stdout.close()
        output.close()


def _supervise(
    process: subprocess.Popen[bytes], start: str, token: str, began: float, limits: ProcessLimits, output: TrialOutput
) -> ProcessEnd:
    assert process.stdout is not None
    stopped: Literal["timeout", "memory"] | None = None
    detail = ""
    next_memory = began + _MEMORY_POLL_S
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while process.poll() is None:
            if selector.get_map() and selector.select(_POLL_S):
                if not _drain(process.stdout, output):
                    selector.unregister(process.stdout)
            elif not selector.get_map():
                time.sleep(_POLL_S)
            now = time.monotonic()
            if now - began > limits.timeout_s:
                stopped, detail = "timeout", f"not done after {limits.timeout_s:g}s, the launcher's timeout"
            elif now >= next_memory:
                next_memory = now + _MEMORY_POLL_S
                used = resident_bytes(process.pid, limits.memory_bytes)
                if used > limits.memory_bytes:
                    stopped = "memory"
                    detail = (
                        f"its processes held {used / 2**20:.0f} MiB, over the launcher's limit of {limits.memory_bytes / 2**20:.0f} MiB; "
                        "expected a smaller model or batch, or a higher launcher.memory"
                    )
            if stopped:
                end_launch(token, process.pid, start, limits.grace_s)
                process.wait()
    return ProcessEnd(process.returncode, stopped, detail)


def _drain(pipe: IO[bytes], output: TrialOutput, most: int | None = 16) -> bool:
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
    below = reaper.descendants({keeper_pid})
    total = sum(_sum_each(below, lambda p: float(p.memory_info().rss)))
    return sum(_sum_each(below, lambda p: float(p.memory_full_info().pss))) if total > limit else total


def _sum_each(pids: set[int], measure: Callable[[psutil.Process], float]) -> Iterator[float]:
    for pid in pids:
        with contextlib.suppress(psutil.Error):  # it ended meanwhile
            yield measure(psutil.Process(pid))
