"""A training script of a team's own: its command and files, how it reports its steps, and where it writes its checkpoints."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, model_validator
from typing_extensions import Self

from plumbline.declarations.base import Declared, DeclaredPattern, Name, is_archived
from plumbline.declarations.urls import DeclaredUrl
from plumbline.declarations.workloads.checkpoints import Sha256
from plumbline.declarations.workloads.models import LlamaShape, TransformerShape
from plumbline.declarations.workloads.training import Parallelism, TrainingJob, TrainingPrecision
from plumbline.formats.reading.pattern import compiled
from plumbline.formats.reading.training_log import TRAINING_LOGS
from plumbline.metrics.units import ByteSize

PATH = r"^\.?[A-Za-z0-9_][A-Za-z0-9_.-]*(/\.?[A-Za-z0-9_][A-Za-z0-9_.-]*)*$"
PathBelow = Annotated[str, Field(pattern=PATH, description="a path below the folder, such as out/logs")]
OF_HARNESS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK", "NNODES", "MASTER_ADDR", "MASTER_PORT")
"""Variables as torchrun sets them, and what a launcher of the script's own needs. The harness sets them."""
PRIVATE_FOLDER = "SCRIPTS_FOLDER"
"""The variable that names the folder with private scripts where the trial runs; the installation's own scripts/ if unset."""
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]


class FolderFiles(Declared):
    """A folder of `scripts/` beside the declarations. When declarations are read, `sha256` (of its files' names, modes and contents) and
    `content` (the files, compressed) are added, so that a trial carries them."""

    source: Literal["folder"]
    path: PathBelow
    sha256: Sha256 | None = None
    content: str | None = Field(None, repr=False)


class GitFiles(Declared):
    """A commit of a git repository, fetched where the trial runs; its folder `path` if that is given."""

    source: Literal["git"]
    url: DeclaredUrl = Field(min_length=1, description="what git clones without a password, or a path of the machine that runs the trial")
    commit: str = Field(pattern=r"^[0-9a-f]{40}$", description="the full 40 digits: a branch moves, and a series must not")
    path: PathBelow | None = None


ScriptFiles = Annotated[FolderFiles | GitFiles, Field(discriminator="source")]

FIELDS = ("step", "loss", "tokens", "samples", "seconds", "milliseconds", "data_wait")
"""What a report may hold: the step's number and loss, the work done in it, its time, and the seconds it waited for data."""


if TYPE_CHECKING:
    KnownFormat = str
else:
    KnownFormat = Literal[tuple(TRAINING_LOGS)]
"""The name of a program whose log is a registered format."""


class _Report(Declared):
    """`first`: the number of the first report; `every`: how many of the script's steps one report covers. A step of the workload is one report.

    `uneven`: reports name steps at uneven distances, as the refreshes of a progress bar do. A step of the workload is one of the script's then,
    and the steps between two reports share the time."""

    first: int = Field(0, ge=0, le=10**9)
    every: int = Field(1, ge=1, le=10**6)
    uneven: bool = False

    @model_validator(mode="after")
    def _even_or_not(self) -> Self:
        if self.uneven and self.every > 1:
            raise ValueError(f"every: {self.every} with uneven: true, whose reports say how many steps they cover; expected one of both")
        return self


class _Fields(Declared):
    """The key, column or tag that holds each value, or several joined by |, of which the first one present counts. A `step` that is not
    given is counted."""

    step: str | None = None
    loss: str | None = None
    tokens: str | None = None
    samples: str | None = None
    seconds: str | None = None
    data_wait: str | None = None


