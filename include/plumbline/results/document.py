"""The result document of one attempt of a trial. Its JSON Schema: `schema.py`."""

from __future__ import annotations

import hashlib
import math
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from plumbline.declarations import Trial, canonical, digest
from plumbline.metrics import Phase
from plumbline.metrics.rows import Count, Curve, Many, MetricRow, Part, Reason, Scalar, Text, check_names, without_nul
from plumbline.results.check_line import CheckLine
from plumbline.results.failure_class import FailureClass
from plumbline.results.gpu_counter import GpuCounter, Large
from plumbline.results.limit import Limit
from plumbline.results.token_usage import TokenUsage

SCHEMA_VERSION = 1

Status = Literal["valid", "degraded", "invalid", "failed", "missing"]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Ed25519Key = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="the 32 raw bytes")]

FAILED_AS_DECLARED = "failed_as_declared"
"""Code of the reason beside a failure that the workload itself declares: it says nothing of the provider."""


class Validity(Part):
    """Whether the trial's numbers count; judged before any score."""

    status: Status
    reasons: Many[Reason] = ()
    failure_class: FailureClass | None = None

    @model_validator(mode="after")
    def _complete(self) -> Validity:
        if (self.status == "failed") != (self.failure_class is not None):
            raise ValueError(
                f"status {self.status} with failure_class {self.failure_class}; expected a class exactly when the trial failed"
            )
        if self.status != "valid" and not self.reasons:
            raise ValueError(f"status {self.status} without a reason; expected at least one")
        return self


CONTENTION = frozenset({"contended_cpu", "cpu_pressure"})
"""Reason codes of other load on the trial's cores."""
NO_SCALE_OUT = "no_scale_out"
"""Reason code of a service that was not back within its SLO after its load stepped up."""
MACHINE_BUSY = "machine_busy"
"""Reason code of the quality checks for attempts spoilt by other load on this machine."""
JUDGED_PHASES: tuple[Phase, ...] = ("steady", "sweep")
"""Phases that decisions use, in which other load counts."""


class Event(Part):
    """A moment of the trial: wall clock for people, monotonic seconds for arithmetic (comparable only within one `clock`)."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$", examples=["server_ready"])
    utc: AwareDatetime
    monotonic_s: float | None = None
    clock: Literal["harness", "launcher", "cluster"] = "harness"


StageSource = Literal["client", "response", "metrics", "triton"]


class Stage(Part):
    """Where the time of a phase went: total seconds spent in one stage over `n` occurrences."""

    phase: Phase
    stage: str = Field(pattern=r"^[a-z][a-z0-9_]*$", examples=["forward", "queue"])
    total_s: float = Field(ge=0)
    n: Count
    source: StageSource | None = Field(
        None,
        description="of an inference stage, who measured it. client: the load generator; response: the engine, with each answer; metrics: totals "
        "of the server's metrics page; triton: Triton's statistics",
    )


class Telemetry(Part):
    """Summary of one signal that was sampled beside the measurement."""

    phase: Phase
    signal: str = Field(examples=["cpu_pressure_some", "gpu0_sm_clock"])
    unit: str
    n: Annotated[Count, Field(ge=1)]
    mean: float
    min: float
    p50: float | None = Field(None, description="of a distribution of which every value is known, such as lengths in tokens")
    p95: float | None = Field(None, description="None if single samples were not kept")
    max: float


class OtherProgram(Part):
    """A program outside the trial that computed beside it. `cores`: CPU seconds a second, on any core of the machine."""

    name: str
    cores: float = Field(ge=0)


class Evidence(Part):
    """A raw file behind the numbers. `uri` is relative to the document."""

    kind: str = Field(pattern=r"^[a-z][a-z0-9_]*$", examples=["requests", "steps", "log"])
    uri: str = Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$", examples=["evidence/steps.parquet"])
    sha256: Sha256
    bytes: Large
    rows: Large | None = None


class Environment(Part):
    """Everything that could explain a change and is not the workload: flat, sorted, hashed."""

    facts: dict[Text, Scalar]
    environment_hash: Sha256

    @field_validator("facts")
    @classmethod
    def _sorted(cls, value: dict[str, Scalar]) -> dict[str, Scalar]:
        for key, fact in value.items():
            if isinstance(fact, float) and not math.isfinite(fact):
                raise ValueError(f"{key} is {fact}; expected a finite number or null")
        return dict(sorted(value.items()))

    @model_validator(mode="after")
    def _hash_holds(self) -> Environment:
        if self.environment_hash != digest(self.facts):
            raise ValueError("environment_hash does not match the facts")
        return self

    @classmethod
    def of(cls, facts: dict[str, Scalar]) -> Environment:
        cleaned = {without_nul(key): without_nul(fact) if isinstance(fact, str) else fact for key, fact in facts.items()}
        return cls(facts=cleaned, environment_hash=digest(dict(sorted(cleaned.items()))))


class Reproducibility(Part):
    """Seeds, hashes and the command that repeat the trial."""

    seeds: dict[str, int]
    hashes: dict[str, str] = Field(description="of the data set, prompts, model, arrival schedule")
    replay_command: str = Field(description="as the harness wrote it; what is shown is computed from the trial's id")
    guarantees: Many[str] = Field((), description="which repeatability held, such as bitwise_losses")


class Notice(Part):
    """An event that the cluster's own components wrote about a pod. Clusters forget them after an hour or so."""

    utc: AwareDatetime
    kind: Literal["Normal", "Warning"]
    reason: str = Field(examples=["FailedScheduling"])
    message: Text
    count: Annotated[Count, Field(ge=1)] = 1


