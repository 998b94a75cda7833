"""The protocol between the harness and a worker process: the specification, exit codes, and the step log. Standard library only: the worker's start-up is measured."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from pathlib import Path
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypedDict, get_args

from plumbline.harness.training.log_seal import ForgedLog, LogSeal

if TYPE_CHECKING:
    from typing_extensions import Self

StageName = Literal["data_wait", "host_to_device", "generation", "forward", "backward", "gradient_sync", "optimizer"]

STAGES: tuple[StageName, ...] = ("data_wait", "host_to_device", "generation", "forward", "backward", "gradient_sync", "optimizer")
"""data_wait: until the batch was at hand. generation: answers of reinforcement learning. gradient_sync: other ranks, waited for once
this rank's own gradients were there; not part of backward."""


RunKind = Literal["run", "fault", "recovery"]
RunName = str
"""A run's kind, with the number of the attempt from the second on: `fault`, `fault-2`."""


class ExitCode(IntEnum):
    """A worker's own exit codes, which report the cause even on a full disk."""

    OUT_OF_MEMORY = 64
    DISK_FULL = 65
    NO_DEVICE = 66
    NOTHING_TO_RESUME = 67
    DAMAGED_DATA = 68
    LOST_A_PEER = 69
    UNSUPPORTED = 70
    NOT_DETERMINISTIC = 71
    DEVICE_FAILED = 72
    IMAGE_INCOMPLETE = 73
    SCRIPT_FAILED = 74
    STEPS_MISREPORTED = 75
    NOT_STARTED = 76


class WorkerError(Exception):
    """An error that ends a worker with an exit code of its own; the message is the last line on its standard error."""

    exit_code: ClassVar[ExitCode]


def attempt_name(kind: RunKind, attempt: int) -> RunName:
    """The name of an attempt, counted from 1."""
    return kind if attempt == 1 else f"{kind}-{attempt}"


def run_kind(name: RunName) -> RunKind:
    """The kind of a run by its name; ValueError for an invalid name."""
    kind = name.partition("-")[0]
    for known in get_args(RunKind):
        if kind == known:
            return known  # type: ignore[no-any-return]
    raise ValueError(f"{name!r} is not a run's name; expected, with an optional number, one of {', '.join(get_args(RunKind))}")


@dataclass(frozen=True)
class ProcessGroupSpec:
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
class DataSpec:
    """A data file to read: `count` items of shape `item` and little-endian type `dtype`, generated from `seed` (None: a team's own)."""

    path: str
    dtype: str
    count: int
    item: tuple[int, ...] = ()
    seed: int | None = None


@dataclass(frozen=True)
class HoldPoint:
    """Where the run reports itself and waits for its end: in the middle of a step, or of the checkpoint after it."""

    step: int
    inside: Literal["step", "checkpoint"] = "step"


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """Any worker's orders for a run, as JSON in a file. Steps are counted from 0; `until` is the first one not to do.

    `module`: what `python -m` starts. `group` is None where one process trains alone."""

    module: ClassVar[str]
    device: str
    threads: int = 1
    until: int
    resume: bool
    checkpoint_folder: str = ""
    hold: HoldPoint | None = None
    closing: bool = False
    log: str
    end_by_ns: int | None = None
    """When (this machine's monotonic clock) checks must not begin any more, or the trial would exceed its time limit; None without one."""
    group: ProcessGroupSpec | None = None

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, path: Path) -> Self:
        fields: dict[str, Any] = json.loads(path.read_text())
        hold, group = fields["hold"], fields["group"]
        fields["hold"] = HoldPoint(**hold) if hold else None
        fields["group"] = ProcessGroupSpec(**group) if group else None
        for name, value in fields.items():
            fields[name] = tuple(value) if isinstance(value, list) else value
        return cls(**fields)


