"""The process that trains: `python -m plumbline.harness.training.worker spec.json`.

It imports torch and the standard library only (its start-up is part of what is measured), writes down every step in its log before
the next begins, and ends when the process that started it ends, however that happens.
"""

from __future__ import annotations

import errno
import sys
from pathlib import Path

import torch

from plumbline.harness.image_requirements import ImageIncomplete
from plumbline.harness.parent_guard import end_with_parent
from plumbline.harness.training.worker.trainer import Trainer
from plumbline.harness.training.worker_protocol import ExitCode, StepLog, WorkerError, WorkerSpec


def main(arguments: list[str]) -> int:
    """Train as the spec says. 0, or an ExitCode with the cause as the last line on standard error."""
    spec_path, parent = arguments
    end_with_parent(int(parent))
    spec = WorkerSpec.read(Path(spec_path))
    try:
        Trainer(spec, StepLog(Path(spec.log))).run()
    except Exception as error:
        if (code := _exit_code(error)) is None:
            raise
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return code
    return 0


def _exit_code(error: Exception) -> ExitCode | None:
    if isinstance(error, WorkerError):
        return error.exit_code
    if isinstance(error, ImageIncomplete):
        return ExitCode.IMAGE_INCOMPLETE
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return ExitCode.OUT_OF_MEMORY
    if isinstance(error, OSError):
        return ExitCode.DISK_FULL if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else None
    if not isinstance(error, RuntimeError):
        return None
    groups = sys.modules.get("plumbline.harness.training.distributed.process_group")  # imported by a rank of several
    if groups is not None and groups.is_peer_lost(error):
        return ExitCode.LOST_A_PEER
    if _from_driver(error):  # what the driver says of an allocation is no OutOfMemoryError
        return ExitCode.OUT_OF_MEMORY if "out of memory" in str(error) else ExitCode.DEVICE_FAILED
    # torch's CPU allocator has no exception type of its own.
    return ExitCode.OUT_OF_MEMORY if "can't allocate memory" in str(error) else None


def _from_driver(error: RuntimeError) -> bool:
    """Whether the GPU's driver raised it; torch before 2.8 has no exception type for that."""
    return isinstance(error, getattr(torch, "AcceleratorError", ())) or str(error).startswith(("CUDA error", "HIP error"))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