class PodRecord(Part):
    """One pod of a launch, by its rank, as the cluster's API showed it until the end."""

    name: str
    rank: int = Field(ge=0)
    uid: str | None = None
    node: str | None = None
    facts: dict[str, Scalar] = Field(
        default_factory=dict, description="node labels and versions, image id, image_cached, image_bytes, QoS…"
    )
    events: Many[Event] = Field(
        (), description="requested, admitted, scheduled, image_pulling, image_pulled, started, ready, finished, deleted"
    )
    notices: Many[Notice] = ()
    exit_code: int | None = None
    reason: str | None = Field(None, description="why it ended or waits, as the cluster says: OOMKilled, Evicted, ImagePullBackOff…")


class ReplicaCount(Part):
    """Replicas of a server that scales, from this moment on. `at`: Unix seconds, by the launcher's clock."""

    at: float = Field(ge=0)
    ready: Count
    wanted: Count


class LaunchRecord(Part):
    """The launcher's observations; written beside the document, also without one."""

    launcher: str = Field(
        pattern=r"^[a-z][a-z0-9_-]*$", description="the kind of launcher", examples=["local", "kubernetes", "endpoint", "simulated"]
    )
    events: Many[Event]
    exit_code: int | None = None
    failure_class: FailureClass | None = None
    failure_detail: Text | None = None
    node: dict[str, Scalar] = Field(default_factory=dict, description="what the launcher knows of the place: host, node labels")
    log_tail: Text = Field("", description="the last lines of the trial's log")
    pods: Many[PodRecord] = Field((), description="of a kubernetes launch, ordered by rank")
    replicas: Many[ReplicaCount] = Field((), description="added by collect: each change that replicas.jsonl has, in the order of time")


class Signature(Part):
    """The pod's signature by its one-time key over `ResultDocument.signed_bytes`, which name each evidence file with its SHA-256."""

    algorithm: Literal["ed25519"] = "ed25519"
    value: str = Field(pattern=r"^[0-9a-f]{128}$")
    public_key: Ed25519Key | None = Field(None, description="added by collect: the key that the launcher issued, as the archive stores it")
    validity: Validity | None = Field(None, description="as it was signed, where the launcher knew a better failure class")
    attempt: int | None = Field(None, ge=1, description="as it was signed, where a correction recorded the document as a later attempt")


