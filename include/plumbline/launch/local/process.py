"""A trial's processes on this machine: environment, start under the reaper, limits, output, end."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
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

import plumbline
from plumbline.harness.child_process import read_available
from plumbline.harness.process_tree import KILL_S, ProcessId, end_processes, tagged_processes
from plumbline.launch.failures import ProcessEnd
from plumbline.launch.local import reaper

TRIAL_TOKEN = "PLUMBLINE_TRIAL_TOKEN"
"""Unique for each launch and inherited by every descendant, in any process group or session."""

# A list of allowed variables, so that no unforeseen secret (AIRFLOW__*, SLACK_*, database passwords) reaches a trial.
# Without OMP_*, MKL_* and the like: the harness sets the number of threads.
# Our own by name too: a server's environment also has PLUMBLINE_FERNET_KEY and passwords. The endpoint launcher adds its key.
# Private prompts and scripts lie beside the declarations (PLUMBLINE_CONFIG); PLUMBLINE_SERVER identifies descendants of a local Airflow.
_ALLOWED_VARIABLES = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_.+|TZ|PYTHONPATH|LD_LIBRARY_PATH|VIRTUAL_ENV|(PROMPTS|SCRIPTS)_FOLDER"
    r"|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE|(HTTPS?|NO)_PROXY|(https?|no)_proxy"
    r"|CUDA_HOME|(CUDA|HIP|ROCR)_VISIBLE_DEVICES"
    r"|PLUMBLINE_(HOME|CONFIG|IMAGE|CPU_LIMIT|MEMORY_LIMIT|ENGINE_PYTHON|TRITONSERVER|SERVER)"
)
# The harness writes its results itself, so it gets the credentials of its store.
_STORE_PREFIXES = {
    "s3": ("AWS_", "FSSPEC_S3"),
    "gs": ("GOOGLE_", "GCLOUD_", "FSSPEC_GS", "STORAGE_EMULATOR_HOST"),
    "gcs": ("GOOGLE_", "GCLOUD_", "FSSPEC_GS", "FSSPEC_GCS", "STORAGE_EMULATOR_HOST"),
    "az": ("AZURE_",),
    "abfs": ("AZURE_",),
    "abfss": ("AZURE_",),
}


def trial_environment(
    inherited: Mapping[str, str], store_url: str, token: str, scratch: Path, also_reads: Sequence[str] = ()
) -> dict[str, str]:
    """The variables of one trial. `scratch`: its TMPDIR. `also_reads`: URLs of further stores whose credentials it gets. This process's library
    comes first on PYTHONPATH, so that launcher and harness have one version."""
    schemes = [url.partition("://")[0].rpartition("::")[2] for url in (store_url, *also_reads)]
    prefixes = tuple(prefix for scheme in schemes for prefix in _STORE_PREFIXES.get(scheme, ()))
    passed = {name: value for name, value in inherited.items() if _ALLOWED_VARIABLES.fullmatch(name) or name.startswith(prefixes)}
    library = str(Path(plumbline.__path__[0]).resolve().parent)
    others = [part for part in passed.get("PYTHONPATH", "").split(os.pathsep) if part and part != library]
    return {
        **passed,
        "PYTHONPATH": os.pathsep.join([library, *others]),
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": str(scratch),
        TRIAL_TOKEN: token,
    }


def end_launch(token: str, reaper_id: ProcessId, grace_s: float) -> set[int]:
    """End every process of a launch and return the pids that were met.

    The reaper is asked first (it gives the trial `grace_s` to clean up); remaining processes, also those of a dead reaper, are killed.
    RuntimeError names processes that even SIGKILL did not end.
    """

    def find() -> list[psutil.Process]:
        return tagged_processes(TRIAL_TOKEN, token)

    met: set[int] = set()
    if reaper_id.alive:
        met = {reaper_id.pid, *(process.pid for process in find())}
        with contextlib.suppress(ProcessLookupError):
            os.kill(reaper_id.pid, signal.SIGTERM)
        deadline = time.monotonic() + grace_s + KILL_S + 1.0
        while reaper_id.alive and time.monotonic() < deadline:
            time.sleep(0.05)
        grace_s = 0.0
    return met | end_processes(find, grace_s)


_MEMORY_POLL_S, _POLL_S = 0.5, 0.1
_MAX_LOG_BYTES, _TAIL_BYTES, _MAX_LINE, _CHUNKS = 32 * 2**20, 4096, 65536, 16


@dataclass(frozen=True)
class ProcessLimits:
    """`memory_bytes` limits the whole process tree; `grace_s`: seconds between SIGTERM and SIGKILL."""

    timeout_s: float
    memory_bytes: float
    grace_s: float


class TrialOutput:
    """A trial's output: a file of up to 32 MiB, a callback for each line, and a tail of 4 kB for people.

    `on_line`: returns whether a line is for machines (progress) and stays out of the tail.
    """

    def __init__(self, file: IO[bytes], on_line: Callable[[str], bool]) -> None:
        self._file, self._on_line = file, on_line
        self._written, self._dropped = 0, 0
        self._rest = b""
        self._tail: deque[str] = deque()
        self._tail_bytes = 0

    def feed(self, data: bytes) -> None:
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
        """Handle an unfinished last line and note truncated bytes in the file."""
        if self._rest:
            self._line(self._rest)
            self._rest = b""
        if self._dropped:
            self._file.write(f"\n({self._dropped} further bytes were not stored)\n".encode())
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
    """A trial's running process; `reaper` is its parent."""

    reaper: ProcessId
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
    """Run a command pinned to `cpus`, in its own session, in `folder`. No process of the trial outlives the block; RuntimeError if one cannot
    be ended."""
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
    # Not reaped yet, so the pid is its own even if it ended at once.
    reaper_id = ProcessId.of(process.pid) or ProcessId(process.pid, "ended")
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    began = time.monotonic()
    try:
        yield SupervisedProcess(reaper_id, lambda: _supervise(process, reaper_id, token, began, limits, output))
    finally:
        end_launch(token, reaper_id, limits.grace_s)
        process.wait()
        read_available(process.stdout.fileno(), output.feed)
        process.stdout.close()
        output.close()


