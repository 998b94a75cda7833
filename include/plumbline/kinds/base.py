"""A kind of workload: what each file of this room gives the rest of the house, and the registry of the kinds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, TypeVar

from plumbline.declarations import AnyWorkload, Declarations, Provider
from plumbline.declarations.references import WorkloadShape
from plumbline.declarations.workloads.any_workload import OF_TASK
from plumbline.declarations.workloads.workload import Primary, Workload
from plumbline.kinds.arithmetic.allowance import Allowance
from plumbline.kinds.simulation.draw import Hardware, TrialDraw
from plumbline.results import Curve, MetricRow, Reason, Stage


@dataclass(frozen=True)
class Simulated:
    """What a simulated trial measured besides its probes. `took_s`: simulated seconds of the measurement; `moments`: names of events with their
    seconds after its begin; `reasons`: why its numbers are degraded."""

    metrics: Sequence[MetricRow]
    took_s: float
    stages: Sequence[Stage] = ()
    curves: Sequence[Curve] = ()
    moments: Sequence[tuple[str, float]] = ()
    reasons: Sequence[Reason] = ()


_W = TypeVar("_W", bound=Workload)


class WorkloadKind(ABC, Generic[_W]):
    """One kind of workload, for workloads of its class `declaration`. What a workload itself knows is a property of that class
    (`declarations.workloads.kind_defaults`)."""

    declaration: ClassVar[type[Workload]]
    wire_kind: ClassVar[Literal["training", "inference"]]
    """`kind` in declarations, documents and series keys."""
    task: ClassVar[str | None] = None
    """The `task.kind` of its declarations; None of a kind that is found in another way."""
    verb: ClassVar[str]
    """What a provider does with its workloads: trains, serves, runs."""
    noun: ClassVar[str] = ""
    """One of its workloads, before its name; empty where `wire_kind` says it."""
    plural: ClassVar[str] = "workloads"
    """Several of its workloads, behind their number."""
    workload_acts: ClassVar[bool] = True
    """Whether the verb fits the workload too, as in: pipeline trains 12 % slower."""
    measured_by: ClassVar[str]
    """The module that measures its trials: its `measure` is a `harness.run.Measure`."""
    names_model: ClassVar[bool] = False
    """Whether declarations name the model, so that two of them are known to differ in its precision alone."""
    has_outcome: ClassVar[bool] = True
    """Whether its costs are of an outcome, such as tokens or requests."""
    compares_nodes: ClassVar[bool] = False
    """Whether its step times show which node of an accepted cluster is slow."""

    @abstractmethod
    def primary(self, workload: _W) -> Primary:
        """The number that leads where the declaration names none."""

    @abstractmethod
    def required(self, workload: _W) -> tuple[str, ...]:
        """Numbers (phase.metric.statistic) without which a trial that may be believed has measured nothing."""

    @abstractmethod
    def trial_s(self, workload: _W, provider: Provider, allow: Allowance) -> float | None:
        """Seconds that a trial measures, by estimate; None if nothing says how long."""

    @abstractmethod
    def simulate(self, workload: _W, has: Hardware, draw: TrialDraw) -> Simulated:
        """What a trial measures on simulated hardware."""

    def simulated_replicas(self, workload: _W, has: Hardware, draw: TrialDraw) -> list[tuple[float, int]] | None:
        """(Seconds after the first step up, replicas that are ready from then on); None where replicas are not watched."""
        return None

    def gaps(self, workload: _W, declared: Declarations) -> Iterator[str]:
        """What its trials cannot measure for want of a declaration, one sentence each."""
        return iter(())

    def differences(self, workload: _W, published: WorkloadShape) -> Iterator[str]:
        """In what work its trials differ from a published measurement, in words."""
        return iter(())


KINDS: dict[type[Workload], WorkloadKind[Any]] = {}
"""Each kind by the class of its workloads."""
_Kind = TypeVar("_Kind", bound=type[WorkloadKind[Any]])


def register(made: _Kind) -> _Kind:
    """Make the kind of this class known, and its task to the declarations. ValueError if its workloads' class or task has another one."""
    owner = OF_TASK.get(made.task or "", made.declaration)
    if made.declaration in KINDS or owner is not made.declaration:
        raise ValueError(f"{made.task or made.declaration.__name__} has a kind of workload already; expected a class and a task of its own")
    if made.task is not None:
        OF_TASK[made.task] = made.declaration
    KINDS[made.declaration] = made()
    return made


def kind_of(workload: AnyWorkload) -> WorkloadKind[Any]:
    return KINDS[type(workload)]


def kind_of_series(wire_kind: str, series_key: str) -> WorkloadKind[Any] | None:
    """The kind of a series' workload, by the engine in its key; None of an unknown `wire_kind`, as of a finding that is of no workload."""
    engine = (*series_key.split("/"), *[""] * 4)[3]
    usual = (of for of in KINDS.values() if of.task is None and of.wire_kind == wire_kind)
    return next((of for of in KINDS.values() if of.task == engine and of.wire_kind == wire_kind), None) or next(usual, None)
