"""Starts, follows and ends the worker processes of one node.

Workers stay in the process group of the harness, so that whatever ends the harness's group ends them too; and they end by themselves
when the harness does (see `end_with_parent`).
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from plumbline.harness import engine_python, hardware_faults, image_requirements
from plumbline.harness.child_process import ChildProcess
from plumbline.harness.environment.container import oom_kills
from plumbline.harness.gang.topology import Address, Topology
from plumbline.harness.measurement import TrialFailed
from plumbline.harness.process_tree import describe_exit, kill_tree
from plumbline.harness.training import plan
from plumbline.harness.training.job.coordinator import FailureCause
from plumbline.harness.training.log_seal import ForgedLog, hand_over, key_of_this_process
from plumbline.harness.training.plan import CoreShare
from plumbline.harness.training.worker_protocol import (
    ExitCode,
    LogLine,
    LogTail,
    RunName,
    RunRecord,
    RunSpec,
    ScriptSpec,
)
from plumbline.results import FailureClass

KILL_TIMEOUT_S = 60.0
SCRIPT_GRACE_S = 8.0
"""Of the process around a script, which gives the script less."""
_POLL_WITHOUT_HANDLE_S = 0.02
_SHOWN_LINES = 12
MALLOC_SETTINGS = {
    # glibc gives each large tensor back to the kernel and maps it again in the next step: thousands of page faults a step, which made
    # steps 15 % slower and, beside an idle Airflow, their coefficient of variation 40 % instead of 24 %. Freed memory stays ours instead.
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**34),
    "MALLOC_TOP_PAD_": str(2**26),
}
# Unbound, the kernel now and then puts two OpenMP threads on one core while another has a moment's work: steps take three times as long.
THREAD_BINDING = {"OMP_PROC_BIND": "true"}
_OUT_OF_MEMORY_MESSAGES = ("MemoryError", "OutOfMemoryError", "can't allocate memory", "std::bad_alloc")


class RunAborted(Exception):
    """A run broke off for a cause that may pass, and all its ranks are gone.

    Monotonic seconds: when the first was seen to have ended, and when it was known why.
    """

    def __init__(self, cause: FailureCause, seen_s: float, noticed_s: float) -> None:
        super().__init__(cause.detail)
        self.cause, self.seen_s, self.noticed_s = cause, seen_s, noticed_s


class RankProcess:
    """One worker process, as a context: it never outlives the block."""

    def __init__(self, name: RunName, spec: RunSpec, share: CoreShare, folder: Path, variables: Mapping[str, str]) -> None:
        self.spec = spec
        self.rank = spec.group.rank if spec.group else 0
        self.title = f"{name}, rank {self.rank} of {spec.group.world}" if spec.group else name
        stem = f"{name}.rank{self.rank}" if self.rank else name
        self.stderr_path = folder / f"{stem}.worker.log"
        self._spec_path = folder / f"{stem}.spec.json"
        self._share = share
        self._variables = variables
        self._tail = LogTail(Path(spec.log), key_of_this_process() if isinstance(spec, ScriptSpec) else None)
        self._process: ChildProcess | None = None
        self._handle: int | None = None
        self.record = RunRecord(launched_s=0.0)
        self.lines: list[LogLine] = []
        self._oom_kills = oom_kills()
        self._script = isinstance(spec, ScriptSpec)
        self._private = isinstance(spec, ScriptSpec) and spec.private
        self._stepless = isinstance(spec, ScriptSpec) and spec.stepless

    def __enter__(self) -> RankProcess:
        self.spec.write(self._spec_path)
        # A script's settings are its own, and its worker is of the harness: the command alone runs on torch.
        python, settings = (sys.executable, {}) if self._script else (engine_python.executable(), MALLOC_SETTINGS)
        command = [python, "-m", self.spec.module, str(self._spec_path), str(os.getpid())]
        bound = THREAD_BINDING if self._share.bind else {}
        variables = {**engine_python.environment(), **settings, **bound, **self._variables}
        self.record.launched_s = time.monotonic_ns() / 1e9
        self._process = ChildProcess(command, variables, output=self.stderr_path, cpus=self._share.cores)
        if self._script and self._process.stdin is not None:
            with suppress(BrokenPipeError):  # it ended at once, which the next look notices
                hand_over(self._process.stdin.fileno())
        try:
            self._handle = os.pidfd_open(self._process.pid)
        except (AttributeError, OSError):  # no such call on this system or in this sandbox
            self._handle = None
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop(SCRIPT_GRACE_S if self._script else 0.0)
        if self._handle is not None:
            os.close(self._handle)
        self.take()

    @property
    def process(self) -> ChildProcess:
        """The running process; RuntimeError outside the context."""
        if self._process is None:
            raise RuntimeError("the worker has not been started")
        return self._process

    @property
    def handle(self) -> int | None:
        """Readable when the process ends; None where the system has no such handle."""
        return self._handle

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    @property
    def done(self) -> bool:
        """Whether it did its last step: a script goes on until it is ended, so that its peers can finish theirs."""
        return "done" in self.record.at

    def kill(self) -> float:
        """Send SIGKILL, also to what it started; returns the moment in monotonic seconds."""
        sent = time.monotonic_ns() / 1e9
        if self._script:
            kill_tree(self.process.pid)
        else:
            self.process.kill()
        return sent

    def take(self) -> list[LogLine]:
        """The log lines that were written since the last call; they are in the record and in `lines` then. TrialFailed if a script wrote to the
        log."""
        try:
            lines = self._tail.new()
        except ForgedLog as error:
            raise TrialFailed("bad_declaration", str(error)) from error
        self.lines += lines
        for line in lines:
            self.record.add(line)
        return lines

    def cause(self) -> FailureCause | None:
        """Failure class and last lines of a worker that failed by itself; None if it runs, or ended well."""
        code = self.process.poll()
        if not code:
            return None
        text = self.stderr_path.read_text(errors="replace")
        output, _, sentence = text.rpartition("\0") if self._script and "\0" in text else (text, "", "")  # see script/__main__.py
        lines = output.strip().splitlines()[-_SHOWN_LINES:]
        shown = lines if not self._private and (not sentence or code == ExitCode.SCRIPT_FAILED) else []
        last = "\n".join([*filter(None, [sentence.strip()]), *shown]) or ("its output is private" if self._private else "it wrote nothing")
        done = f"after step {self.record.steps[-1].step}" if self.record.steps else "before its first step"
        short_of_memory = (oom_kills() or 0) > (self._oom_kills or 0)
        failure_class, what, passing = _classify_exit(code, "\n".join(lines), short_of_memory=short_of_memory, stepless=self._stepless)
        # What a container's command does is not known: a status other than 0 may be its result, and blames no provider by itself.
        detail = (
            f"the command ({self.title}) {what}: {last}" if self._stepless else f"the training process ({self.title}) {what} {done}: {last}"
        )
        # A script that lost its peer fails in words of its own.
        after_a_peer = code == ExitCode.LOST_A_PEER or (self.spec.group is not None and code in _SCRIPT_EXITS)
        return FailureCause(failure_class, detail, certain=not after_a_peer, passing=passing)


def rank_processes(
    name: RunName,
    spec: RunSpec,
    folder: Path,
    topology: Topology,
    shares: Sequence[CoreShare],
    store: Address | None,
    variables: Mapping[str, str],
) -> tuple[RankProcess, ...]:
    """The workers of this node's ranks in a run, not yet started. `store`: where ranks find each other, if there are several."""
    return tuple(
        RankProcess(name, plan.rank_spec(spec, topology, rank, share.threads, store, name), share, folder, variables)
        for rank, share in zip(topology.ranks, shares, strict=True)
    )