@dataclass(frozen=True, kw_only=True)
class WorkerSpec(RunSpec):
    """The orders of a worker of our own loop.

    `model`, `task`, `optimizer`, `parallelism`: as declared. `weights`: where stored initial weights lie.
    `verified_loads`: how often the newest checkpoint is loaded after the last step; `checkpoint_load_time` is the median."""

    module = "plumbline.harness.training.worker"
    model: dict[str, Any]
    task: dict[str, Any]
    data: DataSpec
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
    checkpoint_every: int
    checkpoint_keep: int
    checkpoint_mode: str
    checkpoint_retain: tuple[int, ...]
    verified_loads: int
    weights: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.data, dict):  # as the file has it
            object.__setattr__(self, "data", DataSpec(**{**self.data, "item": tuple(self.data["item"])}))

    @property
    def sharded(self) -> bool:
        return bool(self.parallelism["strategy"] == "fsdp" or self.parallelism["tensor"] > 1)

    @property
    def draws(self) -> bool:
        """Rank 0 draws for all; nothing is drawn where a checkpoint replaces the weights."""
        return not self.resume and (self.group is None or self.group.rank == 0)


@dataclass(frozen=True, kw_only=True)
class ScriptSpec(RunSpec):
    """The orders of the process that runs a team's command in `folder`.

    `report`: as declared. `base`: the first step of a run that resumes, for reports without numbers. Without checkpoints their
    folder (of the script's own) is empty and `checkpoint_every` None. `launches_ranks`: once a node. `private`: its output is in no message."""

    module = "plumbline.harness.training.script"
    command: tuple[str, ...]
    folder: str
    environment: dict[str, str]
    report: dict[str, Any]
    base: int = 0
    checkpoint_every: int | None = None
    launches_ranks: bool
    private: bool
    stepless: bool = False
    """Whether it is done when the command ends; of several nodes, that of node 0."""
    wanted: str = ""
    """A regular expression of the lines of its output that are kept however long it is."""
    events: str = ""
    """A file that gets what the reporter says, in place of the worker, which then reads none of it."""
    given: tuple[str, ...] = ()
    """Variables that the provider declares for the command, which it gets whatever they are called."""
    home: str = ""
    """Of the command alone, made for it; empty in a pod, which has its own."""


LogLine = dict[str, Any]


class StepLog:
    """Appends lines, sealed if a key is given. Opened for appending and unbuffered: each line reaches the kernel whole before the call returns."""

    def __init__(self, path: Path, key: bytes | None = None) -> None:
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._seal = None if key is None else LogSeal(path, key)

    def event(self, name: str, **more: Any) -> None:
        self.line({"event": name, "ns": monotonic_ns(), **more})

    def line(self, line: LogLine) -> None:
        """Append one line as it is. OSError if the disk is full."""
        data = json.dumps(line).encode()
        data = (data if self._seal is None else self._seal.seal(data)) + b"\n"
        written = os.write(self._handle, data)
        if written < len(data):  # what still fitted on a full disk; the rest raises ENOSPC
            os.write(self._handle, data[written:])


class LogTail:
    """Reads a log as it grows. `key`: of a sealed one, whose lines count only if its worker wrote them."""

    def __init__(self, path: Path, key: bytes | None = None) -> None:
        self._path = path
        self._offset = 0
        self._seal = None if key is None else LogSeal(path, key)

    def new(self) -> list[LogLine]:
        """Complete lines only; one that is still being written (or was cut by a kill) is left for later. ForgedLog if a sealed log was written
        to, cut or removed by another program."""
        try:
            with self._path.open("rb") as file:
                if self._seal is not None and os.fstat(file.fileno()).st_size < self._offset:
                    raise ForgedLog(self._seal.problem(f"{self._path.name} was cut"))
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            if self._seal is not None and self._offset:
                raise ForgedLog(self._seal.problem(f"{self._path.name} was removed")) from None
            return []
        whole = data[: data.rfind(b"\n") + 1]
        lines = whole.split(b"\n")[:-1]
        opened = lines if self._seal is None else [self._seal.opened(line) for line in lines]
        self._offset += len(whole)
        return [json.loads(line) for line in opened]


class ScriptReports(TypedDict, total=False):
    """Reports of a script in all, those that came in bursts, those without a number, and the progress bar at the first and last of these."""

    all: int
    in_bursts: int
    counted: int
    bar: tuple[int | None, int | None]


@dataclass(frozen=True)
class Step:
    """One step that was done. Times in seconds; `start_s` and `end_s` on the shared monotonic clock. `stages` leave out bookkeeping.

    Of a script: its loss, and the tokens or samples of the whole job's step, if it reports them; `other_s`: the step's time by the second
    source, where the script reports times and the harness sees them; `timed`: False if it arrived with others before anything was seen."""

    step: int
    start_s: float
    end_s: float
    stages: Mapping[StageName, float]
    loss: float | None
    work: float | None = None
    other_s: float | None = None
    timed: bool = True

    @property
    def step_s(self) -> float:
        return self.end_s - self.start_s


