"""A server's processes: started under a guard, watched, killed, and gone afterwards, however this process ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psutil

from plumbline.harness.inference import guarded

_TERM_S, _KILL_S = 10.0, 5.0
_PEAK = re.compile(r"^VmHWM:\s*(\d+) kB$", re.MULTILINE)


class ServerProcess:
    """One server at a time, with the model processes that it starts. `cpus`: all of them run on these only; None: wherever we may."""

    def __init__(self, cpus: Collection[int] | None = None) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._family: list[psutil.Process] = []
        # The kernel ends the server when the *thread* that started it ends: so one that lives as long as this object starts all of them.
        # A process inherits the cores of the thread that starts it.
        pin = () if cpus is None else (os.sched_setaffinity, (0, tuple(cpus)))
        self._launcher = ThreadPoolExecutor(1, "launch", *pin)
        self._closed = False

    @property
    def pid(self) -> int:
        """Process id of the server."""
        assert self._process is not None
        return self._process.pid

    def start(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        """Start the server; what it writes is appended to `log`."""

        def launch() -> None:
            if self._closed:
                raise RuntimeError("the server was given up while it was to be started again")
            guard = [sys.executable, "-I", "-S", guarded.__file__, str(os.getpid())]
            with log.open("ab") as output:
                self._process = subprocess.Popen(
                    [*guard, *command], env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
                )

        self._family = []
        self._launcher.submit(launch).result()

    def note_family(self) -> None:
        """Remember which model processes there are: walking all of the machine's processes takes milliseconds that a running measurement
        does not have."""
        server = psutil.Process(self.pid)
        self._family = [server, *server.children(recursive=True)]

    def forget_models(self) -> None:
        """The model processes are about to end, and that is as it should be."""
        self._family = self._family[:1]

    def running(self) -> bool:
        """Whether the server and the model processes that were noted live."""
        process = self._process
        return process is not None and process.poll() is None and not any(map(_dead, self._family))

    def resident_bytes(self) -> int:
        """Resident memory of all that were noted; 0 once they have ended."""
        total = 0
        for process in self._family:
            with suppress(psutil.NoSuchProcess):
                total += process.memory_info().rss
        return total

    def forget_peak(self) -> bool:
        """Let `peak_resident_bytes` begin anew; False where the kernel does not offer that."""
        try:
            for process in self._family:
                Path(f"/proc/{process.pid}/clear_refs").write_text("5", encoding="ascii")
        except OSError:
            return False
        return bool(self._family)

    def peak_resident_bytes(self) -> int | None:
        """Each noted process's own highest resident memory since `forget_peak`, summed; None if one of them has ended."""
        try:
            pages = [Path(f"/proc/{process.pid}/status").read_text(encoding="ascii", errors="replace") for process in self._family]
        except OSError:
            return None
        peaks = [match for page in pages if (match := _PEAK.search(page))]
        return sum(int(match[1]) * 1024 for match in peaks) if peaks and len(peaks) == len(pages) else None

    def state(self) -> str:
        """In words, whether the server lives or how it ended."""
        code = self._process.poll() if self._process else None
        alive = "is running" if self.running() else "lost its model process"
        return alive if code is None else f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"

    def kill(self) -> float:
        """SIGKILL to the server and its models at once, as when a container is killed; returns the monotonic moment."""
        assert self._process is not None
        at = time.monotonic()
        self._end_by_force(self._family)
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
            if self.running():
                process.send_signal(signal.SIGTERM)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_TERM_S)
        finally:
            # Not only after a timeout: a second interrupt during the wait above must not leave anything behind either.
            self._end_by_force(family)
            self._process, self._family = None, []

    def give_up(self) -> None:
        """Let a start that another thread waits for fail now; that thread must still `close`."""
        self._closed = True
        self._launcher.submit(_nothing).result()  # as in `close`
        process = self._process
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Stop the server; nothing can be started any more, also by a thread that is about to."""
        self._closed = True
        self._launcher.submit(_nothing).result()  # a start that was under way has been made by now, and is stopped like any other
        try:
            self.stop()
        finally:
            self._launcher.shutdown()

    def _end_by_force(self, family: list[psutil.Process]) -> None:
        process = self._process
        assert process is not None
        # The models are in the server's group; a backend that puts its own elsewhere is reached by name.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(_KILL_S)
        for member in family:
            with suppress(psutil.NoSuchProcess):
                member.kill()
        psutil.wait_procs(family, timeout=_KILL_S)


def _nothing() -> None:
    return


def _dead(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
