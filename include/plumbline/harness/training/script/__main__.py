"""The worker of a training script: `python -m plumbline.harness.training.script spec.json PARENT_PID`, with the key
of its step log as the first line of standard input (see `log_seal`).

Its last line on standard error is the cause of an end that failed; all before it is the command's output."""

from __future__ import annotations

import errno
import sys
from pathlib import Path

from plumbline.harness.parent_guard import end_with_parent
from plumbline.harness.training.log_seal import take_over
from plumbline.harness.training.script.process import ScriptProcess
from plumbline.harness.training.worker_protocol import ExitCode, ScriptSpec, StepLog, WorkerError


def main(arguments: list[str]) -> int:
    """0, or an ExitCode."""
    spec_path, parent = arguments
    key = take_over()
    end_with_parent(int(parent))
    spec = ScriptSpec.read(Path(spec_path))
    try:
        return ScriptProcess(spec, StepLog(Path(spec.log), key)).run()
    except WorkerError as error:
        sys.stderr.write(f"\0{error}\n")
        return error.exit_code
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        sys.stderr.write(f"\0{error}\n")
        return ExitCode.DISK_FULL


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
