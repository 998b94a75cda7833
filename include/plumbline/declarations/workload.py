"""What training and inference workloads share: repeats, slots, acceptance criteria, drift thresholds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from plumbline.declarations.base import Declared, Name
from plumbline.declarations.criteria import Criterion, contradiction
from plumbline.declarations.metrics import metric
from plumbline.declarations.primary import Primary
from plumbline.declarations.units import Percent

if TYPE_CHECKING:
    from typing_extensions import Self

Slot = Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$", description='a time of day in UTC, such as "02:00"')]
Seed = Annotated[int, Field(ge=0, lt=2**63)]


class Needs(Declared):
    """Which providers can run the workload."""

    accelerator: Literal["cpu", "gpu", "nvidia", "amd"] = Field(description="gpu: NVIDIA's or AMD's")
    count: int = Field(1, ge=1, le=1024, description="accelerators (or cores) a trial needs at least")
    whole_node: bool = Field(False, description="only providers whose nodes have exactly `count`: one workload for each size of node")


class Repeats(Declared):
    """How often a campaign measures the workload on each provider: `per_slot` trials in each of `slots` (UTC)."""

    per_slot: int = Field(ge=1, le=50)
    slots: tuple[Slot, ...] = Field(min_length=1, max_length=24)

    @model_validator(mode="after")
    def _distinct(self) -> Repeats:
        if len(set(self.slots)) != len(self.slots):
            raise ValueError(f"slots {list(self.slots)} names a time twice; expected distinct times of day")
        return self


class DriftLimits(Declared):
    """From which relative change on a difference matters: `warn` tells people, `page` wakes them."""

    warn: Percent
    page: Percent

    @model_validator(mode="after")
    def _ordered(self) -> DriftLimits:
        if self.page < self.warn:
            raise ValueError(f"page {self.page:.3g} is below warn {self.warn:.3g}; expected page at or above warn")
        return self


def _of_known_metrics(value: dict[str, DriftLimits]) -> dict[str, DriftLimits]:
    for name in value:
        try:
            metric(name)
        except KeyError as error:
            raise ValueError(error.args[0]) from None
    return value


LimitsByMetric = Annotated[dict[str, DriftLimits], AfterValidator(_of_known_metrics)]
"""Thresholds by the name of a metric of the catalogue."""


class Workload(Declared):
    """Base of both workload kinds. A change of anything that is measured needs a new `version`: it starts a new series."""

    name: Name
    version: int = Field(ge=1)
    description: str = ""
    needs: Needs
    providers: tuple[Name, ...] | None = Field(None, description="only these providers; every enabled one that fits if left out")
    on_demand_only: bool = Field(False, description="planned only when named: in a request, or by a provider's `workloads`")
    repeats: Repeats
    acceptance: tuple[Criterion, ...] = ()
    primary: Primary | None = Field(
        None, description="the number that is asked first, such as p95 time_to_first_token in steady; one that fits the task if left out"
    )
    drift: LimitsByMetric = Field(default_factory=dict, description="thresholds by metric that differ from thresholds.yaml")

    @field_validator("acceptance")
    @classmethod
    def _no_contradiction(cls, value: tuple[Criterion, ...]) -> tuple[Criterion, ...]:
        problem = contradiction(value)
        if problem:
            raise ValueError(problem)
        return value

    def of_trial(self) -> Self:
        """The workload as its trials carry it: without which number is shown first and which sizes of node it is meant for, which change
        nothing that is measured, and which a harness of an earlier version would refuse as unknown."""
        return self.model_copy(update={"primary": None, "needs": self.needs.model_copy(update={"whole_node": False})})

    @property
    def gpus(self) -> int | None:
        """Accelerators that a trial holds on each of its nodes; None for all that there are."""
        return self.needs.count

    @property
    def nodes(self) -> int:
        """Nodes that one trial takes at a time."""
        return 1
