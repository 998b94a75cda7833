"""End a process with its parent: a call for workers, and a guard program, `python -I -S parent_guard.py PARENT_PID PROGRAM ARGUMENT…`.

A program, because Python between fork and exec of a threaded process can deadlock. Standard library only: it runs by path.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def prctl(option: int, value: int) -> bool:
    """prctl(2); False where the kernel refuses or has no such call."""
    return sys.platform == "linux" and int(ctypes.CDLL(None).prctl(option, value, 0, 0, 0)) == 0


def end_with_parent(parent: int) -> None:
    """Have the kernel end this process with its parent; where it cannot, the end of standard input does."""

    def watch_input() -> None:
        while os.read(0, 4096):
            pass
        os._exit(1)

    threading.Thread(target=watch_input, daemon=True).start()
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if sys.platform == "linux" and os.getppid() != parent:  # it ended before the kernel had the order
        os._exit(1)


if __name__ == "__main__":
    parent, program = int(sys.argv[1]), sys.argv[2:]
    if not prctl(PR_SET_PDEATHSIG, signal.SIGKILL):
        sys.exit("prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:
        sys.exit(f"the parent {parent} has ended")
    os.execv(program[0], program)
