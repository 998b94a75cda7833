"""The processes, the log file and the shared memory of one server; all are removed however the harness ends."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import psutil

from plumbline.harness.child_process import ChildProcess
from plumbline.harness.process_tree import describe_exit, is_live

_TERM_S, _KILL_S = 10.0, 5.0
_PEAK = re.compile(r"^VmHWM:\s*(\d+) kB$", re.MULTILINE)


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
        self._launcher.submit(_nothing).result()  # as in `close`
        process = self._process
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Stop the server and refuse further starts, also of other threads."""
        self._closed = True
        self._launcher.submit(_nothing).result()  # a start that was under way has been made by now, and is stopped like any other
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


def _nothing() -> None:
    return


_OPEN = "Started GRPCInferenceService at {address}"
_STAMP = re.compile(r"^[A-Z](\d{4} \d\d:\d\d:\d\d\.\d{6}) \d+ [^\]]*\] (.*)$")
# What every start without a GPU logs as an error or a warning, and nobody needs to read in a failure's detail.
_HARMLESS = re.compile(r"NVML|DCGM|CudaDriverHelper|pinned memory|CUDA (driver|memory)|libcuda", re.IGNORECASE)


class ServerLog:
    """The log file of one server. It grows with every start; what is asked is answered of the last start alone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._from = 0

    def begin(self) -> None:
        self._from = self.path.stat().st_size if self.path.exists() else 0

    def text(self) -> str:
        if not self.path.exists():
            return ""
        with self.path.open("rb") as log:
            log.seek(self._from)
            return log.read().decode("utf-8", errors="replace")

    def opened(self, address: str) -> bool:
        """Whether it says that its gRPC endpoint is open at `address` (host:port)."""
        return _OPEN.format(address=address) in self.text()

    def last_errors(self) -> str:
        """The last errors, or the last lines if there are none."""
        lines = [line for line in self.text().splitlines() if line.strip() and line[0] not in "+|"]
        errors = [line for line in lines if line.startswith(("E", "error:")) and not _HARMLESS.search(line)]
        chosen = (errors or lines)[-5:]
        return f"its log says: {' | '.join(line.strip() for line in chosen)}" if chosen else "its log is empty"

    def load_s(self, model: str) -> float | None:
        """Load time by the log's own timestamps; None without one."""
        began = ended = None
        for at, text in self._messages():
            if text.startswith(f"loading: {model}:"):
                began = at
            elif text.startswith(f"successfully loaded '{model}'"):
                ended = at
        # The log's moments have no year: over New Year their difference says nothing.
        return ended - began if began is not None and ended is not None and ended >= began else None

    def about(self) -> dict[str, Any]:
        """What the model last reported; empty without a report."""
        about: dict[str, Any] = {}
        for _, text in self._messages():
            if "plumbline-model " in text:
                about = json.loads(text.split("plumbline-model ", 1)[1])
        return about

    def _messages(self) -> list[tuple[float, str]]:
        matches = (_STAMP.match(line) for line in self.text().splitlines())
        return [(_moment(match[1]), _unquoted(match[2])) for match in matches if match]


def _unquoted(message: str) -> str:
    try:
        text = json.loads(message)
    except ValueError:
        return message  # tables and older versions' messages are not quoted
    return text if isinstance(text, str) else message


def _moment(stamp: str) -> float:
    # Triton writes month and day but no year; only differences are used. 2000 is a leap year.
    return datetime.strptime(f"2000{stamp}", "%Y%m%d %H:%M:%S.%f").replace(tzinfo=timezone.utc).timestamp()


SHARED_MEMORY_FOLDER = Path("/dev/shm")
_NAME = re.compile(r"^plumbline-(\d+)-(\d+)-(\d+)-")


def _namespace() -> int:
    """Inode of our process namespace: /dev/shm can be shared by containers whose process ids mean different processes."""
    return Path("/proc/self/ns/pid").stat().st_ino


def _process_start(pid: int) -> int | None:
    """When the process started, in hundredths of a second of wall time; None if there is none any more."""
    try:
        process = psutil.Process(pid)
        # One that was killed may wait long for its parent to take note, in a container for ever.
        return None if process.status() == psutil.STATUS_ZOMBIE else round(process.create_time() * 100)
    except psutil.NoSuchProcess:
        return None


def shared_memory_prefix() -> str:
    """The prefix for a server that this process starts: process namespace, process, and the moment it started."""
    return f"plumbline-{_namespace()}-{os.getpid()}-{_process_start(os.getpid())}-"


def remove_shared_memory(prefix_: str) -> None:
    for segment in _segments():
        if segment.name.startswith(prefix_):
            with suppress(FileNotFoundError):
                segment.unlink()


def sweep_shared_memory() -> list[str]:
    """Remove segments whose harness has ended without removing them (it was killed), and end models that still use one; returns the
    segments' names.

    A model of Python ends itself when its server is gone, but not while it waits, with the interpreter's lock, for a lock in the segment
    that the server held when it was killed.
    """
    removed, owners = [], set()
    for segment in _segments():
        match = _NAME.match(segment.name)
        if match is None or int(match[1]) != _namespace() or _process_start(int(match[2])) == int(match[3]):
            continue
        owners.add(match[0])
        with suppress(FileNotFoundError, PermissionError):
            segment.unlink()
            removed.append(segment.name)
    for process in psutil.process_iter(["cmdline"]) if owners else ():
        if any(argument.startswith(tuple(owners)) for argument in process.info["cmdline"] or ()):
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                process.kill()
    return removed


def _segments() -> list[Path]:
    return list(SHARED_MEMORY_FOLDER.glob("plumbline-*")) if SHARED_MEMORY_FOLDER.is_dir() else []
