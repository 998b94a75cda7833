"""What GPUs draw and how fast they run beside a phase, as NVML tells it. Where NVML or a GPU is missing nothing is seen, and nothing is claimed.

gpu<i>_power, gpu<i>_sm_clock, gpu<i>_temperature    once a second, a signal for each GPU that the trial can use
power_w    of all of them together, mean over the block
energy_j   of all of them together: the drivers' own counters, which miss nothing; where a GPU has none, its samples' mean times the
           seconds
"""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from plumbline.declarations.phases import Phase
from plumbline.harness.environment.accelerator import handles
from plumbline.results import Telemetry

_EVERY_S = 1.0


@dataclass
class _Gpu:
    """Joules are the driver's counter at the block's start and end; None: it has none."""

    handle: Any
    signals: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    first_j: float | None = None
    last_j: float | None = None


class GpuWatch:
    """A context manager that samples once a second, at its start and at its end, in a thread of its own. Every GPU of CUDA_VISIBLE_DEVICES
    counts, also one that idles: it is paid for. `nvml`: a module with pynvml's functions; the installed one if left out."""

    def __init__(self, nvml: Any = None, every_s: float = _EVERY_S) -> None:
        self._nvml, self._every_s = nvml, every_s
        self._gpus: list[_Gpu] = []
        self._open = False
        self._began = self._ended = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="gpu-watch", daemon=True)

    def __enter__(self) -> GpuWatch:
        try:
            self._nvml = self._nvml or importlib.import_module("pynvml")
        except ImportError:
            return self
        try:
            self._nvml.nvmlInit()
            self._open = True
            self._gpus = [_Gpu(handle) for handle in handles(self._nvml)]
        except self._nvml.NVMLError:
            self._gpus = []
        if self._gpus:
            self._began = time.monotonic()
            for gpu in self._gpus:
                gpu.first_j = self._joules(gpu)
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._gpus:
            self._stop.set()
            self._thread.join()
            for gpu in self._gpus:
                gpu.last_j = self._joules(gpu)
            self._ended = time.monotonic()
        if self._open:
            self._nvml.nvmlShutdown()

    def telemetry(self, phase: Phase) -> list[Telemetry]:
        """A row for each GPU and signal, once the block is over."""
        return [
            Telemetry(
                phase=phase,
                signal=f"gpu{i}_{signal}",
                unit=unit,
                n=len(values),
                mean=sum(values) / len(values),
                min=min(values),
                max=max(values),
            )
            for i, gpu in enumerate(self._gpus)
            for (signal, unit), values in gpu.signals.items()
        ]

    @property
    def energy_j(self) -> float | None:
        """Joules of all GPUs; None if there is none, or one of them tells neither its energy nor its power."""
        seconds, total = self._ended - self._began, 0.0
        for gpu in self._gpus:
            power = gpu.signals.get(("power", "W"))
            if gpu.first_j is not None and gpu.last_j is not None:
                total += gpu.last_j - gpu.first_j
            elif power:
                total += sum(power) / len(power) * seconds
            else:
                return None
        return total if self._gpus else None

    @property
    def power_w(self) -> float | None:
        """Mean of all GPUs together; None like `energy_j`."""
        return None if self.energy_j is None else self.energy_j / (self._ended - self._began)

    @property
    def samples(self) -> int:
        """Of each GPU."""
        return max((len(values) for gpu in self._gpus for values in gpu.signals.values()), default=0)

    def _loop(self) -> None:
        due, ended = time.monotonic(), False
        while not ended:
            ended = self._stop.wait(max(0.0, due - time.monotonic()))
            self._sample()
            due = max(due + self._every_s, time.monotonic())

    def _sample(self) -> None:
        nvml = self._nvml
        for gpu in self._gpus:
            for signal, unit, scale, question, arguments in (
                ("power", "W", 1e-3, nvml.nvmlDeviceGetPowerUsage, ()),
                ("sm_clock", "MHz", 1.0, nvml.nvmlDeviceGetClockInfo, (nvml.NVML_CLOCK_SM,)),
                ("temperature", "°C", 1.0, nvml.nvmlDeviceGetTemperature, (nvml.NVML_TEMPERATURE_GPU,)),
            ):
                value = self._asked(question, gpu.handle, *arguments)
                if value is not None:
                    gpu.signals.setdefault((signal, unit), []).append(value * scale)

    def _joules(self, gpu: _Gpu) -> float | None:
        told = self._asked(self._nvml.nvmlDeviceGetTotalEnergyConsumption, gpu.handle)
        return None if told is None else told / 1e3

    def _asked(self, question: Callable[..., Any], *arguments: Any) -> float | None:
        try:
            return float(question(*arguments))
        except self._nvml.NVMLError:
            return None  # not every device and driver answers everything