@dataclass(frozen=True)
class CheckpointSave:
    """One checkpoint: after how many steps, durable at `end_s` after `save_s`, training held up for `blocking_s`. `closing`: after the last
    step. `checksum_s`: the further pause for this harness's own checksum, not included in the other times."""

    step: int
    end_s: float
    save_s: float
    blocking_s: float
    bytes: int
    closing: bool
    checksum_s: float = 0.0


@dataclass
class RunRecord:
    """The log of the worker of rank 0. `at` holds the moment (seconds) of each unique event.

    `compiled_s`: each duration of the compiler. `skipped`: steps that left the weights alone after an fp16 overflow.
    `peak_memory`: bytes, see `device.peak_memory`; of several ranks the highest.
    Of several ranks, `by_rank` holds each one's steps after the run, and `steps` the job's (see `merge_ranks`); `silent`: the ranks of a script
    that reported none. `first_start_known`: whether a script's first step has a beginning, or one as long before its end as the second took.
    `overhead_s`: of this harness before it starts a script's command.
    `reports`: of a script, once it has done its steps.
    `saves_reported`: by the script, or seen from its files. `variables`: names of those that it saw. `outside`: files that it left elsewhere."""

    launched_s: float
    at: dict[str, float] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    by_rank: dict[int, list[Step]] = field(default_factory=dict)
    saves: list[CheckpointSave] = field(default_factory=list)
    verified_loads_s: list[float] = field(default_factory=list)
    restored_exactly: bool | None = None
    rejected: list[str] = field(default_factory=list)
    load_checksum_s: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)
    matmul_flops: float | None = None
    weights_sha256: str | None = None
    weights_load_s: float | None = None
    compiled_s: list[float] = field(default_factory=list)
    skipped: list[int] = field(default_factory=list)
    peak_memory: dict[str, int] = field(default_factory=dict)
    silent: list[int] = field(default_factory=list)
    first_start_known: bool = True
    overhead_s: float = 0.0
    reports: ScriptReports = field(default_factory=lambda: ScriptReports())
    saves_reported: bool = False
    variables: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)

    def add(self, line: LogLine) -> None:
        name, at = str(line["event"]), line["ns"] / 1e9
        if name == "step":
            stages: dict[StageName, float] = {name: spent / 1e9 for name, spent in line["stages"].items()}
            more = line.get("work"), line.get("other_s"), line.get("timed", True)
            step = Step(line["step"], line["start"] / 1e9, at, stages, line["loss"], *more)
            self.steps.append(step)
            if line.get("skipped"):
                self.skipped.append(line["step"])
        elif name == "launched":  # the harness's own process began earlier
            self.overhead_s, self.launched_s = at - self.launched_s if self.launched_s else 0.0, at
        elif name == "compiled":
            self.compiled_s.append(line["seconds"])
        elif name == "checkpoint":
            seconds = line["blocking"] / 1e9
            durable = at - line["checksum_s"]
            self.saves_reported |= line.get("reported", False)
            self.saves.append(
                CheckpointSave(line["step"], durable, line["save_s"], seconds, line["bytes"], line["closing"], line["summing"] / 1e9)
            )
        elif name == "verified_load":
            self.verified_loads_s.append(line["seconds"])
            self.restored_exactly = line["equal"] and self.restored_exactly is not False
            page_cache_kept = not line["cold"] or self.facts.get("checkpoint.page_cache") == "kept"
            self.facts["checkpoint.page_cache"] = "kept" if page_cache_kept else "dropped"
        else:
            self.at[name] = at
            for key, attribute in _RECORDED.get(name, {}).items():
                setattr(self, attribute, line[key])


_RECORDED = {
    "load_end": {"rejected": "rejected", "checksum_s": "load_checksum_s"},
    "ready": {"facts": "facts"},
    "matmul": {"flops": "matmul_flops"},
    "memory": {"peak": "peak_memory"},
    "weights_loaded": {"seconds": "weights_load_s"},
    "weights": {"sha256": "weights_sha256"},
    "variables": {"names": "variables"},
    "outside": {"paths": "outside"},
    "reports": {"seen": "reports"},
    "first_start_guessed": {"known": "first_start_known"},
}
"""Event → field of its line → attribute of RunRecord."""
