"""Any program in a container."""

from __future__ import annotations

from plumbline.declarations import ContainerWorkload, Provider
from plumbline.declarations.workloads.workload import Primary
from plumbline.kinds.arithmetic.allowance import Allowance
from plumbline.kinds.base import Simulated, WorkloadKind, register
from plumbline.kinds.simulation.draw import Hardware, TrialDraw

_SIMULATED_S = 60.0
"""A simulated command whose time is not declared."""
_LEVELS = {"s": 0.01, "bytes/s": 2e9, "ratio": 0.5}
"""Simulated numbers by unit; of all others 100."""


@register
class Container(WorkloadKind[ContainerWorkload]):
    declaration = ContainerWorkload
    wire_kind = "training"
    task = "container"
    verb = "runs"
    noun = "container"
    plural = "containers"
    measured_by = "plumbline.harness.training.container.trial"
    has_outcome = False

    def primary(self, workload: ContainerWorkload) -> Primary:
        """The declaration has one always."""
        return workload.primary or Primary.model_validate("command_time")

    def required(self, workload: ContainerWorkload) -> tuple[str, ...]:
        first = workload.primary
        own = () if first is None or first.known.group == "cost" else (f"steady.{first.metric}.{first.statistic}",)
        return ("steady.command_time.value", *own)

    def trial_s(self, workload: ContainerWorkload, provider: Provider, allow: Allowance) -> float | None:
        return workload.task.expected

    def simulate(self, workload: ContainerWorkload, has: Hardware, draw: TrialDraw) -> Simulated:
        took = workload.task.expected or _SIMULATED_S
        rows = [draw.row(name, _LEVELS.get(workload.catalogue[name].unit, 100.0), 1) for name in workload.task.measures]
        return Simulated([*rows, draw.row("command_time", took, 1)], took)
