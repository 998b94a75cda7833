"""One trial at a time on one machine, whatever starts it; processes of killed launchers are ended."""

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
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from plumbline.harness.process_tree import ProcessId
from plumbline.launch.local.process import end_launch

ABANDONED_GRACE_S = 5.0


@dataclass(frozen=True)
class LaunchPidfile:
    """A pidfile's content: who runs what. A pid alone proves nothing, so each comes with the start of its process."""

    trial_id: str
    token: str
    launcher: int
    launcher_start: str
    keeper: int
    keeper_start: str
    folders: tuple[str, ...]

    @classmethod
    def of(cls, trial_id: str, token: str, reaper: ProcessId, *folders: Path) -> LaunchPidfile:
        """Of a trial that this process has launched."""
        own = ProcessId.of(os.getpid())
        assert own is not None
        return cls(trial_id, token, own.pid, own.start, reaper.pid, reaper.start, tuple(map(str, folders)))


@contextmanager
def hold_pidfile(pidfile: Path, running: LaunchPidfile) -> Iterator[None]:
    """Keep the pidfile while the trial runs. Written whole or not at all."""
    draft = pidfile.with_suffix(".pid.part")
    draft.write_text(json.dumps(asdict(running), indent=1), encoding="utf-8")
    draft.replace(pidfile)
    try:
        yield
    finally:
        pidfile.unlink(missing_ok=True)


def end_abandoned(work: Path) -> list[int]:
    """End what launchers that are gone left running, remove their scratch folders, and return the pids that were ended.

    A trial whose launcher still lives is left alone. No process is signalled unless it carries the launch's own token or is the very
    process (pid and start) that the pidfile names.
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
    """The pidfile's content; None for one that a launcher just removed or that another user wrote: it names folders to delete."""
    try:
        if pidfile.lstat().st_uid != os.getuid():
            return None
        data = json.loads(pidfile.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(data, dict) or set(data) != {field.name for field in fields(LaunchPidfile)}:
        return None
    return LaunchPidfile(**{**data, "folders": tuple(data["folders"])})


_POLL_S, _REPORT_S = 0.5, 5.0


class MachineBusy(Exception):
    """The machine did not become free in time; the message says who holds it."""


class LockRefused(MachineBusy):
    """The lock lies where another user can write: its content, which says what to end and to delete, cannot be trusted."""


def lock_file(machine: str) -> Path:
    """The lock lies where all installations of this user meet, not in one installation's home: in a folder of this user alone.

    LockRefused if that folder is a link, belongs to another user, or is open to others.
    """
    folder = Path(tempfile.gettempdir()) / f"plumbline-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise LockRefused(
            f"{folder} must be a folder of user {os.getuid()} with mode 0700 for the locks of this machine; "
            f"found mode {stat.filemode(found.st_mode)}, user {found.st_uid}. Remove it, or set TMPDIR to a folder of your own"
        )
    return folder / f"{machine}.lock"


@contextmanager
def machine_lock(machine: str, trial_id: str, work: Path, patience_s: float, on_wait: Callable[[str], None]) -> Iterator[int]:
    """Hold the machine; yields the lock's descriptor, to be handed to the trial's reaper.

    The kernel drops the lock when the last holder of the descriptor is gone. With the reaper as a holder, a killed launcher does not
    free the machine before its trial has really ended. While waiting, `on_wait` hears every few seconds who holds the machine, and
    what a killed launcher left behind is ended. Raises MachineBusy after `patience_s`, LockRefused at once.
    """
    path = lock_file(machine)
    descriptor = _acquire(path, machine, patience_s, on_wait)
    try:
        _write_holder(descriptor, {"trial_id": trial_id, "pid": os.getpid(), "work": str(work)})
        yield descriptor
    finally:
        _write_holder(descriptor, {})
        # Unlocked, not only closed: a child that the launcher forked for something else may have a copy of the descriptor.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _acquire(path: Path, machine: str, patience_s: float, on_wait: Callable[[str], None]) -> int:
    began, told = time.monotonic(), float("-inf")
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_current(path, descriptor):
                return descriptor
            os.close(descriptor)  # somebody tidied the folder: the lock that counts is the file that stands there now
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
            raise MachineBusy(f'machine "{machine}" was not free for {waited:.0f}s: {who} holds it')
        if waited - told >= _REPORT_S:
            told = waited
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
