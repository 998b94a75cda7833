"""Become another program that the kernel kills when our parent dies: `python -I -S guarded.py PARENT_PID PROGRAM ARGUMENT…`

A program of its own because the parent has threads: running Python between fork and exec of a threaded process can deadlock.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    parent, program = int(sys.argv[1]), sys.argv[2:]
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0):
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
    # The parent may have died before the request was made.
    if os.getppid() != parent:
        sys.exit(f"the parent {parent} has ended")
    os.execv(program[0], program)
