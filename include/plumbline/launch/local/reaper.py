"""The parent of a local trial: pins it, dies with its launcher, leaves no descendant, and exits with the trial's status or signal.

Run by path (`python -I -S reaper.py …`) with the standard library only, to start in milliseconds. Every orphaned descendant, also one that
forked twice and left the session, becomes its child (PR_SET_CHILD_SUBREAPER).
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import signal
import sys
import time
from pathlib import Path

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_DEFAULT_SIGNALS = (*_STOP_SIGNALS, signal.SIGPIPE, signal.SIGXFSZ)  # Python ignores the last two; a trial starts with the defaults
_KILL_PATIENCE_S = 5.0
EXEC_FAILED = 127


def _parents() -> dict[int, int]:
    parents = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208 - names only; this runs while a trial is measured
        if not entry.isdigit():
            continue
        try:
            stat = Path("/proc", entry, "stat").read_bytes()
        except OSError:
            continue  # it ended meanwhile
        # The command, in parentheses, may hold spaces and parentheses itself.
        state, parent = stat.rpartition(b")")[2].split()[:2]
        if state not in (b"Z", b"X"):
            parents[int(entry)] = int(parent)
    return parents


def _signal_descendants(number: int) -> None:
    parent_of = _parents()
    below = {os.getpid()}
    while more := {pid for pid, parent in parent_of.items() if parent in below} - below:
        below |= more
    for pid in below - {os.getpid()}:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _end_descendants(grace_s: float, signalled: dict[int, int]) -> None:
    """SIGTERM, the grace time, then SIGKILL until none is left, also of processes that fork meanwhile."""
    _signal_descendants(signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while _reap(signalled) and time.monotonic() < deadline:
        time.sleep(0.05)
    deadline = time.monotonic() + _KILL_PATIENCE_S
    while time.monotonic() < deadline:
        _signal_descendants(signal.SIGKILL)
        if not _reap(signalled):
            return
        time.sleep(0.02)


def _reap(signalled: dict[int, int]) -> bool:
    """Collect ended children into `signalled`; whether any child is left."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
        signalled[pid] = status


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed: {os.strerror(ctypes.get_errno())}")


def main() -> int:
    """Start the command, wait for its end or for a request to stop, clean up."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--launcher", type=int, required=True, help="pid of the launcher")
    parser.add_argument("--cpus", required=True, help="cores to pin to, such as 0,1")
    parser.add_argument("--hold", type=int, required=True, help="descriptor of the machine's lock, kept until the last descendant is gone")
    parser.add_argument("--grace", type=float, required=True, help="seconds between SIGTERM and SIGKILL")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    signal.pthread_sigmask(signal.SIG_BLOCK, {*_STOP_SIGNALS, signal.SIGCHLD})
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    if os.getppid() != options.launcher:
        return EXEC_FAILED  # the launcher died before prctl took effect
    os.set_inheritable(options.hold, False)
    os.sched_setaffinity(0, {int(cpu) for cpu in options.cpus.split(",")})
    try:
        trial = os.posix_spawnp(options.command[0], options.command, os.environ, setsigmask=(), setsigdef=_DEFAULT_SIGNALS)
    except OSError as error:
        sys.stderr.write(f"{options.command[0]}: cannot be started: {error}\n")
        return EXEC_FAILED
    signalled: dict[int, int] = {}
    while trial not in signalled:
        if signal.sigwait({*_STOP_SIGNALS, signal.SIGCHLD}) != signal.SIGCHLD:
            break
        _reap(signalled)
    _end_descendants(options.grace, signalled)
    return _exit_like(signalled.get(trial))


def _exit_like(status: int | None) -> int:
    """The trial's exit status; after a trial that died of a signal this process dies of the same signal."""
    if status is None:
        number = int(signal.SIGKILL)  # it outlived SIGKILL (uninterruptible)
    elif os.WIFEXITED(status):
        return os.WEXITSTATUS(status)
    else:
        number = os.WTERMSIG(status)
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the trial dumped its core already, if it was to
    with contextlib.suppress(OSError):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    return 128 + number


if __name__ == "__main__":
    raise SystemExit(main())
