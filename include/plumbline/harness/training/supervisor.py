"""Starts, follows, kills and ends a worker process.

The worker stays in the process group of the harness, so that whatever ends the harness's group ends it too; and it ends by itself
when the harness does (see `worker.end_with_parent`).
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

from plumbline.harness.measurement import TrialFailed
from plumbline.harness.training import plan
from plumbline.harness.training.plan import RunName, WorkerSpec
from plumbline.harness.training.steplog import Line, RunRecord, Tail
from plumbline.results import FailureClass

_POLL_S = 0.1
_POLL_BEFORE_KILL_S = 0.002
_DEATH_TIMEOUT_S = 60.0
_SHOWN_LINES = 12
_PACKAGE_ROOT = Path(__file__).resolve().parents[3]
_STEADY = {
    # Unbound, the kernel now and then puts two OpenMP threads on one core while another has a moment's work: steps take three times as long.
    "OMP_PROC_BIND": "true",
    # glibc gives each large tensor back to the kernel and maps it anew in the next step: thousands of page faults a step, which made
    # steps 15 % slower and, beside an idle Airflow, their coefficient of variation 40 % instead of 24 %. Freed memory stays ours instead.
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**34),
    "MALLOC_TOP_PAD_": str(2**26),
}
_MEMORY_WORDS = ("MemoryError", "OutOfMemoryError", "can't allocate memory")


class Worker:
    """One worker process, as a context: it never outlives the block."""

    def __init__(self, name: RunName, spec: WorkerSpec, folder: Path) -> None:
        self.name = name
        self.spec = spec
        self.stderr_path = folder / f"{name}.worker.log"
        self._spec_path = folder / f"{name}.spec.json"
        self._tail = Tail(Path(spec.log))
        self._process: subprocess.Popen[bytes] | None = None
        self.record = RunRecord(launched_s=0.0)

    def __enter__(self) -> Worker:
        self.spec.write(self._spec_path)
        command = [sys.executable, "-m", "plumbline.harness.training.worker", str(self._spec_path), str(os.getpid())]
        paths = [str(_PACKAGE_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        with self.stderr_path.open("wb") as stderr:
            self.record.launched_s = time.monotonic_ns() / 1e9
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,  # its end tells the worker that the harness is gone
                stdout=stderr,
                stderr=stderr,
                env={**os.environ, **_STEADY, "PYTHONPATH": os.pathsep.join(paths)},
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        process = self.process
        if process.poll() is None:
            process.kill()
        process.wait(_DEATH_TIMEOUT_S)
        if process.stdin is not None:
            process.stdin.close()
        self._take()

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The running process; RuntimeError outside the context."""
        if self._process is None:
            raise RuntimeError("the worker has not been started")
        return self._process

    def lines(self) -> Iterator[Line | None]:
        """The worker's log lines as they come, and None whenever there was nothing new for a moment, until it has ended well.

        TrialFailed if it ended otherwise.
        """
        interval = _POLL_BEFORE_KILL_S if self.spec.hold_in_step is not None else _POLL_S
        while True:
            ended = self._wait(interval)
            yield from self._take()
            if ended:
                if self.process.returncode != 0:
                    raise self.failure()
                return
            yield None

    def kill(self, while_waiting: Callable[[], None]) -> tuple[float, float]:
        """SIGKILL; (moment of the kill, moment its death was seen) in monotonic seconds. TrialFailed if it will not die."""
        killed = time.monotonic_ns() / 1e9
        self.process.send_signal(signal.SIGKILL)
        while not self._wait(0.5):
            while_waiting()
            if time.monotonic_ns() / 1e9 - killed > _DEATH_TIMEOUT_S:
                raise TrialFailed("harness_error", f"the {self.name} worker was still there {_DEATH_TIMEOUT_S:.0f} s after SIGKILL")
        seen = time.monotonic_ns() / 1e9
        self._take()
        return killed, seen

    def failure(self) -> TrialFailed:
        """Why a worker ended that nobody ended: the failure class and the last lines it wrote."""
        code = self.process.returncode
        said = self.stderr_path.read_text(errors="replace").strip().splitlines()[-_SHOWN_LINES:]
        last = "\n".join(said) or "it wrote nothing"
        done = f"after step {self.record.steps[-1].step}" if self.record.steps else "before its first step"
        failure_class, cause = _cause(code, last)
        return TrialFailed(failure_class, f"the training process ({self.name}) {cause} {done}: {last}")

    def _wait(self, seconds: float) -> bool:
        """Whether the process has ended; returns as soon as it does."""
        process = self.process
        if process.poll() is not None:
            return True
        try:
            handle = os.pidfd_open(process.pid)
        except (AttributeError, OSError):  # no such call on this system or in this sandbox
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                return False
            return True
        try:
            select.select([handle], [], [], seconds)
        finally:
            os.close(handle)
        return process.poll() is not None

    def _take(self) -> list[Line]:
        lines = self._tail.new()
        for line in lines:
            self.record.add(line)
        return lines


def _cause(code: int, said: str) -> tuple[FailureClass, str]:
    if code == -signal.SIGKILL:
        return "out_of_memory", "was killed, and not by the harness (the kernel does so when memory runs out)"
    if code == plan.EXIT_OUT_OF_MEMORY or any(word in said for word in _MEMORY_WORDS):
        return "out_of_memory", "ran out of memory"
    if code == plan.EXIT_NO_DEVICE:
        return "wrong_hardware", "found no device"
    if code == plan.EXIT_DISK_FULL:
        return "harness_error", "could not write: the disk is full or a quota or file size limit is reached"
    if code == plan.EXIT_NOTHING_TO_RESUME:
        return "harness_error", "found no checkpoint to resume from"
    if code == plan.EXIT_DAMAGED_DATA:
        return "harness_error", "found its token file changed"
    if code < 0:
        return "harness_error", f"was ended by signal {-code}"
    return "harness_error", f"ended with code {code}"
