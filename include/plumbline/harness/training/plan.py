"""What a worker process is told, and which steps each run of a trial does. Standard library only: the worker's start-up is measured.

A trial consists of runs, each a process of its own (or one for each rank, see `place`):

    run       every step from scratch, undisturbed: cold start, warm-up, steady state; then the closing checks
    fault     resumes from the newest checkpoint before the fault, which comes in the declared step; as often as the fault is declared
    recovery  resumes from the same checkpoint, does the lost steps again, and goes on to the next checkpoint

So the fault never touches the steady numbers, and `fault` + `recovery` together are one checkpoint interval with its failures in it:
the stretch over which goodput is counted. A run that ends before it should is made again under a name with a number (`fault-2`).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    from plumbline.declarations.training import TrainingWorkload
    from plumbline.harness.training.dataset import DataFile
    from plumbline.harness.training.place import Address, Place

RunKind = Literal["run", "fault", "recovery"]
RunName = str
"""A run's kind, with the number of the attempt from the second on: `fault`, `fault-2`."""

EXIT_OUT_OF_MEMORY = 64
EXIT_DISK_FULL = 65
EXIT_NO_DEVICE = 66
EXIT_NOTHING_TO_RESUME = 67
EXIT_DAMAGED_DATA = 68
EXIT_LOST_A_PEER = 69
EXIT_UNSUPPORTED = 70
EXIT_NOT_DETERMINISTIC = 71
EXIT_DEVICE_FAILED = 72
EXIT_IMAGE_INCOMPLETE = 73
"""A worker's own exit codes: they tell the cause even where no file can be written any more."""


def run_name(kind: RunKind, attempt: int) -> RunName:
    """The name of an attempt, counted from 1."""
    return kind if attempt == 1 else f"{kind}-{attempt}"


def kind_of(name: RunName) -> RunKind:
    """What a run with this name is for. ValueError if it is no run's name."""
    kind = name.partition("-")[0]
    for known in get_args(RunKind):
        if kind == known:
            return known  # type: ignore[no-any-return]
    raise ValueError(f"{name!r} is no run; expected one of {', '.join(get_args(RunKind))}, or one of them with a number")


@dataclass(frozen=True)
class Group:
    """One rank's place among the `world` ranks of a run, which find each other through the store at `host`:`port`.

    `local`: which of its node's ranks it is. `run` keeps the runs of a trial apart in the store.
    """

    rank: int
    world: int
    local: int
    nodes: int
    backend: str
    host: str
    port: int
    run: RunName


@dataclass(frozen=True)
class DataOrders:
    """A data file to read: `count` items of shape `item` and little-endian type `dtype`, generated from `seed` (None: a team's own)."""

    path: str
    dtype: str
    count: int
    item: tuple[int, ...] = ()
    seed: int | None = None


@dataclass(frozen=True)
class Hold:
    """Where the run says so and waits for the end that the harness brings about: in the middle of a step, or of the checkpoint after it."""

    step: int
    inside: Literal["step", "checkpoint"] = "step"


@dataclass(frozen=True)
class WorkerSpec:
    """One worker's orders, as JSON in a file. Steps are counted from 0; `until` is the first one not to do.

    `model`, `task`, `optimizer`, `parallelism`: as declared. `weights`: where stored initial weights lie. `group` is None where one
    process trains alone.
    """

    model: dict[str, Any]
    task: dict[str, Any]
    data: DataOrders
    micro: int
    accumulation: int
    sequence: int
    precision: str
    compile: bool
    attention: str
    activation_checkpointing: bool
    deterministic: bool
    optimizer: dict[str, Any]
    parallelism: dict[str, Any]
    seed: int
    device: str
    threads: int
    until: int
    resume: bool
    checkpoint_folder: str
    checkpoint_every: int
    checkpoint_keep: int
    checkpoint_mode: str
    checkpoint_retain: tuple[int, ...]
    hold: Hold | None
    closing: bool
    log: str
    weights: str | None = None
    group: Group | None = None

    @property
    def sharded(self) -> bool:
        """Whether no rank holds the whole state."""
        return bool(self.parallelism["strategy"] == "fsdp" or self.parallelism["tensor"] > 1)

    @property
    def draws(self) -> bool:
        """Whether this process draws the initial weights: rank 0 does for all, and nobody where a checkpoint replaces them."""
        return not self.resume and (self.group is None or self.group.rank == 0)

    def write(self, path: Path) -> None:
        """Write it where a worker will read it."""
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, path: Path) -> WorkerSpec:
        """The orders in a file."""
        told: dict[str, Any] = json.loads(path.read_text())
        stored = told["data"]
        return cls(
            **{
                **told,
                "data": DataOrders(**{**stored, "item": tuple(stored["item"])}),
                "checkpoint_retain": tuple(told["checkpoint_retain"]),
                "hold": Hold(**told["hold"]) if told["hold"] else None,
                "group": Group(**told["group"]) if told["group"] else None,
            }
        )


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


