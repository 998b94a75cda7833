"""Tries a script outside of a trial, under the workers of one: `python -m plumbline.harness.training.job.tried FOLDER RANKS`.

FOLDER holds the orders of a rank as SPEC_FILE. Runs until a rank ends, or it is asked to stop; its one line of output is an Ended as JSON. Its
parent is a trial's reaper, which leaves nothing of it behind."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from plumbline.harness.environment.cpu import usable_cores
from plumbline.harness.gang.channel import free_port
from plumbline.harness.process_tree import describe_exit
from plumbline.harness.training.job.supervisor import RankProcess, started, wait_for_any
from plumbline.harness.training.plan import CoreShare
from plumbline.harness.training.worker_protocol import ExitCode, ProcessGroupSpec, ScriptSpec

SPEC_FILE = "try.json"
_POLL_S = 0.5


@dataclass(frozen=True)
class Ended:
    """How the first rank ended. `started`: whether its command was."""

    how: str
    started: bool = True


def output_of(folder: Path) -> Path:
    """Where the output of rank 0's command is."""
    return folder / "run.worker.log"


def log_of(folder: Path) -> Path:
    """The step log of rank 0, which says when its command was launched."""
    return folder / "run.steps.jsonl"


def ranks_of(spec: ScriptSpec, folder: Path, ranks: int) -> Sequence[RankProcess]:
    """The workers, not yet started."""
    cores = sorted(usable_cores())
    share, port = CoreShare(cores=None, threads=max(len(cores) // ranks, 1), bind=False), free_port()
    workers = []
    for rank in range(ranks):
        group = ProcessGroupSpec(rank, ranks, rank, 1, "gloo", "127.0.0.1", port, "run") if ranks > 1 else None
        log = log_of(folder) if rank == 0 else folder / f"run.rank{rank}.steps.jsonl"
        workers.append(RankProcess("run", replace(spec, group=group, threads=share.threads, log=str(log)), share, folder, {}))
    return workers


def _ended(worker: RankProcess) -> Ended:
    code = worker.process.returncode
    sentence = worker.stderr_path.read_text(errors="replace").rpartition("\0")[2].strip() if code > 0 else ""
    if code == ExitCode.SCRIPT_FAILED:
        return Ended(sentence.removeprefix("the command ").replace("exit code", "exit status"))
    if code == ExitCode.NOT_STARTED:
        return Ended(sentence, started=False)
    return Ended("ended with exit status 0" if code == 0 else describe_exit(code, sentence))


def main(arguments: list[str]) -> int:
    folder, ranks = Path(arguments[0]), int(arguments[1])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    workers = ranks_of(ScriptSpec.read(folder / SPEC_FILE), folder, ranks)
    with started(workers):
        while (first := next((worker for worker in workers if worker.ended), None)) is None:
            wait_for_any(workers, (), _POLL_S)
        ended = _ended(first)
    sys.stdout.write(json.dumps(asdict(ended)) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
