"""Owns Airflow's components: starts, restarts and stops them, bounds their logs, and ends when its owner does."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import psutil

from plumbline.harness.parent_guard import PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG, prctl
from plumbline.harness.process_tree import end_processes

COMPONENTS: dict[str, tuple[str, ...]] = {
    # Without their log servers, which would listen on all interfaces: the API server reads the logs from the disk.
    "scheduler": ("airflow", "scheduler", "--skip-serve-logs"),
    "api-server": ("airflow", "api-server"),
    "dag-processor": ("airflow", "dag-processor"),
    "triggerer": ("airflow", "triggerer", "--skip-serve-logs"),
}
"""Component → module and arguments."""
MIGRATION: dict[str, tuple[str, ...]] = {"migration": ("airflow", "db", "migrate")}
GRACE_S = 12.0
STEADY_S = 30.0
"""A component that ran this long is restarted when it ends, as after a kill for memory. One that ends sooner cannot run at all."""
STOPPED_BY_OWNER, COMPONENT_ENDED = 0, 3
_MARK, _AIRFLOW = "migrated-to", "apache-airflow-core"
_Children = dict[int, tuple[str, "subprocess.Popen[bytes]"]]


def main() -> int:
    """Run until the owner ends, a signal arrives or a component cannot run; STOPPED_BY_OWNER or COMPONENT_ENDED."""
    wake, poke = os.pipe()
    os.set_blocking(poke, False)
    signal.set_wakeup_fd(poke, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    # Orphans of a component become our children, so that no descendant escapes.
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    home = Path(os.environ["AIRFLOW_HOME"])
    try:
        return _run(home, wake)
    finally:
        _end_all()


def _run(home: Path, wake: int) -> int:
    """Migrate the database once for each version of Airflow, then start all components."""
    if not is_migrated(home):
        ended = _wait_for_children(_start(MIGRATION, home / "logs"), wake)
        if ended is None:
            return STOPPED_BY_OWNER
        if ended[0][1] != 0:
            return _report(*ended[0])
        note_migrated(home)
    children = _start(COMPONENTS, home / "logs")
    started = dict.fromkeys(COMPONENTS, time.monotonic())
    while (ended := _wait_for_children(children, wake)) is not None:
        for name, status in ended:
            if time.monotonic() - started[name] < STEADY_S:
                return _report(name, status)
            children |= _start({name: COMPONENTS[name]}, home / "logs")
            started[name] = time.monotonic()
            _print_line(f"{name} ended with status {status} and was restarted")
    return STOPPED_BY_OWNER


def is_migrated(home: Path) -> bool:
    """Whether the database in `home` has the schema of the installed Airflow."""
    mark = home / _MARK
    return mark.exists() and mark.read_text() == version(_AIRFLOW)


def note_migrated(home: Path) -> None:
    """Record that the installed version's `db migrate` succeeded."""
    (home / _MARK).write_text(version(_AIRFLOW))


def _start(commands: dict[str, tuple[str, ...]], logs: Path) -> _Children:
    logs.mkdir(parents=True, exist_ok=True)
    children: _Children = {}
    for name, arguments in commands.items():
        with (logs / f"{name}.log").open("ab") as out:
            child = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                # If this process is killed, the components get SIGTERM; the next start finds their leftovers.
                preexec_fn=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGTERM),
            )
        children[child.pid] = (name, child)
    return children


def _wait_for_children(children: _Children, wake: int) -> list[tuple[str, int]] | None:
    """Wait until children end: (name, status) of each, removed from `children`; None if the owner stops us."""
    lifeline = sys.stdin.fileno()
    while True:
        ready, _, _ = select.select([lifeline, wake], [], [], LOG_CHECK_EVERY_S)
        if not ready:
            rotate_logs(Path(os.environ["AIRFLOW_HOME"]) / "logs")
        if wake in ready and any(n != signal.SIGCHLD for n in os.read(wake, 256)):
            return None
        if lifeline in ready and not os.read(lifeline, 256):
            return None
        ended = []
        for pid, status in _reaped():
            if pid in children:
                name, child = children.pop(pid)
                child.returncode = status
                ended.append((name, status))
        if ended:
            return ended


def _report(name: str, status: int) -> int:
    _print_line(f"{name} ended with status {status}")
    return COMPONENT_ENDED


def _print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _end_all() -> None:
    """SIGTERM to every descendant, SIGKILL after GRACE_S."""

    def descendants() -> list[psutil.Process]:
        _reaped()
        return list(psutil.Process().children(recursive=True))

    with contextlib.suppress(RuntimeError):  # the next start finds one that outlives SIGKILL
        end_processes(descendants, GRACE_S, GRACE_S)


def _reaped() -> list[tuple[int, int]]:
    """(pid, status) of every ended child, adopted ones too."""
    ended = []
    with contextlib.suppress(ChildProcessError):
        while (child := os.waitpid(-1, os.WNOHANG))[0]:
            ended.append((child[0], os.waitstatus_to_exitcode(child[1])))
    return ended


LOG_LIMIT_BYTES = 20 * 2**20
LOG_CHECK_EVERY_S = 60.0


def rotate_logs(logs: Path, limit: int = LOG_LIMIT_BYTES) -> list[str]:
    """Copy each component's log above `limit` bytes to <name>.log.1 and empty it, as its writer keeps it open; the names. Lines written in that
    moment are lost."""
    rotated = []
    for log in sorted(logs.glob("*.log")):
        try:
            if log.stat().st_size > limit:
                shutil.copyfile(log, log.with_name(f"{log.name}.1"))
                os.truncate(log, 0)
                rotated.append(log.name)
        except OSError:  # a full disk: emptying the log helps
            log.with_name(f"{log.name}.1").unlink(missing_ok=True)
            os.truncate(log, 0)
    return rotated


if __name__ == "__main__":
    sys.exit(main())
