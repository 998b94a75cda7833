"""Plan of a training trial: ranks and their cores, the runs in their order, and the specification of each worker process.

A trial consists of runs, each a process of its own (or one for each rank):

    run       every step from scratch, undisturbed: cold start, warm-up, steady state; then the final checks
    fault     resumes from the newest checkpoint before the fault, which comes in the declared step; as often as the fault is declared.
              A script's begins from scratch, in a copy of its files: only the script knows its checkpoints
    recovery  resumes from the same checkpoint, does the lost steps again, and goes on to the next checkpoint

So the fault never touches the steady numbers, and `fault` + `recovery` are one checkpoint interval, over which goodput is counted. A run that
ends before it should is made again under a name with a number (`fault-2`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from plumbline.harness.training.worker_protocol import (
    DataSpec,
    HoldPoint,
    ProcessGroupSpec,
    RunName,
    RunSpec,
    ScriptSpec,
    WorkerSpec,
    run_kind,
)

if TYPE_CHECKING:
    from plumbline.declarations.workloads.training import TrainingJob, TrainingWorkload
    from plumbline.harness.gang.topology import Address, Topology
    from plumbline.harness.training.dataset import DataFile


@dataclass(frozen=True)
class CoreShare:
    """One rank's share of the node's cores: how many threads, and which cores if they are its own (`bind`: each thread stays on one)."""

    threads: int
    cores: tuple[int, ...] | None
    bind: bool


def share_cores(cores: Sequence[int], limit: int | None, processes: int, *, binds: bool) -> tuple[CoreShare, ...]:
    """How the usable `cores` of a node are shared by its ranks.

    One rank on cores of its own takes them all and binds a thread to each. Several ranks on a CPU take equal parts: bound without
    parts they would all sit on the first core. Where a limit gives fewer cores' worth of time than there are cores, these are shared
    with others, who would be bound to the same ones: nothing is bound then. Without `binds` nothing is: a script decides itself; beside a GPU, which core is near it is the kernel's to find; and
    binding OpenMP's threads confines all others (batches, backward, compiler, checksums) to the core of the first.
    """
    if limit is not None and limit < len(cores):
        return (CoreShare(max(limit // processes, 1), None, bind=False),) * processes
    if not binds:
        return (CoreShare(max(len(cores) // processes, 1), None, bind=False),) * processes
    if processes == 1:
        return (CoreShare(len(cores), None, bind=True),)
    if processes > len(cores):
        return tuple(CoreShare(1, (cores[i % len(cores)],), bind=True) for i in range(processes))
    each = len(cores) // processes
    return tuple(CoreShare(each, tuple(cores[i * each : (i + 1) * each]), bind=True) for i in range(processes))


@dataclass(frozen=True)
class FaultPlan:
    """Steps of the faulted stretch: from the checkpoint after `resume_from` steps, broken off in `kill_in`, on until `until`.

    `inside`: whether the fault comes in that step or in the checkpoint after it. It comes on the first `times` attempts.
    """

    resume_from: int
    kill_in: int
    until: int
    inside: Literal["step", "checkpoint"] = "step"
    times: int = 1


def plan_fault(workload: TrainingJob) -> FaultPlan | None:
    """The faulted stretch of a workload: one checkpoint interval (cut short by the end of the trial); None without a fault."""
    fault, every = workload.fault, workload.checkpoint_every
    if fault is None or every is None:
        return None
    resume_from = fault.at_step // every * every
    inside: Literal["step", "checkpoint"] = "checkpoint" if fault.inject == "checkpoint_kill" else "step"
    return FaultPlan(resume_from, fault.at_step, min(resume_from + every, workload.steps.total), inside, fault.times)


_COPIED = {
    *("precision", "compile", "attention", "activation_checkpointing", "deterministic", "optimizer", "parallelism", "seed"),
}
"""Fields of a workload that a worker gets as declared."""


def undisturbed_spec(workload: TrainingWorkload, data: DataFile, folder: Path, *, device: str) -> WorkerSpec:
    """The orders of the first run: of all its ranks, before `rank_spec` gives each its own."""
    # It brings every kind of workload along, which the processes of ranks do not need.
    from plumbline.kinds.training import VERIFIED_LOADS

    fault = plan_fault(workload)
    return WorkerSpec(
        model=workload.model.model_dump(mode="json"),
        task={**workload.task.model_dump(mode="json"), "learner": workload.task.learner},
        data=DataSpec(str(data.path), data.dtype, data.count, data.item, None if workload.data.source == "file" else workload.data.seed),
        **workload.batch.model_dump(mode="json", include={"micro", "accumulation", "sequence"}),
        **workload.model_dump(mode="json", include=_COPIED),
        device=device,
        threads=1,
        until=workload.steps.total,
        resume=False,
        checkpoint_folder=str(folder / "checkpoints"),
        checkpoint_every=workload.checkpoint.every,
        checkpoint_keep=workload.checkpoint.keep,
        checkpoint_mode=workload.checkpoint.mode,
        checkpoint_retain=(fault.resume_from,) if fault else (),
        verified_loads=VERIFIED_LOADS,
        hold=None,
        closing=True,
        log=str(folder / "run.steps.jsonl"),
        weights=None if data.weights is None else str(data.weights),
    )


def run_spec(name: RunName, workload: TrainingWorkload, data: DataFile, folder: Path, *, device: str, resume: bool) -> WorkerSpec:
    """The orders of a run by its name: every node of a job derives the same from the same trial. `resume`: from the newest checkpoint.

    The checkpoints of the faulted stretch lie in a folder of their own.
    """
    first, fault, kind = undisturbed_spec(workload, data, folder, device=device), plan_fault(workload), run_kind(name)
    attempt = replace(first, resume=resume, log=str(folder / f"{name}.steps.jsonl"))
    if kind == "run" or fault is None:
        return attempt
    return replace(
        attempt,
        until=fault.until,
        checkpoint_folder=str(folder / "fault-checkpoints"),
        checkpoint_retain=(),
        hold=HoldPoint(fault.kill_in, fault.inside) if kind == "fault" else None,
        closing=False,
    )


_Spec = TypeVar("_Spec", bound=RunSpec)


def rank_spec(spec: _Spec, place: Topology, rank: int, threads: int, store: Address | None, name: RunName) -> _Spec:
    """The orders of one rank. Rank 0 closes, and of sharded state all do.

    The last rank of node 0 is the one that holds in a step; in a checkpoint it is rank 0, which writes it. Of a script any rank of node 0
    does, as only some may report their steps.
    """
    if store is None:
        return replace(spec, threads=threads)
    local = rank - place.ranks[0]
    backend = "nccl" if spec.device == "cuda" else "gloo"
    holds: tuple[int, ...] = (0,) if spec.hold is not None and spec.hold.inside == "checkpoint" else (place.processes - 1,)
    if isinstance(spec, ScriptSpec):
        holds = tuple(range(place.processes))
    return replace(
        spec,
        threads=threads,
        log=spec.log if rank == 0 else str(Path(spec.log).with_name(f"{name}.rank{rank}.steps.jsonl")),
        hold=spec.hold if rank in holds else None,
        closing=spec.closing and (rank == 0 or (isinstance(spec, WorkerSpec) and spec.sharded)),
        group=ProcessGroupSpec(rank, place.world, local, place.nodes, backend, store.host, store.port, name),
    )
