"""The result of any kind of measurement, and the validity verdict over its judgements."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from plumbline import results
from plumbline.declarations import installation_paths
from plumbline.results import Reason

if TYPE_CHECKING:  # each process of a trial raises `TrialFailed`; only the harness writes a document
    import pyarrow as pa
    from numpy.typing import NDArray

    from plumbline.metrics import Phase
    from plumbline.results import Curve, Event, FailureClass, Limit, MetricRow, Scalar, Stage, Telemetry, Validity
    from plumbline.results.token_usage import TokenUsage


@dataclass(frozen=True)
class TrialJudgement:
    level: Literal["degraded", "invalid"]
    reason: Reason


def degraded(code: str, detail: str) -> TrialJudgement:
    return TrialJudgement("degraded", Reason(code=code, detail=detail))


def invalid(code: str, detail: str) -> TrialJudgement:
    return TrialJudgement("invalid", Reason(code=code, detail=detail))


def present(*judgements: TrialJudgement | None) -> list[TrialJudgement]:
    return [judgement for judgement in judgements if judgement is not None]


def telemetry_row(
    phase: Phase, signal: str, unit: str, values: Sequence[float] | NDArray[Any], p50: float | None = None, p95: float | None = None
) -> Telemetry:
    """Summary of a signal's samples, of which there is at least one."""
    import numpy as np  # not at the parse of DAG files, which plan trials

    low, mean, high = (float(summary(values)) for summary in (np.min, np.mean, np.max))
    return results.Telemetry(phase=phase, signal=signal, unit=unit, n=len(values), mean=mean, min=low, p50=p50, p95=p95, max=high)


@dataclass(frozen=True)
class EvidenceFile:
    """A raw file in the trial's working folder, ready to be stored. `rows` for Parquet."""

    kind: str
    path: Path
    rows: int | None = None

    @classmethod
    def of_table(cls, kind: str, table: pa.Table, folder: Path) -> EvidenceFile:
        """`<kind>.parquet`."""
        import pyarrow.parquet as pq  # as numpy above

        path = folder / f"{kind}.parquet"
        pq.write_table(table, path, compression="zstd")
        return cls(kind, path, table.num_rows)

    @classmethod
    def of_json(cls, kind: str, content: dict[str, Any], folder: Path) -> EvidenceFile:
        """`<kind>.json`."""
        path = folder / f"{kind}.json"
        path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        return cls(kind, path)


@dataclass
class Watched:
    """One stretch of a phase, once it is over. `own`, `foreign`: shares of the trial's cores that it and others used; None: not seen.
    `gpus`: mean of each GPU's signal, of all GPUs together, by its name."""

    own: float | None = None
    foreign: float | None = None
    gpus: Mapping[str, float] = field(default_factory=dict)


@dataclass
class Measurement:
    """Everything that was measured; parts that do not apply stay empty."""

    metrics: list[MetricRow] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    stages: list[Stage] = field(default_factory=list)
    telemetry: list[Telemetry] = field(default_factory=list)
    limits: list[Limit] = field(default_factory=list)
    usage: list[TokenUsage] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    evidence: list[EvidenceFile] = field(default_factory=list)
    facts: dict[str, Scalar] = field(default_factory=dict)
    judgements: list[TrialJudgement] = field(default_factory=list)
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


def verdict(judgements: Iterable[TrialJudgement]) -> Validity:
    """Invalid if anything says so, else degraded if anything says so, else valid. The most severe reasons come first."""
    distinct = list(dict.fromkeys(judgements))
    ordered = [item for level in ("invalid", "degraded") for item in distinct if item.level == level]
    if not ordered:
        return results.Validity(status="valid")
    return results.Validity(status=ordered[0].level, reasons=tuple(item.reason for item in ordered))


def failed_validity(failure_class: FailureClass, detail: str, judgements: Iterable[TrialJudgement] = ()) -> Validity:
    """A trial that could not be measured. What else was wrong with it may be the cause, so it is kept behind the failure."""
    others = verdict(judgements).reasons
    return results.Validity(status="failed", reasons=(Reason(code=failure_class, detail=detail), *others), failure_class=failure_class)


def scratch_folder() -> Path:
    """Where a harness makes its working folder: in the launcher's own if it started us there, because the launcher clears that even after
    SIGKILL."""
    work = installation_paths().work
    work.mkdir(parents=True, exist_ok=True)
    here = Path.cwd()
    return here if here.is_relative_to(work) else work
