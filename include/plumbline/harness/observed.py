"""What the watches of a trial's earlier pods saw, for the watch of the pod that ends it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from plumbline.declarations import ValidityLimits
from plumbline.declarations.phases import Phase
from plumbline.harness.gpu_phases import GpuPhases
from plumbline.harness.measurement import Judgement
from plumbline.harness.watch import Watch
from plumbline.results import MetricRow, Reason, Telemetry

OBSERVED = "observed"
"""Under which name it is kept for the next pod."""


@dataclass(frozen=True)
class Observed:
    """Telemetry of all phases; of the steady one what the GPUs drew and what makes it less than valid."""

    telemetry: tuple[Telemetry, ...]
    gpu_rows: tuple[MetricRow, ...]
    judgements: tuple[Judgement, ...]

    @classmethod
    def of(cls, watch: Watch, limits: ValidityLimits) -> Observed:
        """What a watch has seen so far."""
        return cls(tuple(watch.telemetry()), tuple(watch.gpu_rows()), (*watch.judgements(limits), *watch.gpu_errors()))

    def row(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "telemetry": [row.model_dump(mode="json") for row in self.telemetry],
            "gpu_rows": [row.model_dump(mode="json") for row in self.gpu_rows],
            "judgements": [{"level": each.level, **each.reason.model_dump(mode="json")} for each in self.judgements],
        }

    @classmethod
    def read(cls, row: dict[str, Any]) -> Observed:
        """What `row` made."""
        return cls(
            tuple(Telemetry(**each) for each in row["telemetry"]),
            tuple(MetricRow(**each) for each in row["gpu_rows"]),
            tuple(Judgement(each["level"], Reason(code=each["code"], detail=each["detail"])) for each in row["judgements"]),
        )


class ContinuedWatch(Watch):
    """A watch that goes on from what was observed in earlier pods: steady state was theirs, the recovery is both's."""

    def __init__(self, cpus: Sequence[int], promised: int | None, gpus: GpuPhases | None, earlier: Observed) -> None:
        super().__init__(cpus, promised, gpus=gpus)
        self._earlier = earlier

    def telemetry(self) -> list[Telemetry]:
        """Of all pods; where several saw a signal in the same phase, weighted by how often each looked."""
        found = {(row.phase, row.signal): row for row in self._earlier.telemetry}
        for row in super().telemetry():
            key = row.phase, row.signal
            found[key] = _together(found[key], row) if key in found else row
        return list(found.values())

    def gpu_rows(self, phase: Phase = "steady") -> list[MetricRow]:
        """Of the pod in which the phase was."""
        return list(self._earlier.gpu_rows) if phase == "steady" else super().gpu_rows(phase)

    def judgements(self, limits: ValidityLimits, phase: Phase = "steady") -> list[Judgement]:
        """Of the pod in which the phase was."""
        return list(self._earlier.judgements) if phase == "steady" else super().judgements(limits, phase)


def _together(one: Telemetry, other: Telemetry) -> Telemetry:
    n = one.n + other.n
    return one.model_copy(
        update={
            "n": n,
            "mean": (one.mean * one.n + other.mean * other.n) / n,
            "min": min(one.min, other.min),
            "p95": None,
            "max": max(one.max, other.max),
        }
    )
