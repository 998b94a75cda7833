"""The GPUs' meters, phase by phase, and what they say against a measurement."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any

from plumbline.declarations.phases import Phase
from plumbline.harness.gpu_health import GpuHealth
from plumbline.harness.gpu_meters import HARMFUL, REASONS
from plumbline.harness.gpu_watch import GpuSampler, Stretch
from plumbline.harness.measurement import Judgement
from plumbline.harness.node_gpus import NodeGpus, Window, power_of_all
from plumbline.results import GpuCounter, MetricRow, Reason, Telemetry, row

EVERY_S = 0.1


class GpuPhases:
    """A context manager that samples every `interval_s` between its block's ends. `change` says which phase is on. Without a GPU that can be
    asked all of it does nothing. `nvml`, `amdsmi`: see `open_meters`. `node`: this node's number in a gang; node 0 adds the others' readings
    with `add_nodes`."""

    def __init__(self, interval_s: float = EVERY_S, nvml: Any = None, amdsmi: Any = None, node: int = 0) -> None:
        self._health, self._node = GpuHealth(node), node
        self._others: dict[int, NodeGpus | None] = {}
        self._sampler = GpuSampler(interval_s, nvml, amdsmi, self._health)
        self._stretches: dict[Phase, Stretch] = {}

    def __enter__(self) -> GpuPhases:
        self._sampler.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._sampler.__exit__(kind, error, trace)

    def change(self, left: Phase | None, entered: Phase | None) -> None:
        """From now on samples belong to `entered`; those so far, since the last change, to `left`. None: to no phase."""
        if self._sampler.gpus:
            if left is not None:
                self._sampler.end(self._stretches[left])
            if entered is not None:
                self._sampler.begin(self._stretches.setdefault(entered, Stretch()))

    def telemetry(self) -> list[Telemetry]:
        """A row for each phase that is over, GPU and signal."""
        return [row for phase, stretch in self._stretches.items() for row in stretch.telemetry(phase)]

    def add_nodes(self, others: Mapping[int, NodeGpus | None]) -> None:
        """What the gang's other nodes read, by node; None for one that sent nothing."""
        self._others = dict(others)

    def reading(self) -> NodeGpus:
        """What this node's GPUs did so far, for node 0."""
        windows = {phase: window for phase in self._stretches if (window := self._window(phase)) is not None}
        return NodeGpus(self._sampler.gpus, windows, self.health(), (*self.new_errors(), *self.judgements("steady")))

    def health(self) -> tuple[GpuCounter, ...]:
        """Each GPU's counters of errors at the beginning and now, or at the end if it is over; then those of the other nodes."""
        self._sampler.read_health()
        others = (gpus.health for _, gpus in sorted(self._others.items()) if gpus is not None)
        return (*self._health.counters(), *(counter for health in others for counter in health))

    def new_errors(self) -> list[Judgement]:
        """What errors since the beginning say against the measurement: see `gpu_health.judged`; of other nodes also what they throttled.

        `node_gpus_unobserved` for a node that sent nothing, where node 0 has GPUs: unseen is not undisturbed.
        """
        self._sampler.read_health()
        found = self._health.judgements()
        for node, gpus in sorted(self._others.items()):
            if gpus is not None:
                found += gpus.judgements
            elif self._sampler.gpus:
                detail = f"node {node} sent no reading of its GPUs: whether they made errors is unknown"
                found.append(Judgement("degraded", Reason(code="node_gpus_unobserved", detail=detail)))
        return found

    def rows(self, phase: Phase) -> list[MetricRow]:
        """`gpu_power`: mean of all GPUs of all nodes together in W, by their counters of energy where they have them. On one node no row if a
        GPU reports neither; on several a row without a value, with the reason. No row where no node reads a GPU."""
        own = self._window(phase)
        if not self._others:
            watts = None if own is None else own.watts
            return [] if own is None or watts is None else [row("gpu_power", watts, own.samples, phase=phase, statistic="mean")]
        if not self._sampler.gpus and not any(gpus is not None and gpus.gpus for gpus in self._others.values()):
            return []
        watts, why = power_of_all(phase, own, self._others)
        n = own.samples if own is not None and watts is not None else 0
        return [row("gpu_power", watts, n, phase=phase, statistic="mean", reason=why or None)]

    def _window(self, phase: Phase) -> Window | None:
        stretch = self._stretches.get(phase)
        return None if stretch is None else Window(stretch.energy_j, stretch.seconds, stretch.samples)

    def judgements(self, phase: Phase) -> list[Judgement]:
        """`throttled` if any GPU ran below its clocks for a reason that full load alone does not bring."""
        stretch = self._stretches.get(phase)
        if stretch is None:
            return []
        found = []
        for gpu in range(self._sampler.gpus):
            shares = {REASONS[name]: stretch.share(gpu, name) for name in HARMFUL}
            seen = ", ".join(f"{words} ({share:.0%} of the samples)" for words, share in shares.items() if share > 0)
            if seen:
                of = f" of node {self._node}" if self._node else ""
                detail = f"GPU {gpu}{of} was held below its clocks in {phase} by {seen}"
                found.append(Judgement("degraded", Reason(code="throttled", detail=detail)))
        return found
