"""The processes of one server; all are removed however the harness ends."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psutil

from plumbline.harness.child_process import ChildProcess
from plumbline.harness.process_tree import describe_exit, is_live, peak_resident_bytes

_TERM_S, _KILL_S = 10.0, 5.0


class ServerProcess:
    """One server at a time, with the model processes that it starts. `cpus`: all of them run on these only; None: wherever we may."""

    def __init__(self, cpus: Collection[int] | None = None) -> None:
        self._process: ChildProcess | None = None
        self._family: list[psutil.Process] = []
        # The kernel ends the server when the *thread* that started it ends: so one that lives as long as this object starts all of them.
        # A process inherits the cores of the thread that starts it.
        pin = () if cpus is None else (os.sched_setaffinity, (0, tuple(cpus)))
        self._launcher = ThreadPoolExecutor(1, "launch", *pin)
        self._closed = False

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        """Start the server; what it writes is appended to `log`."""

        def launch() -> None:
            if self._closed:
                raise RuntimeError("the restart of the server was aborted")
            with log.open("ab") as output:
                self._process = ChildProcess(command, environment, output=output, own_group=True, guarded=True)

        self._family = []
        self._launcher.submit(launch).result()

    def refresh_children(self) -> None:
        """Record the model processes: walking all processes takes milliseconds, which a running measurement cannot spare."""
        server = psutil.Process(self.pid)
        self._family = [server, *server.children(recursive=True)]

    def ignore_model_exit(self) -> None:
        """Expect the model processes to end."""
        self._family = self._family[:1]

    def running(self) -> bool:
        """Whether the server and the model processes that were noted live."""
        process = self._process
        return process is not None and process.poll() is None and all(map(is_live, self._family))

    def resident_bytes(self) -> int:
        """Resident memory of all that were noted; 0 once they have ended."""
        total = 0
        for process in self._family:
            with suppress(psutil.NoSuchProcess):
                total += process.memory_info().rss
        return total

    def reset_peak(self) -> bool:
        """Reset `peak_resident_bytes`; False where the kernel does not offer that."""
        try:
            for process in self._family:
                Path(f"/proc/{process.pid}/clear_refs").write_text("5", encoding="ascii")
        except OSError:
            return False
        return bool(self._family)

    def peak_resident_bytes(self) -> int | None:
        """Sum of each recorded process's peak resident memory since `reset_peak`; None if one of them has ended."""
        peaks = [peak for process in self._family if (peak := peak_resident_bytes(process.pid)) is not None]
        return sum(peaks) if peaks and len(peaks) == len(self._family) else None

    def state(self) -> str:
        """In words, whether the server lives or how it ended."""
        code = self._process.poll() if self._process else None
        alive = "is running" if self.running() else "lost its model process"
        return alive if code is None else describe_exit(code)

    def kill(self) -> float:
        """SIGKILL to the server and its models at once, as when a container is killed; returns the monotonic moment."""
        assert self._process is not None
        at = time.monotonic()
        self._process.end_by_force()
        _kill(self._family)
        return at

    def stop(self) -> None:
        """End the server gracefully, then by force, with every process that it started."""
        process, family = self._process, list(self._family)
        if process is None:
            return
        with suppress(psutil.NoSuchProcess):
            family += psutil.Process(process.pid).children(recursive=True)
        try:
            # A server that lost its model process waits for it in vain: it only has to go.
            process.stop(_TERM_S if self.running() else 0.0)
        finally:  # also after a second interrupt during the wait above
            _kill(family)
            self._process, self._family = None, []

    def abort_start(self) -> None:
        """Abort a start that another thread waits for; that thread must still `close`."""
        self._closed = True
        self._launcher.submit(lambda: None).result()  # as in `close`
        process = self._process
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Stop the server and refuse further starts, also of other threads."""
        self._closed = True
        self._launcher.submit(lambda: None).result()  # a start that was under way has been made by now, and is stopped like any other
        try:
            self.stop()
        finally:
            self._launcher.shutdown()


def _kill(family: Collection[psutil.Process]) -> None:
    """End model processes that a backend has put outside the server's group."""
    for member in family:
        with suppress(psutil.NoSuchProcess):
            member.kill()
    psutil.wait_procs(family, timeout=_KILL_S)
