"""A simulated provider: noise, failures, environment and drift. Its results stay marked as simulated."""

from __future__ import annotations

import math
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field, ValidationInfo, model_validator

from plumbline.declarations.base import Declared, Name, is_archived
from plumbline.declarations.providers.launcher_base import LauncherBase, WatchKind
from plumbline.declarations.workloads.workload import Seed, catalogue_of, parse_metric_value
from plumbline.metrics import metric
from plumbline.metrics.units import Duration, HourlyPrice, Percent, Spread

if TYPE_CHECKING:
    from plumbline.declarations.workloads.any_workload import AnyWorkload

Family = Literal["training", "inference", "start_up", "storage", "hardware"]
"""Families of metrics with common noise."""
Probe = Literal["matmul_tflops", "memory_bandwidth", "all_reduce_bus_bandwidth", "disk_write_bandwidth", "peer_bandwidth"]
Level = Literal[Probe, "provisioning_lead_time"]
SimulatedFailure = Literal[
    "quota_exceeded", "insufficient_capacity", "image_error", "launch_timeout", "interrupted", "out_of_memory", "timeout", "unreachable"
]
Scalar = str | int | float | bool | None


def _parse_day(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return date.fromisoformat(f"{value}-01" if len(value) == len("2026-11") else value)
    except ValueError:
        raise ValueError(f'"{value}" is not a day; expected such as 2026-11-15, or 2026-11 for the first of a month') from None


Day = Annotated[date, BeforeValidator(_parse_day), Field(description="a day such as 2026-11-15, or a campaign's month such as 2026-11")]


def _known_metric(value: str, info: ValidationInfo) -> str:
    if not is_archived():  # a trial has no other declarations beside it, whose own metrics an event may name
        metric(value, catalogue_of(info))
    return value


MetricName = Annotated[str, AfterValidator(_known_metric)]


class Noise(Declared):
    """Noise of a family of metrics as relative standard deviations (`time_of_day`: amplitude of a daily wave)."""

    run: Spread = Field(description="from one trial to the next")
    node: Spread = Field(0.0, description="from one node to the next, constant for a node")
    time_of_day: Spread = Field(0.0, description="slowest at 18:00 UTC by this much, fastest at 06:00")


DEFAULT_NOISE: dict[Family, Noise] = {
    # Repeated trainings on one system differ by 0.07 % (median) to 0.5 % (one in ten); whole runs by 5 %; an evening costs up to 1 %.
    "training": Noise.model_construct(run=0.0015, node=0.001, time_of_day=0.005),
    "inference": Noise.model_construct(run=0.01, node=0.003, time_of_day=0.01),
    "start_up": Noise.model_construct(run=0.05, node=0.01, time_of_day=0.0),
    "storage": Noise.model_construct(run=0.03, node=0.01, time_of_day=0.01),
    "hardware": Noise.model_construct(run=0.001, node=0.002, time_of_day=0.0),
}
"""Noise of families without declared noise."""


class SimulatedEvent(Declared):
    """An event from the day `since` on, for all workloads or the named ones."""

    since: Day
    workloads: tuple[Name, ...] | None = Field(None, min_length=1)

    def concerns(self, workload: str, at: datetime) -> bool:
        """Whether it applies to a trial of the workload planned at this time."""
        day = at.astimezone(timezone.utc).date()
        until: date | None = getattr(self, "until", None)
        return (self.workloads is None or workload in self.workloads) and self.since <= day and (until is None or day < until)


class PerformanceEvent(SimulatedEvent):
    """An event that moves numbers by `worse` or `better`: times become so much longer or shorter, rates so much lower or higher.

    Without `metrics` it moves how fast the workload runs, and all that follows from it; with them exactly those. `probes` move along.
    """

    worse: Percent | None = None
    better: Percent | None = None
    metrics: tuple[MetricName, ...] | None = Field(None, min_length=1)
    probes: tuple[Probe, ...] = ()

    @model_validator(mode="after")
    def _one_direction(self) -> PerformanceEvent:
        if (self.worse is None) == (self.better is None) and not (isinstance(self, DriverChange | NodeFault) and self.worse is None):
            raise ValueError("expected exactly one of worse and better, such as worse: 5%")
        if self.worse is None and self.better is None and (self.metrics or self.probes):
            raise ValueError("has metrics or probes but no size; expected worse or better, such as worse: 5%")
        return self

    @property
    def size(self) -> float:
        """How much worse, as a logarithm; negative if better. Rates and times mirror each other on this scale."""
        return math.log1p(self.worse or 0.0) - math.log1p(self.better or 0.0)

    def shift(self, at: datetime, node: int) -> float:
        """The event's size for a trial at this time on this node, in the unit of `size`."""
        return self.size


class DriftStep(PerformanceEvent):
    """From one day on, until another if one is named."""

    kind: Literal["step"]
    until: Day | None = None


class DriftRamp(PerformanceEvent):
    """Grows linearly from 0 on `since` to its size on `full`."""

    kind: Literal["ramp"]
    full: Day

    @model_validator(mode="after")
    def _rises(self) -> DriftRamp:
        if self.full <= self.since:
            raise ValueError(f"full {self.full} is not after since {self.since}; expected a later day")
        return self

    def shift(self, at: datetime, node: int) -> float:
        """The size reached at this time."""
        begun = (
            at.astimezone(timezone.utc) - datetime(self.since.year, self.since.month, self.since.day, tzinfo=timezone.utc)
        ).total_seconds()
        return self.size * min(1.0, max(0.0, begun / ((self.full - self.since).days * 86400)))


class DriftSpike(PerformanceEvent):
    """A temporary change, over on the day `until`."""

    kind: Literal["spike"]
    until: Day


class BimodalNode(PerformanceEvent):
    """The first `nodes` of the provider's nodes are worse than the others."""

    kind: Literal["bimodal_node"]
    until: Day | None = None
    nodes: int = Field(1, ge=1)

    def shift(self, at: datetime, node: int) -> float:
        """The size on a bad node, 0 on a good one."""
        return self.size if node < self.nodes else 0.0


class DriverChange(PerformanceEvent):
    """Replaces the environment's `facts`; `worse` or `better` moves the numbers too."""

    kind: Literal["driver_change"]
    until: Day | None = None
    facts: dict[str, Scalar] = Field(min_length=1, description="such as {driver.version: 570.86.15, cuda.version: '12.8'}")


class NodeFault(PerformanceEvent):
    """Some nodes differ: slower by `worse`, with other `facts` or with error `counters` on their first GPU."""

    kind: Literal["node_fault"]
    until: Day | None = None
    on_nodes: tuple[Annotated[int, Field(ge=0)], ...] = Field(min_length=1, description="numbers of the nodes, from 0")
    facts: dict[str, Scalar] = Field(default_factory=dict, description="such as {gpu.0.pcie_width: 8}")
    counters: dict[str, Annotated[int, Field(ge=0)]] = Field(default_factory=dict, description="such as {row_remap_pending: 1}")

    @model_validator(mode="after")
    def _differs(self) -> NodeFault:
        if self.worse is None and not self.facts and not self.counters:
            raise ValueError("has none of worse, facts and counters; expected one, such as worse: 5%")
        return self

    def shift(self, at: datetime, node: int) -> float:
        """The size on the named nodes, 0 on others."""
        return self.size if node in self.on_nodes else 0.0


class PriceChange(SimulatedEvent):
    """A new price of the whole instance."""

    kind: Literal["price_change"]
    until: Day | None = None
    purchase: Literal["on_demand", "spot", "reserved"] = "on_demand"
    price: HourlyPrice


class DataGap(SimulatedEvent):
    """No data: trials of this time are not planned."""

    kind: Literal["silence"]
    until: Day | None = None


DriftEvent = Annotated[
    DriftStep | DriftRamp | DriftSpike | BimodalNode | NodeFault | DriverChange | PriceChange | DataGap, Field(discriminator="kind")
]


class SimulatedOutage(Declared):
    """A time in which checks between campaigns fail."""

    begin: AwareDatetime
    end: AwareDatetime
    watch: WatchKind = "uptime"
    cause: SimulatedFailure | Literal["server_error", "bad_declaration", "maintenance"] = Field(
        "server_error",
        description="failure class of each check; bad_declaration: our own, such as an expired token; maintenance: cordoned nodes, neither up nor down",
    )

    @model_validator(mode="after")
    def _ordered(self) -> SimulatedOutage:
        if self.end <= self.begin:
            raise ValueError(f"end {self.end.isoformat()} is not after begin {self.begin.isoformat()}; expected a later time")
        return self


class SimulatedScaling(Declared):
    """A server that scales: `delay` after each step of the load that its capacity does not hold it does, and `idle` after the load fell its added
    replicas are gone."""

    delay: Duration
    idle: Duration


class SimulatedLauncher(LauncherBase):
    """A seeded model of a machine, marked as simulated in every document, row, page and message."""

    implementation = "plumbline.launch.simulated.launcher:SimulationLauncher"
    kind: Literal["simulated"]
    seed: Seed = 1
    nodes: int = Field(8, ge=1, le=10_000, description="nodes, of which each trial gets a random one")
    parallel: int = Field(8, ge=1, le=1000, description="trials at a time")
    levels: dict[Level, str] = Field(
        default_factory=dict,
        description='what one accelerator (or all cores, the node\'s disk) does without noise, such as {matmul_tflops: "700TFLOP/s"}; '
        "known for common accelerators",
    )
    noise: dict[Family, Noise] = Field(default_factory=dict)
    failures: dict[SimulatedFailure, Spread] = Field(
        default_factory=dict, description="share of launches with this failure, such as {insufficient_capacity: 2%}"
    )
    environment: dict[str, Scalar] = Field(default_factory=dict, description="facts beside or instead of the accelerator's usual ones")
    drift: tuple[DriftEvent, ...] = ()
    scaling: SimulatedScaling | None = Field(None, description="in the phase `scale_out`; absent: the start capacity stays")
    outages: tuple[SimulatedOutage, ...] = Field((), description="of `watch.uptime` and `watch.capacity`; the first one that lasts counts")

    @model_validator(mode="after")
    def _consistent(self) -> SimulatedLauncher:
        for name, text in self.levels.items():
            parse_metric_value(metric(name).unit, text)
        if sum(self.failures.values()) > 1:
            raise ValueError(f"failures add up to {sum(self.failures.values()):.0%}; expected at most 100%")
        for i, event in enumerate(self.drift):
            until = getattr(event, "until", None)
            if until is not None and until <= event.since:
                raise ValueError(f"drift[{i}].until {until} is not after since {event.since}; expected a later day")
            if isinstance(event, BimodalNode) and event.nodes >= self.nodes:
                raise ValueError(f"drift[{i}].nodes {event.nodes} includes all {self.nodes} nodes; expected fewer")
            if isinstance(event, NodeFault) and max(event.on_nodes) >= self.nodes:
                raise ValueError(f"drift[{i}].on_nodes {max(event.on_nodes)} does not exist; expected numbers from 0 to {self.nodes - 1}")
        return self

    def events(self, workload: str, at: datetime) -> tuple[Any, ...]:
        """Events that apply to a trial of the workload planned at this time, in the order of declaration."""
        return tuple(event for event in self.drift if event.concerns(workload, at))

    simulated: ClassVar[bool] = True
    watches: ClassVar[frozenset[WatchKind]] = frozenset({"uptime", "capacity"})

    @property
    def trials_at_a_time(self) -> int:
        return self.parallel

    def unsuitable(self, workload: AnyWorkload) -> str | None:
        # Any server and any placement of the client can be simulated; a gang cannot exceed the provider.
        return f"it needs {workload.nodes} nodes, but the provider has {self.nodes}" if workload.nodes > self.nodes else None

    def price_changes(self) -> tuple[PriceChange, ...]:
        return tuple(sorted((e for e in self.drift if isinstance(e, PriceChange)), key=lambda e: e.since, reverse=True))

    def repriced(self, factor: float) -> SimulatedLauncher:
        drift = tuple(e.model_copy(update={"price": e.price * factor}) if isinstance(e, PriceChange) else e for e in self.drift)
        return self.model_copy(update={"drift": drift})

    def skips(self, workload: str, at: datetime) -> bool:
        return any(isinstance(event, DataGap) for event in self.events(workload, at))

    def noise_of(self, family: Family) -> Noise:
        """The declared noise of a family of metrics, or its usual one."""
        return self.noise.get(family, DEFAULT_NOISE[family])