def _supervise(
    process: subprocess.Popen[bytes], reaper_id: ProcessId, token: str, began: float, limits: ProcessLimits, output: TrialOutput
) -> ProcessEnd:
    assert process.stdout is not None
    stopped: Literal["timeout", "memory"] | None = None
    detail = ""
    next_memory = began + _MEMORY_POLL_S
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while process.poll() is None:
            if selector.get_map() and selector.select(_POLL_S):
                if not read_available(process.stdout.fileno(), output.feed, _CHUNKS):
                    selector.unregister(process.stdout)
            elif not selector.get_map():
                time.sleep(_POLL_S)
            now = time.monotonic()
            if now - began > limits.timeout_s:
                stopped, detail = "timeout", f"exceeded launcher.timeout, {limits.timeout_s:g} s"
            elif now >= next_memory:
                next_memory = now + _MEMORY_POLL_S
                used = resident_bytes(process.pid, limits.memory_bytes)
                if used > limits.memory_bytes:
                    stopped = "memory"
                    detail = (
                        f"used {used / 2**20:.0f} MiB, more than launcher.memory, {limits.memory_bytes / 2**20:.0f} MiB; "
                        "expected a smaller model or batch, or a higher limit"
                    )
            if stopped:
                end_launch(token, reaper_id, limits.grace_s)
                process.wait()
    return ProcessEnd(process.returncode, stopped, detail)


def resident_bytes(reaper_pid: int, limit: float) -> float:
    """Memory of the processes below the reaper. Resident sizes count shared pages once for each process, so a sum above the limit is
    replaced by the proportional sizes."""
    try:
        below = psutil.Process(reaper_pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return 0.0
    total = sum(_sum_each(below, lambda p: float(p.memory_info().rss)))
    return sum(_sum_each(below, lambda p: float(p.memory_full_info().pss))) if total > limit else total


def _sum_each(processes: Sequence[psutil.Process], measure: Callable[[psutil.Process], float]) -> Iterator[float]:
    for process in processes:
        with contextlib.suppress(psutil.Error):  # it ended meanwhile
            yield measure(process)
