"""The GPUs' meters, phase by phase, and what they say against a measurement."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from plumbline.declarations.phases import Phase
from plumbline.harness.gpu_health import GpuHealth
from plumbline.harness.gpu_meters import HARMFUL, REASONS
from plumbline.harness.gpu_watch import GpuSampler, Stretch
from plumbline.harness.measurement import Judgement
from plumbline.results import GpuCounter, MetricRow, Reason, Telemetry, row


class GpuPhases:
    """A context manager that samples every `interval_s` between its block's ends. `change` says which phase is on. Without a GPU that can be
    asked all of it does nothing. `nvml`, `amdsmi`: see `open_meters`."""

    def __init__(self, interval_s: float, nvml: Any = None, amdsmi: Any = None) -> None:
        self._health = GpuHealth()
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

    def health(self) -> tuple[GpuCounter, ...]:
        """Each GPU's counters of errors at the beginning and now, or at the end if it is over."""
        self._sampler.read_health()
        return self._health.counters()

    def new_errors(self) -> list[Judgement]:
        """What errors since the beginning say against the measurement: see `gpu_health.judged`."""
        self._sampler.read_health()
        return self._health.judgements()

    def rows(self, phase: Phase) -> list[MetricRow]:
        """`gpu_power`: mean of all GPUs together in W, by their counters of energy where they have them; nothing if one of them tells neither."""
        stretch = self._stretches.get(phase)
        if stretch is None or stretch.power_w is None:
            return []
        return [row("gpu_power", stretch.power_w, stretch.samples, phase=phase, statistic="mean")]

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
                detail = f"GPU {gpu} was held below its clocks in {phase} by {seen}"
                found.append(Judgement("degraded", Reason(code="throttled", detail=detail)))
        return found
