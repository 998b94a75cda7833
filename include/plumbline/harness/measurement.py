"""What one kind of measurement hands to the harness, which turns it into the result document."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from plumbline.results import Curve, Event, FailureClass, MetricRow, Reason, Scalar, Stage, Telemetry


@dataclass(frozen=True)
class Judgement:
    """Something that makes the trial less than valid."""

    level: Literal["degraded", "invalid"]
    reason: Reason


@dataclass(frozen=True)
class EvidenceFile:
    """A raw file in the trial's working folder, ready to be stored. `rows` for Parquet."""

    kind: str
    path: Path
    rows: int | None = None


@dataclass
class Measurement:
    """Everything that was measured; parts stay empty when they do not apply."""

    metrics: list[MetricRow] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    stages: list[Stage] = field(default_factory=list)
    telemetry: list[Telemetry] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    evidence: list[EvidenceFile] = field(default_factory=list)
    facts: dict[str, Scalar] = field(default_factory=dict)
    judgements: list[Judgement] = field(default_factory=list)
    seeds: dict[str, int] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)
    guarantees: list[str] = field(default_factory=list)


class TrialFailed(Exception):
    """The trial could not be measured. What was measured until then is kept in `partial`."""

    def __init__(self, failure_class: FailureClass, detail: str, partial: Measurement | None = None) -> None:
        super().__init__(f"{failure_class}: {detail}")
        self.failure_class: FailureClass = failure_class
        self.detail = detail
        self.partial = partial or Measurement()
