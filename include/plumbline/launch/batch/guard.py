"""What runs a trial on a machine that has no queue: one trial at a time, to its deadline, and nothing of it afterwards.

Run by path (`python -I -S guard.py …`) with the standard library only, in a session of its own. Holds the machine's lock while the trial runs,
and its launch's own for as long as it lives. Below it the reaper, which ends the trial also if this process is killed.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

_POLL_S = 0.2
_END_S = 20.0
LATE, STOPPED, STOP = "timeout", "stopped", "stop"


def _write(file: Path, text: str) -> None:
    part = file.with_name(f"{file.name}.part")
    part.write_text(text)
    part.replace(file)


def _locked(path: Path, until: float, stopped: Callable[[], bool]) -> int | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    while not stopped():
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if time.time() > until:
                break
            time.sleep(_POLL_S)
    os.close(descriptor)
    return None


def main() -> int:
    """Wait for the machine, run the command, and write how it ended into the launch's folder."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True, help="the launch's folder")
    parser.add_argument("--lock", type=Path, required=True, help="the machine's lock")
    parser.add_argument("--wait", type=float, required=True, help="seconds to wait for the machine")
    parser.add_argument("--limit", type=float, required=True, help="seconds that the command may run")
    parser.add_argument("--reaper", required=True, help="the program that ends every descendant")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    signals: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda received, _: signals.append(received))

    def stopped() -> bool:
        # The file, because a request to stop may come before anybody knows this process.
        return bool(signals) or (options.folder / STOP).exists()

    alive = _locked(options.folder / "alive", time.time() + 5.0, stopped)
    if alive is None:
        return 1  # another one guards this launch
    _write(options.folder / "guard", str(os.getpid()))
    if stopped() or (hold := _locked(options.lock, time.time() + options.wait, stopped)) is None:
        _write(options.folder / "end", STOPPED if stopped() else "busy")
        return 1
    _write(options.folder / "began", f"{time.time():.3f}")
    cpus = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    wrapped = [sys.executable, "-I", "-S", options.reaper, "--launcher", str(os.getpid()), "--cpus", cpus, "--hold", str(hold)]
    with (options.folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [*wrapped, "--grace", str(_END_S), "--", *options.command],
            cwd=options.folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=(hold,),
        )
    deadline, end = time.monotonic() + options.limit, ""
    while process.poll() is None:
        if not end and (stopped() or time.monotonic() > deadline):
            end = STOPPED if stopped() else LATE
            process.send_signal(signal.SIGTERM)  # it gives the trial the grace time, then kills
        time.sleep(_POLL_S)
    _write(options.folder / "end", end or f"exit {process.returncode}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