class RegexReport(_Report):
    """Lines of the output (or of `file`, below the script's folder) that match `pattern`, whose named groups are of FIELDS."""

    format: Literal["regex"]
    pattern: DeclaredPattern = Field(min_length=1, max_length=2000)
    file: PathBelow | None = None

    @model_validator(mode="after")
    def _compiles(self) -> RegexReport:
        groups = compiled(self.pattern).groups
        if unknown := sorted(set(groups) - set(FIELDS)):
            raise ValueError(f"pattern has the group {unknown[0]}; expected named groups of {', '.join(FIELDS)}, such as (?P<loss>[0-9.]+)")
        if "loss" not in groups and "step" not in groups:
            raise ValueError("pattern has neither a group step nor loss; expected such as step (?P<step>\\d+) loss (?P<loss>[0-9.]+)")
        return self


class JsonLinesReport(_Report, _Fields):
    """JSON objects, a line each, of the output or of `file`; other lines are skipped."""

    format: Literal["jsonl"]
    file: PathBelow | None = None


class CsvReport(_Report, _Fields):
    """Rows of a CSV file with a header; the newest file that the pattern `file` matches, such as logs/*/metrics.csv."""

    format: Literal["csv"]
    file: str = Field(
        pattern=r"^\.?[A-Za-z0-9_*?][A-Za-z0-9_.*?-]*(/\.?[A-Za-z0-9_*?][A-Za-z0-9_.*?-]*)*$", description="such as logs/*/metrics.csv"
    )


class TensorBoardReport(_Report, _Fields):
    """Scalars of TensorBoard event files below `folder`, by tag; step and moment of each are the files' own."""

    format: Literal["tensorboard"]
    folder: PathBelow


class ReporterReport(_Report):
    """`plumbline_report.py`, or one of its callbacks, in the script."""

    format: Literal["reporter"]


class KnownReport(_Report):
    """The log that a program writes by itself: one of TRAINING_LOGS."""

    format: KnownFormat

    @property
    def resolved(self) -> RegexReport | CsvReport:
        """The format in full."""
        return _in_full(self.format).model_copy(update={"first": self.first, "every": self.every, "uneven": self.uneven})


@cache
def _in_full(name: str) -> RegexReport | CsvReport:
    declared = TRAINING_LOGS[name].declared()
    return RegexReport.model_validate(declared) if declared["format"] == "regex" else CsvReport.model_validate(declared)


Report = Annotated[
    RegexReport | JsonLinesReport | CsvReport | TensorBoardReport | ReporterReport | KnownReport, Field(discriminator="format")
]


class ScriptCheckpoints(Declared):
    """Checkpoints appear below `folder` of the script's own; the harness sees them from their files, unless the script reports them."""

    folder: PathBelow
    every: int = Field(ge=1, description="steps of the workload between two")


DATA_VARIABLE, DATA_ARGUMENT = "PLUMBLINE_DATA", "{data}"
"""The variable, and the text in arguments, by which a command gets the path or address of its data."""
_PART = r"/(?!\.\.?(?:/|$))[^/\s?#]+"
DATA_ADDRESS = re.compile(
    rf"hub:(?P<id>[\w.-]+/[\w.-]+)@(?P<revision>[0-9a-f]{{40}})|volume:(?P<volume>[a-z0-9-]+)(?P<below>(?:{_PART})*)"
    rf"|(?P<url>(?:s3|gs|gcs|az|abfs|abfss|https?):/(?:{_PART})+)/?|(?P<folder>(?:{_PART})+)/?"
)
_ADDRESSES = "s3://bucket/folder, https://host/file, hub:owner/dataset@COMMIT (40 digits), /folder or volume:NAME/folder"


def _known(address: str) -> str:
    if DATA_ADDRESS.fullmatch(address) is None:
        raise ValueError(f'"{address}" is no address of data; expected such as {_ADDRESSES}')
    return address


DataAddress = Annotated[DeclaredUrl, AfterValidator(_known)]


