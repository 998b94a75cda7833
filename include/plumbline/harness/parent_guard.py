"""End a process with its parent: a call for workers, and a guard program, `python -I -S parent_guard.py PARENT_PID PROGRAM ARGUMENT…`."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading

_PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int) -> None:
    """Have the kernel end this process with its parent; where it cannot, the end of standard input does."""

    def watch_input() -> None:
        while os.read(0, 4096):
            pass
        os._exit(1)

    threading.Thread(target=watch_input, daemon=True).start()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before the kernel had the order
            os._exit(1)
