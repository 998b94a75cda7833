"""What GPUs draw and how fast they run beside a measurement, as their own meters tell it. Where there is no GPU, or nobody who could ask it,
nothing is seen and nothing is claimed. The signals are those of `gpu_meters`, as `gpu<i>_<signal>`, for each GPU that the trial can use."""

from __future__ import annotations

import threading
import time
from array import array
from types import TracebackType
from typing import Any

from plumbline.declarations.phases import Phase
from plumbline.harness.gpu_health import GpuHealth
from plumbline.harness.gpu_meters import UNITS, Meters, open_meters
from plumbline.results import Telemetry

_EVERY_S = 1.0


class Stretch:
    """What was seen while it was under way. It can end and begin again; all of it counts."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.signals: dict[tuple[int, str], array[float]] = {}
        self.overhead: array[float] = array("d")
        self._counted: dict[int, float | None] = {}
        self._gpus = 0

    def add(self, gpu: int, signals: dict[str, float]) -> None:
        """One sample of a GPU."""
        for name, value in signals.items():
            self.signals.setdefault((gpu, name), array("d")).append(value)

    def lasted(self, seconds: float, joules: list[float | None]) -> None:
        """It went on for so long, in which each GPU's counter of energy moved by so much; None: it has none."""
        self.seconds += seconds
        self._gpus = len(joules)
        for gpu, counted in enumerate(joules):
            before = self._counted.get(gpu, 0.0)
            self._counted[gpu] = None if counted is None or before is None else before + counted

    def telemetry(self, phase: Phase) -> list[Telemetry]:
        """A row for each GPU and signal, and `gpu_watch_overhead`, the share of one core that asking took. Of reasons to throttle only those
        that were seen."""
        rows = [
            _summary(phase, f"gpu{gpu}_{name}", UNITS.get(name, "ratio"), values)
            for (gpu, name), values in self.signals.items()
            if name in UNITS or max(values) > 0
        ]
        return rows + ([_summary(phase, "gpu_watch_overhead", "ratio", self.overhead)] if self.overhead else [])

    def share(self, gpu: int, name: str) -> float:
        """Mean of a signal; 0 if it was never told."""
        values = self.signals.get((gpu, name))
        return sum(values) / len(values) if values else 0.0

    @property
    def energy_j(self) -> float | None:
        """Joules of all GPUs together: their drivers' counters, which miss nothing; where a GPU has none, its samples' mean power times the
        seconds. None if there is no GPU, or one of them tells neither."""
        total = 0.0
        for gpu in range(self._gpus):
            counted, power = self._counted[gpu], self.signals.get((gpu, "power"))
            if counted is None and not power:
                return None
            total += self.share(gpu, "power") * self.seconds if counted is None else counted
        return total if self._gpus else None

    @property
    def power_w(self) -> float | None:
        """Mean of all GPUs together; None like `energy_j`."""
        return None if self.energy_j is None or not self.seconds else self.energy_j / self.seconds

    @property
    def samples(self) -> int:
        """Of each GPU."""
        return max(map(len, self.signals.values()), default=0)


class GpuSampler:
    """A context manager that asks every GPU each `every_s` seconds, in a thread of its own, and tells it to the stretches under way.

    Every GPU of CUDA_VISIBLE_DEVICES counts, also one that idles: it is paid for. Without a GPU there is no thread. `health`: its counters of
    errors are read at both ends of the block. `nvml`, `amdsmi`: see `open_meters`.
    """

    def __init__(self, every_s: float, nvml: Any = None, amdsmi: Any = None, health: GpuHealth | None = None) -> None:
        self._health = health
        self._every_s, self._libraries = every_s, (nvml, amdsmi)
        self._meters: Meters | None = None
        self._lock = threading.Lock()
        self._under_way: dict[Stretch, tuple[float, list[float | None]]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="gpu-watch", daemon=True)

    def __enter__(self) -> GpuSampler:
        self._meters = open_meters(*self._libraries)
        if self._meters is not None:
            if self._health is not None:
                self._health.begin(self._meters)
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._meters is not None:
            self._stop.set()
            self._thread.join()
            if self._health is not None:
                self._health.read(self._meters)
            self._meters.close()

    @property
    def gpus(self) -> int:
        """How many can be asked."""
        return 0 if self._meters is None else self._meters.count

    def read_health(self) -> None:
        """Read the counters of errors now; after the end of the block, what was read then stays."""
        if self._health is not None and self._meters is not None and not self._stop.is_set():
            with self._lock:
                self._health.read(self._meters)

    def begin(self, stretch: Stretch) -> None:
        """From now on `stretch` is told, beginning with a sample."""
        if self._meters is not None:
            with self._lock:
                self._under_way[stretch] = (time.monotonic(), [self._meters.joules(gpu) for gpu in range(self._meters.count)])
                self._sample(self._meters, [stretch])

    def end(self, stretch: Stretch) -> None:
        """From now on it is not; its last sample is taken now."""
        if self._meters is not None:
            with self._lock:
                self._sample(self._meters, [stretch])
                began_s, first = self._under_way.pop(stretch)
                last = [self._meters.joules(gpu) for gpu in range(self._meters.count)]
                moved = [None if a is None or b is None else b - a for a, b in zip(first, last, strict=True)]
                stretch.lasted(time.monotonic() - began_s, moved)

    def _loop(self) -> None:
        due, weighed = time.monotonic() + self._every_s, (time.monotonic(), time.thread_time())
        while self._meters is not None and not self._stop.wait(max(0.0, due - time.monotonic())):
            with self._lock:
                self._sample(self._meters, list(self._under_way))
                now = (time.monotonic(), time.thread_time())
                for stretch in self._under_way:
                    stretch.overhead.append((now[1] - weighed[1]) / (now[0] - weighed[0]))
            weighed = now
            due = max(due + self._every_s, time.monotonic())

    def _sample(self, meters: Meters, stretches: list[Stretch]) -> None:
        if stretches:
            for gpu in range(meters.count):
                signals = meters.read(gpu)
                for stretch in stretches:
                    stretch.add(gpu, signals)


class GpuWatch(Stretch):
    """A context manager that is one stretch: from its block's start to its end, sampled once a second."""

    def __init__(self, nvml: Any = None, every_s: float = _EVERY_S) -> None:
        super().__init__()
        self._sampler = GpuSampler(every_s, nvml)

    def __enter__(self) -> GpuWatch:
        self._sampler.__enter__()
        self._sampler.begin(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._sampler.end(self)
        self._sampler.__exit__(kind, error, trace)


def _summary(phase: Phase, signal: str, unit: str, values: array[float]) -> Telemetry:
    ordered = sorted(values)
    return Telemetry(
        phase=phase,
        signal=signal,
        unit=unit,
        n=len(ordered),
        mean=sum(ordered) / len(ordered),
        min=ordered[0],
        p95=ordered[round(0.95 * (len(ordered) - 1))],
        max=ordered[-1],
    )