class ScriptData(Declared):
    """`read` once: fetched into the trial's scratch folder before the command starts, which gets the path; stream: the command gets the address.
    Either is in the variable PLUMBLINE_DATA, and replaces {data} in the command's arguments."""

    model_config = ConfigDict(serialize_by_alias=True)

    place: DataAddress = Field(alias="from", description=f"{_ADDRESSES}; without user, password or query")
    name: Name | None = Field(None, description="by which a provider's `data_places` may name an address of its own")
    read: Literal["once", "stream"] = "once"
    sha256: Sha256 | None = Field(None, description="of the file, or of the manifest of several, as results show it; other data is refused")
    size: ByteSize | None = Field(None, description="of all files, such as 12GB: for the scratch disk and for forecasts")


_OF_SYSTEM = ("proc", "sys", "dev", "run")


def _of_image(folder: str) -> str:
    first, *more = [part for part in folder.split("/") if part] or [""]
    if (first in ("", *_OF_SYSTEM) or {".", ".."} & {first, *more}) and not is_archived():
        raise ValueError(
            f'"{folder}" would copy the whole system for each run; expected the folder with the script\'s files, such as /opt/train'
        )
    return folder


class ScriptTask(Declared):
    """`command`: started in the folder of the files for each rank, or once a node with `launches_ranks` (torchrun, accelerate launch, DeepSpeed).

    `private`: documents, evidence and messages hold hashes of files and logs, never their text."""

    kind: Literal["script"]
    command: tuple[Annotated[str, Field(min_length=1, max_length=4096)], ...] = Field(min_length=1, max_length=200)
    resume_arguments: tuple[Annotated[str, Field(min_length=1, max_length=4096)], ...] | None = Field(
        None, max_length=200, description="added to the command when it goes on from its newest checkpoint; without them it begins again"
    )
    files: ScriptFiles | None = Field(None, description="none: the image has them, and the command starts in `folder`")
    folder: Annotated[str, AfterValidator(_of_image)] | None = Field(
        None, pattern=r"^/[A-Za-z0-9_./-]*$", description="of the image, where the command starts without files; each run gets a copy of it"
    )
    image: str | None = Field(
        None,
        pattern=r"^[^\s@]+@sha256:[0-9a-f]{64}$",
        description="the pod's image, by digest, with the harness in it (k8s/images); the provider's own if omitted",
    )
    environment: dict[Variable, str] = Field(default_factory=dict, max_length=100, description="variables whose values results may show")
    launches_ranks: bool = False
    data: ScriptData | None = None
    report: Report
    checkpoints: ScriptCheckpoints | None = None
    private: bool = False

    @property
    def reported(self) -> frozenset[str] | None:
        """Which of FIELDS the format holds; None of the reporter, whose calls do."""
        report = self.report.resolved if isinstance(self.report, KnownReport) else self.report
        if isinstance(report, ReporterReport):
            return None
        if isinstance(report, RegexReport):
            return frozenset(compiled(report.pattern).groups)
        return frozenset(name for name in FIELDS if getattr(report, name, None) is not None)

    @property
    def reading(self) -> str:
        """What its steps are read from, in words."""
        report = self.report
        if isinstance(report, ReporterReport):
            return "plumbline_report.py, which the script calls"
        if isinstance(report, TensorBoardReport):
            return f"TensorBoard's event files below {report.folder}"
        where = getattr(report.resolved if isinstance(report, KnownReport) else report, "file", None) or "its output"
        what = f"lines that match {report.pattern}" if isinstance(report, RegexReport) else f"lines in {report.format}'s format"
        return f"{what}, in {where}"

    @model_validator(mode="after")
    def _consistent(self) -> ScriptTask:
        if taken := sorted(set(self.environment) & {*OF_HARNESS, DATA_VARIABLE}):
            raise ValueError(f"environment sets {taken[0]}, which the harness sets for each rank; expected it omitted")
        if self.data is not None and self.data.read == "stream" and self.data.sha256 is not None:
            raise ValueError("data.sha256 with read: stream, of which the harness sees no byte; expected read: once, or no sha256")
        if (self.files is None) != (self.folder is not None):
            raise ValueError("expected either files, or the folder of the image in which the command starts")
        return self