def fault_plan(workload: TrainingWorkload) -> FaultPlan | None:
    """The faulted stretch of a workload: one checkpoint interval (cut short by the end of the trial); None without a fault."""
    fault = workload.fault
    if fault is None:
        return None
    every = workload.checkpoint.every
    resume_from = fault.at_step // every * every
    inside: Literal["step", "checkpoint"] = "checkpoint" if fault.inject == "checkpoint_kill" else "step"
    return FaultPlan(resume_from, fault.at_step, min(resume_from + every, workload.steps.total), inside, fault.times)


def undisturbed(workload: TrainingWorkload, data: DataFile, folder: Path, *, device: str) -> WorkerSpec:
    """The orders of the first run: of all its ranks, before `for_rank` gives each its own."""
    fault = fault_plan(workload)
    return WorkerSpec(
        model=workload.model.model_dump(mode="json"),
        task=workload.task.model_dump(mode="json"),
        data=DataOrders(str(data.path), data.dtype, data.count, data.item, None if workload.data.source == "file" else workload.data.seed),
        micro=workload.batch.micro,
        accumulation=workload.batch.accumulation,
        sequence=workload.batch.sequence,
        precision=workload.precision,
        compile=workload.compile,
        attention=workload.attention,
        activation_checkpointing=workload.activation_checkpointing,
        deterministic=workload.deterministic,
        optimizer=workload.optimizer.model_dump(mode="json"),
        parallelism=workload.parallelism.model_dump(mode="json"),
        seed=workload.seed,
        device=device,
        threads=1,
        until=workload.steps.total,
        resume=False,
        checkpoint_folder=str(folder / "checkpoints"),
        checkpoint_every=workload.checkpoint.every,
        checkpoint_keep=workload.checkpoint.keep,
        checkpoint_mode=workload.checkpoint.mode,
        checkpoint_retain=(fault.resume_from,) if fault else (),
        hold=None,
        closing=True,
        log=str(folder / "run.steps.jsonl"),
        weights=None if data.weights is None else str(data.weights),
    )


def orders(name: RunName, workload: TrainingWorkload, data: DataFile, folder: Path, *, device: str, resume: bool) -> WorkerSpec:
    """The orders of a run by its name: every node of a job derives the same from the same trial. `resume`: from the newest checkpoint.

    The checkpoints of the faulted stretch lie in a folder of their own.
    """
    first, fault, kind = undisturbed(workload, data, folder, device=device), fault_plan(workload), kind_of(name)
    attempt = replace(first, resume=resume, log=str(folder / f"{name}.steps.jsonl"))
    if kind == "run" or fault is None:
        return attempt
    return replace(
        attempt,
        until=fault.until,
        checkpoint_folder=str(folder / "fault-checkpoints"),
        checkpoint_retain=(),
        hold=Hold(fault.kill_in, fault.inside) if kind == "fault" else None,
        closing=False,
    )


def for_rank(spec: WorkerSpec, place: Place, rank: int, threads: int, store: Address | None, name: RunName) -> WorkerSpec:
    """The orders of one rank. Rank 0 closes, and of sharded state all do.

    The last rank of node 0 is the one that holds in a step; in a checkpoint it is rank 0, which writes it.
    """
    if store is None:
        return replace(spec, threads=threads)
    local = rank - place.ranks[0]
    backend = "nccl" if spec.device == "cuda" else "gloo"
    holds = 0 if spec.hold is not None and spec.hold.inside == "checkpoint" else place.processes - 1
    return replace(
        spec,
        threads=threads,
        log=spec.log if rank == 0 else str(Path(spec.log).with_name(f"{name}.rank{rank}.steps.jsonl")),
        hold=spec.hold if rank == holds else None,
        closing=spec.closing and (rank == 0 or spec.sharded),
        group=Group(rank, place.world, local, place.nodes, backend, store.host, store.port, name),
    )