class _Content(Part):
    """Everything in the document but its checksum."""

    schema_version: Literal[1] = 1
    trial: Trial
    harness_version: str
    environment: Environment | None = Field(None, description="None only if the trial failed before it could look around")
    reproducibility: Reproducibility | None = None
    timeline: Many[Event] = ()
    validity: Validity
    metrics: Many[MetricRow] = ()
    curves: Many[Curve] = ()
    stages: Many[Stage] = ()
    limits: Many[Limit] = Field((), description="what limited the highest rate of a search, or the step of training")
    telemetry: Many[Telemetry] = ()
    other_programs: Many[OtherProgram] = Field((), description="outside the trial, busiest first, in its steady phase and its sweep")
    usage: Many[TokenUsage] = ()
    gpu_health: Many[GpuCounter] = ()
    gpu_serials: Many[Text] = Field((), description="of the node of rank 0, in the order of `gpu.<i>`; empty text where unknown")
    selfcheck: Many[CheckLine] = Field((), description="of the first trial that a plan has on each provider")
    evidence: Many[Evidence] = ()
    launch: LaunchRecord | None = Field(None, description="added by collect; not part of what the harness signed")
    simulated: bool = False
    signature: Signature | None = Field(
        None, description="of a trial whose launcher gave its pod a key; covers all but itself, checksum, launch"
    )

    @field_validator("metrics")
    @classmethod
    def _of_the_workload(cls, rows: tuple[MetricRow, ...], info: ValidationInfo) -> tuple[MetricRow, ...]:
        trial = info.data.get("trial")  # absent: reported for the trial
        return rows if trial is None else check_names(rows, trial.workload.catalogue)

    @property
    def replay(self) -> str | None:
        """The command that repeats the trial; None if it failed too early. Computed: the document's own could name any command."""
        return f"plumbline replay {self.trial.trial_id}" if self.reproducibility else None

    def content(self) -> bytes:
        """The document as canonical JSON without `checksum`, `signature` and `launch`, which are added to it.

        Fields at their default are left out, so that a field added later does not break the checksum of what was archived before.
        """
        return canonical(self.model_dump(mode="json", exclude={"checksum", "launch", "signature"}, exclude_defaults=True))

    def content_hash(self) -> str:
        return hashlib.sha256(self.content()).hexdigest()


class ResultDocument(_Content):
    """Written last and atomically, after all evidence. `checksum` covers every other field but `launch` and `signature`."""

    checksum: Sha256

    @model_validator(mode="after")
    def _intact(self) -> ResultDocument:
        if self.checksum != self.content_hash():
            raise PydanticCustomError(
                "checksum_mismatch",
                "checksum is {stored}, but the content hashes to {computed}; the document was changed or cut short",
                {"stored": self.checksum, "computed": self.content_hash()},
            )
        if self.trial.provider.simulated and not self.simulated:
            raise ValueError(
                f"the provider {self.trial.provider.name} is simulated and the document does not say so; expected simulated: true"
            )
        if self.validity.status in ("valid", "degraded") and self.environment is None:
            raise ValueError(f"a {self.validity.status} trial without an environment; expected the facts it was measured under")
        return self

    @classmethod
    def sealed(cls, **fields: Any) -> ResultDocument:
        return cls(**fields, checksum=_Content(**fields).content_hash())

    def with_launch(self, record: LaunchRecord) -> ResultDocument:
        return self.model_copy(update={"launch": record})

    def signed_bytes(self) -> bytes:
        """The signed bytes: `content` with the validity and the attempt at the time of signing."""
        changed: dict[str, Any] = {}
        if self.signature is not None and self.signature.validity is not None:
            changed["validity"] = self.signature.validity
        if self.signature is not None and self.signature.attempt is not None:
            changed["trial"] = self.trial.model_copy(update={"attempt": self.signature.attempt})
        return (self.model_copy(update=changed) if changed else self).content()

    @property
    def contended(self) -> bool:
        """Whether other load on its cores made the trial less than valid."""
        return any(reason.code in CONTENTION for reason in self.validity.reasons)

    @property
    def foreign_cpu(self) -> float:
        """The share of its cores that others used in the worst judged phase; 0 if it was not measured."""
        return max((t.mean for t in self.telemetry if t.signal == "foreign_cpu" and t.phase in JUDGED_PHASES), default=0.0)

    def value(self, metric: str, statistic: str | None = None, phase: str = "steady") -> float | None:
        """One measured number, or None if it is absent."""
        wanted = statistic or self.trial.workload.catalogue[metric].statistic
        return next((r.value for r in self.metrics if (r.metric, r.statistic, r.phase) == (metric, wanted, phase)), None)


class HeldPart(BaseModel):
    """A trial's times and token counts, read from its document without numbers and checksum in a tenth of the time."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    trial: Trial
    timeline: Many[Event] = ()
    usage: Many[TokenUsage] = ()
    launch: LaunchRecord | None = None
