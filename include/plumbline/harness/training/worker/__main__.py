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
from plumbline.harness.training.checkpoint import NothingToResume
from plumbline.harness.training.dataset import DataCorrupt
from plumbline.harness.training.worker import NoDevice, Trainer
from plumbline.harness.training.worker.torch_setup import NotDeterministic, UnsupportedOption
from plumbline.harness.training.worker_protocol import (
    EXIT_DAMAGED_DATA,
    EXIT_DEVICE_FAILED,
    EXIT_DISK_FULL,
    EXIT_IMAGE_INCOMPLETE,
    EXIT_LOST_A_PEER,
    EXIT_NO_DEVICE,
    EXIT_NOT_DETERMINISTIC,
    EXIT_NOTHING_TO_RESUME,
    EXIT_OUT_OF_MEMORY,
    EXIT_UNSUPPORTED,
    StepLog,
    WorkerSpec,
)


def main(arguments: list[str]) -> int:
    """Train as the spec says. 0, or one of the exit codes of `plan` with the cause as the last line on standard error."""
    spec_path, parent = arguments
    end_with_parent(int(parent))
    spec = WorkerSpec.read(Path(spec_path))
    try:
        log = StepLog(Path(spec.log))
        Trainer(spec, log).run()
    except NoDevice as error:
        return _failed(EXIT_NO_DEVICE, error)
    except UnsupportedOption as error:
        return _failed(EXIT_UNSUPPORTED, error)
    except ImageIncomplete as error:
        return _failed(EXIT_IMAGE_INCOMPLETE, error)
    except NotDeterministic as error:
        return _failed(EXIT_NOT_DETERMINISTIC, error)
    except NothingToResume as error:
        return _failed(EXIT_NOTHING_TO_RESUME, error)
    except DataCorrupt as error:
        return _failed(EXIT_DAMAGED_DATA, error)
    except (MemoryError, torch.OutOfMemoryError) as error:
        return _failed(EXIT_OUT_OF_MEMORY, error)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return _failed(EXIT_DISK_FULL, error)
        raise
    except RuntimeError as error:
        if spec.group is not None and _lost_a_peer(error):
            return _failed(EXIT_LOST_A_PEER, error)
        if _from_driver(error):  # what the driver says of an allocation is no OutOfMemoryError
            return _failed(EXIT_OUT_OF_MEMORY if "out of memory" in str(error) else EXIT_DEVICE_FAILED, error)
        if "can't allocate memory" in str(error):  # torch's CPU allocator has no exception type of its own
            return _failed(EXIT_OUT_OF_MEMORY, error)
        raise
    return 0


def _from_driver(error: RuntimeError) -> bool:
    """Whether the GPU's driver raised it; torch before 2.8 has no exception type for that."""
    return isinstance(error, getattr(torch, "AcceleratorError", ())) or str(error).startswith(("CUDA error", "HIP error"))


def _lost_a_peer(error: RuntimeError) -> bool:
    from plumbline.harness.training.distributed.process_group import is_peer_lost  # see Trainer

    return is_peer_lost(error)


def _failed(code: int, error: BaseException) -> int:
    sys.stderr.write(f"{type(error).__name__}: {error}\n")
    return code


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