@contextmanager
def started(workers: Sequence[RankProcess]) -> Iterator[None]:
    """The workers run while the block does. Scripts are asked to end together: one of them that takes its time keeps no other waiting."""
    with ExitStack() as stack:
        for worker in workers:
            stack.enter_context(worker)
        try:
            yield
        finally:
            for worker in workers:
                if isinstance(worker.spec, ScriptSpec) and not worker.ended:
                    worker.process.terminate()


def finished(workers: Sequence[RankProcess]) -> bool:
    """Whether a script's ranks that report steps have all done the last one; others go by their word."""
    return any(worker.done for worker in workers) and all(worker.done for worker in workers if worker.record.steps)


def failure_causes(workers: Sequence[RankProcess]) -> list[FailureCause]:
    return [cause for worker in workers if (cause := worker.cause()) is not None]


def wait_for_any(workers: Sequence[RankProcess], others: Sequence[Any], seconds: float) -> None:
    """Return as soon as a running worker ends or one of `others` (things with a file descriptor) can be read, else after `seconds`."""
    running = [worker for worker in workers if not worker.ended]
    handles = [worker.handle for worker in running if worker.handle is not None]
    if len(handles) < len(running):
        seconds = min(seconds, _POLL_WITHOUT_HANDLE_S)
    wait([*handles, *others], seconds)


