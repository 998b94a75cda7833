"""One trial at a time on one machine, for all installations of a user; ends processes of killed launchers."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter

from plumbline.harness.process_tree import ProcessId
from plumbline.launch.local.process import end_launch
from plumbline.whole_file import write_whole

ABANDONED_GRACE_S = 5.0


@dataclass(frozen=True)
class LaunchPidfile:
    """A pidfile's content. Each pid comes with the start of its process, since pids are reused."""

    trial_id: str
    token: str
    launcher: int
    launcher_start: str
    keeper: int
    keeper_start: str
    folders: tuple[str, ...]

    @classmethod
    def of(cls, trial_id: str, token: str, reaper: ProcessId, *folders: Path) -> LaunchPidfile:
        """The pidfile of a trial that this process launches."""
        own = ProcessId.of(os.getpid())
        assert own is not None
        return cls(trial_id, token, own.pid, own.start, reaper.pid, reaper.start, tuple(map(str, folders)))


@contextmanager
def hold_pidfile(pidfile: Path, running: LaunchPidfile) -> Iterator[None]:
    """The pidfile, written atomically, while the trial runs."""
    write_whole(pidfile, json.dumps(asdict(running), indent=1))
    try:
        yield
    finally:
        pidfile.unlink(missing_ok=True)


def end_abandoned(work: Path) -> list[int]:
    """End the trials of dead launchers, remove their scratch folders, and return the ended pids.

    Signals only processes with the launch's token and the one (pid and start) that the pidfile names.
    """
    ended: set[int] = set()
    for pidfile in sorted(work.glob("*.pid")) if work.is_dir() else ():
        running = _read_pidfile(pidfile)
        if running is None or ProcessId(running.launcher, running.launcher_start).alive:
            continue
        ended |= end_launch(running.token, ProcessId(running.keeper, running.keeper_start), ABANDONED_GRACE_S)
        for folder in running.folders:
            shutil.rmtree(folder, ignore_errors=True)
        pidfile.unlink(missing_ok=True)
    return sorted(ended)


def _read_pidfile(pidfile: Path) -> LaunchPidfile | None:
    """The content; None for a removed pidfile and for another user's, because it names folders to delete."""
    try:
        if pidfile.lstat().st_uid != os.getuid():
            return None
        return TypeAdapter(LaunchPidfile).validate_json(pidfile.read_bytes())
    except (OSError, ValueError):
        return None


_POLL_S, _REPORT_S = 0.5, 5.0


class MachineBusy(Exception):
    """The machine did not become free in time; the message names the holder."""


class LockRefused(MachineBusy):
    """Another user can write the lock, whose content names what to end and to delete."""


def lock_file(machine: str) -> Path:
    """The lock, in one folder for all installations of this user. LockRefused if it is a link, of another user, or open to others."""
    folder = Path(tempfile.gettempdir()) / f"plumbline-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise LockRefused(
            f"{folder} is a lock folder with mode {stat.filemode(status.st_mode)} of user {status.st_uid}; expected mode 0700 of user "
            f"{os.getuid()}: remove it, or set TMPDIR to your own folder"
        )
    return folder / f"{machine}.lock"


@contextmanager
def machine_lock(machine: str, trial_id: str, work: Path, patience_s: float, on_wait: Callable[[str], None]) -> Iterator[int]:
    """Hold the machine; yields the lock's descriptor for the trial's reaper.

    The kernel drops the lock with the last holder of the descriptor, so a killed launcher does not free the machine before its trial has
    ended. While waiting, ends the trials of dead launchers and calls `on_wait` with the holder. MachineBusy after `patience_s`, LockRefused
    at once.
    """
    path = lock_file(machine)
    descriptor = _acquire(path, machine, patience_s, on_wait)
    try:
        _write_holder(descriptor, {"trial_id": trial_id, "pid": os.getpid(), "work": str(work)})
        yield descriptor
    finally:
        _write_holder(descriptor, {})
        # Unlocked, not only closed: another child of the launcher may have a copy of the descriptor.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _acquire(path: Path, machine: str, patience_s: float, on_wait: Callable[[str], None]) -> int:
    began, reported = time.monotonic(), float("-inf")
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_current(path, descriptor):
                return descriptor
            os.close(descriptor)  # the file was replaced: the current one counts
            continue
        except BlockingIOError:
            holder = _read_holder(descriptor)
            os.close(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        waited = time.monotonic() - began
        who = f'trial "{holder.get("trial_id", "unknown")}" (process {holder.get("pid", "unknown")})'
        if waited > patience_s:
            raise MachineBusy(f'machine "{machine}" was busy for {waited:.0f} s, held by {who}')
        if waited - reported >= _REPORT_S:
            reported = waited
            on_wait(f'waiting for machine "{machine}", held by {who}')
        if holder.get("work"):
            end_abandoned(Path(holder["work"]))
        time.sleep(_POLL_S)


def _is_current(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _read_holder(descriptor: int) -> dict[str, str]:
    try:
        data = json.loads(os.pread(descriptor, 65536, 0))
    except ValueError:
        return {}  # its holder is between two writes
    return {str(k): str(v) for k, v in data.items()} if isinstance(data, dict) else {}


def _write_holder(descriptor: int, content: dict[str, object]) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(content).encode(), 0)
