"""The speed of a workload: half of its repeats reach it, as its median does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from plumbline.declarations.base import Name
from plumbline.declarations.promises.judging.evidence import PromiseEvidence, SharedTerms
from plumbline.declarations.promises.judging.promise import JudgedPromise, Place, Promise, register
from plumbline.declarations.promises.judging.row import PromiseRow, format_needed
from plumbline.declarations.promises.judging.share import PromisedShare, judge_share
from plumbline.declarations.workloads.workload import Criterion, measured_by_trials
from plumbline.judgement import Judgement, is_measured, judges
from plumbline.metrics.formatting import common_scale, format_name
from plumbline.metrics.pooling import PooledMetric, pool_measurements
from plumbline.metrics.proportions import CONFIDENCE, wilson_interval

_MEDIAN = 0.5
_EXAMPLE = "by workload a limit on one of its numbers, such as 'tokens_per_second >= 9000tokens/s in steady'"


@register
class SpeedFloors(Promise[dict[str, Criterion]]):
    id = "speed_floors"
    fields: ClassVar = {
        "speed_floors": (
            dict[Name, Annotated[Criterion, AfterValidator(measured_by_trials)]],
            Field(default_factory=dict, description=_EXAMPLE),
        ),
    }
    order = 80
    noun = "speed"
    claimed_with = "performance"

    @classmethod
    def floors(cls, terms: SharedTerms) -> dict[str, Criterion]:
        """The promised limits by workload."""
        return cls.promised(terms) or {}

    def declared(self, terms: SharedTerms) -> list[str]:
        return [f"{self.noun} of {workload}" for workload in sorted(self.floors(terms))]

    def workloads(self, terms: SharedTerms) -> list[tuple[Place, str]]:
        return [((self.id, workload), workload) for workload in self.floors(terms)]

    def judge(self, terms: SharedTerms, seen: PromiseEvidence) -> Iterator[JudgedPromise]:
        for workload, floor in sorted(self.floors(terms).items()):
            row = speed_row(judge_speed(workload, floor, seen.repeats(workload, floor)))
            yield JudgedPromise(self, row, "repeats", terms.credit, workload=workload)


@dataclass(frozen=True)
class SpeedFloor:
    """A promised speed of one workload. `measured`: median and interval over repeats; `reached`: the repeats that meet the limit, of which a
    promise about the median needs half."""

    workload: str
    criterion: Criterion
    measured: PooledMetric
    reached: PromisedShare

    @property
    def judgement(self) -> Judgement:
        return self.reached.judgement


@judges("promised speed")
def judge_speed(workload: str, criterion: Criterion, measurements: Sequence[tuple[str, float]]) -> SpeedFloor:
    """Judge a promised speed by repeats (trial id, value in the metric's unit). What is no measurement counts neither for nor against it."""
    share = criterion.known.unit == "ratio"  # of which 0 is a measurement
    usable = [(trial, value) for trial, value in measurements if is_measured(value) or (share and value == 0)]
    reached = judge_share(wilson_interval(sum(criterion.met_by(value) for _, value in usable), len(usable)), _MEDIAN)
    return SpeedFloor(workload, criterion, pool_measurements(criterion.metric, usable, "not measured in any usable trial"), reached)


def speed_row(speed: SpeedFloor) -> PromiseRow:
    """The median speed of a workload, with the interval over its repeats."""
    measured, criterion = speed.measured, speed.criterion
    scale = common_scale(criterion.known.unit, [criterion.limit, measured.value], measured.metric)
    statistic = "" if criterion.statistic == criterion.known.statistic else f" {criterion.statistic}"
    return PromiseRow(
        name=f"{format_name(measured.metric)}{statistic} of {speed.workload}",
        promised=f"{'at least' if criterion.op == '>=' else 'at most'} {scale.text(criterion.limit)}",
        measured=measured.reason or f"median {scale.text(measured.value)}, {speed.reached.share.successes} of {measured.n} repeats meet it",
        interval="" if (measured.coverage or 0.0) < CONFIDENCE else scale.interval(measured.low, measured.high),
        needed=format_needed(speed.reached, "repeat", "miss"),
        tries=speed.reached,
        witness="our own trials: the operations log has no speeds",
    )