_PERMANENT_EXITS: dict[int, tuple[FailureClass, str]] = {
    ExitCode.OUT_OF_MEMORY: ("out_of_memory", "ran out of memory"),
    ExitCode.NO_DEVICE: ("wrong_hardware", "found no device"),
    ExitCode.UNSUPPORTED: ("bad_declaration", "found that the declared kind of hardware cannot do what the workload declares"),
    ExitCode.IMAGE_INCOMPLETE: ("image_error", "found that its image lacks a declared feature"),
    ExitCode.NOT_DETERMINISTIC: ("bad_declaration", "cannot be deterministic as declared"),
    ExitCode.DISK_FULL: ("harness_error", "could not write: the disk is full or a quota or file size limit is reached"),
    ExitCode.NOTHING_TO_RESUME: ("harness_error", "found no checkpoint to resume from"),
    ExitCode.DAMAGED_DATA: ("harness_error", "found its token file changed"),
    ExitCode.STEPS_MISREPORTED: ("bad_declaration", "did not report its steps as declared"),
    ExitCode.NOT_STARTED: ("bad_declaration", "was not started"),
}
"""Exits that would repeat with the same specification on the same machine: no restart."""
_SCRIPT_EXITS = (ExitCode.SCRIPT_FAILED, ExitCode.STEPS_MISREPORTED)


def _classify_exit(code: int, stderr: str, *, short_of_memory: bool, stepless: bool = False) -> tuple[FailureClass, str, bool]:
    if code == -signal.SIGKILL:
        if short_of_memory:
            return "out_of_memory", "was killed by the kernel: out of memory", False
        return "interrupted", "was killed by SIGKILL from outside the harness; the kernel reports no out-of-memory kill", True
    if (fault := hardware_faults.find_hardware_fault(stderr)) is not None:
        return "provider_fault", f"failed by the hardware ({fault[0]})", fault[1]
    if code in _PERMANENT_EXITS:
        return *_PERMANENT_EXITS[code], False
    if code > 0 and image_requirements.find_image_fault(stderr) is not None:
        return *_PERMANENT_EXITS[ExitCode.IMAGE_INCOMPLETE], False
    if any(word in stderr for word in _OUT_OF_MEMORY_MESSAGES):
        return *_PERMANENT_EXITS[ExitCode.OUT_OF_MEMORY], False
    if code == ExitCode.LOST_A_PEER:
        return "harness_error", "lost connection to another rank", True
    if code == ExitCode.DEVICE_FAILED:
        return "harness_error", "got an error from its device", True
    if code == ExitCode.SCRIPT_FAILED:
        return ("harness_error" if stepless else "bad_declaration"), "failed", False
    return "harness_error", describe_exit(code), code < 0