class Work(Declared):
    """What one step of the whole job does, and its floating-point operations: declared, or counted from a language model's shape."""

    tokens: float | None = Field(None, gt=0)
    samples: float | None = Field(None, gt=0)
    flops: float | None = Field(None, gt=0, description="forward and backward, a token, or a sample if samples are counted")
    shape: Annotated[TransformerShape | LlamaShape, Field(discriminator="architecture")] | None = None
    sequence: int | None = Field(None, ge=2, description="tokens of a sequence, which is a sample; shape.context if omitted")

    @model_validator(mode="after")
    def _consistent(self) -> Work:
        if self.tokens is not None and self.samples is not None:
            raise ValueError("names tokens and samples; expected one of them")
        if self.flops is not None and self.shape is not None:
            raise ValueError("names flops and shape; expected one of them")
        if self.sequence is not None and self.sequence > (self.shape.context if self.shape else 0):
            raise ValueError(
                f"sequence {self.sequence} {'beyond shape.context' if self.shape else 'without shape'}; expected a shape that holds it"
            )
        return self


class ScriptWorkload(TrainingJob):
    """A file under `include/config/workloads/training/` whose `task.kind` is script. Its steps are counted in reports (see `report.every`)."""

    task: ScriptTask
    work: Work = Work()
    precision: TrainingPrecision | None = Field(None, description="of matrix products: which published peak the work is compared with")

    @model_validator(mode="after")
    def _consistent(self) -> ScriptWorkload:
        if self.parallelism != Parallelism(nodes=self.parallelism.nodes, processes=self.parallelism.processes):
            raise ValueError("parallelism of a script has nodes and processes alone; expected how the work is spread in its own arguments")
        if self.fault is not None and self.task.resume_arguments is None:
            raise ValueError(
                "fault without task.resume_arguments; expected what makes the command go on from its newest checkpoint, [] if nothing"
            )
        if self.fault is not None and self.fault.inject == "checkpoint_kill":
            raise ValueError(
                "fault.inject checkpoint_kill for a script, whose checkpoint the harness cannot hold; expected rank_kill or group_kill"
            )
        if (message := self.misfit_of_fault(self.checkpoint_every) or self.misfit_of_processes()) is not None:
            raise ValueError(message)
        return self

    @property
    def work_per_step(self) -> tuple[Literal["tokens", "samples"], float | None]:
        """See TrainingJob; None if the script reports it, or says nothing."""
        samples = self.work.samples is not None or (self.work.tokens is None and "samples" in (self.task.reported or ()))
        return ("samples", self.work.samples) if samples else ("tokens", self.work.tokens)

    @property
    def counts_work(self) -> bool:
        """Whether tokens or samples are declared, or in each report."""
        return self.work_per_step[1] is not None or bool({"tokens", "samples"} & (self.task.reported or frozenset()))

    @property
    def own_image(self) -> str | None:
        """See Workload."""
        return self.task.image

    @property
    def folder_variable(self) -> str | None:
        """See Workload."""
        return PRIVATE_FOLDER if self.task.private and isinstance(self.task.files, FolderFiles) else None

    @property
    def checkpoint_every(self) -> int | None:
        """See Workload."""
        return self.task.checkpoints.every if self.task.checkpoints is not None else None

    @property
    def private(self) -> bool:
        """See TrainingJob."""
        return self.task.private

    @property
    def repeats_losses(self) -> bool:
        """See TrainingJob; only a script that says so repeats its losses at all."""
        return self.deterministic

    @property
    def task_kind(self) -> str:
        """See Workload."""
        return self.task.kind

    @property
    def number_format(self) -> str | None:
        """See Workload."""
        return self.precision

    @property
    def reads_steps_from(self) -> str:
        """See Workload."""
        return self.task.reading

    @property
    def started_processes(self) -> int:
        """See TrainingJob."""
        return 1 if self.task.launches_ranks else self.parallelism.processes
