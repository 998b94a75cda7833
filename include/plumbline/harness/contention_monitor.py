"""Contention beside a measurement: how much of the trial's cores others used, by phase, and when that makes a number invalid.

foreign_cpu        share of the trial's cores (of what it was promised of them) that went to others: time the cores were not idle, less
                   interrupts, less the CPU time of the harness and everything it started. Time that a hypervisor took away counts.
cpu_pressure_some  PSI: share of time in which a task that could run waited for a core. A trial waits for itself as well (server and client on
                   one core), and the machine's PSI speaks of other cores too: judged is the lesser of the pressure and the core-seconds a
                   second that others used."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from plumbline.declarations import ValidityLimits
from plumbline.harness.cpu_usage import CoreTimes, ProcessTreeCpu, core_times, pressure_file, pressure_s
from plumbline.harness.gpu_monitor import GpuPhaseMonitor
from plumbline.harness.measurement import Judgement, degraded
from plumbline.metrics import Phase
from plumbline.results import MetricRow, Reason, Telemetry

CPU_INTERVAL_S = 0.5
"""CPU counters move in ticks of 10 ms: over shorter windows rounding dominates. Pressure and load are read no more often either, because each
reading holds up the trial on one of its cores."""
_EARLY_SHARE = 0.9
"""A sample that comes a little early still splits; else every second one would be skipped."""


@dataclass
class _Signal:
    unit: str
    shortest_s: float
    seconds: float = 0.0
    weighted: float = 0.0
    n: int = 0
    low: float = math.inf
    high: float = -math.inf

    def add(self, value: float, seconds: float) -> None:
        self.seconds += seconds
        self.weighted += value * seconds
        if seconds >= self.shortest_s:
            self.n += 1
            self.low, self.high = min(self.low, value), max(self.high, value)

    @property
    def mean(self) -> float:
        # Rounding can make single windows negative; they must stay in the sum, or it would be too high.
        return max(self.weighted / self.seconds, 0.0)


@dataclass(frozen=True)
class _CpuReading:
    at_s: float
    cores: CoreTimes
    own_s: float


class ContentionMonitor:
    """Samples from its own thread between `with ContentionMonitor(cpus) as monitor:` and its end; `with monitor.phase("steady"):` names the phase.

    `cpus`: the cores the trial may use; `promised`: how many cores' worth of their time is its own (a pod's limit), all if left out.
    Others on a shared node take nothing from it until they use more than the rest. Everything is read every `interval_s`, CPU time
    split at most every half second and exactly at both ends of a phase. Without Linux's /proc there is nothing to see, and `judgements` says so.
    `gpus`: their monitor; of a hosted model, whose GPUs are elsewhere, one that is not entered and so sees none.
    """

    def __init__(
        self, cpus: Sequence[int], promised: int | None = None, interval_s: float = CPU_INTERVAL_S, gpus: GpuPhaseMonitor | None = None
    ) -> None:
        if not cpus:
            raise ValueError("cpus is empty; expected the cores of the trial, such as [0, 1]")
        self.cpus = tuple(sorted(cpus))
        self._promised = min(promised or len(self.cpus), len(self.cpus))
        self._interval_s = interval_s
        self._pressure_file = pressure_file()
        self._blind: str | None = None
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="contention-monitor", daemon=True)
        self._phases: list[Phase] = []
        self._signals: dict[tuple[Phase, str], _Signal] = {}
        self._tree: ProcessTreeCpu | None = None
        self._split: _CpuReading | None = None
        self._pressure: tuple[float, float] | None = None
        self._overhead: tuple[float, float] | None = None
        self.gpus, self._watches_gpus = gpus or GpuPhaseMonitor(), gpus is not None

    def __enter__(self) -> ContentionMonitor:
        with self._lock:
            try:
                self._tree = ProcessTreeCpu()
            except (OSError, ValueError) as error:
                self._blind = str(error)
            self._sample(split=True)
        if self._watches_gpus:
            self.gpus.__enter__()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._watches_gpus:
            self.gpus.__exit__()

    @contextmanager
    def phase(self, name: Phase) -> Iterator[None]:
        """Attribute what is seen to a phase: to the innermost one if they nest, added up if a phase comes twice."""
        around = self._phases[-1] if self._phases else None
        with self._lock:
            self._sample(split=True)
            self._phases.append(name)
        self.gpus.change(around, name)
        try:
            yield
        finally:
            with self._lock:
                self._sample(split=True)
                self._phases.remove(name)
            self.gpus.change(name, around)

    def telemetry(self) -> list[Telemetry]:
        """One row a phase and signal. Means are over time, exact from end to end; min and max over the single samples."""
        with self._lock:
            machine = [
                Telemetry(
                    phase=phase,
                    signal=name,
                    unit=signal.unit,
                    n=max(signal.n, 1),
                    mean=signal.mean,
                    min=max(min(signal.low, signal.mean), 0.0),
                    max=max(signal.high, signal.mean),
                )
                for (phase, name), signal in self._signals.items()
                if signal.seconds > 0
            ]
        return [*machine, *self.gpus.telemetry()]

    def gpu_rows(self, phase: Phase = "steady") -> list[MetricRow]:
        return self.gpus.rows(phase)

    def judgements(self, limits: ValidityLimits, phase: Phase = "steady") -> list[Judgement]:
        """What makes the phase less than valid. An unobserved phase is degraded."""
        means = {row.signal: row.mean for row in self.telemetry() if row.phase == phase}
        foreign = means.get("foreign_cpu")
        throttled = self.gpus.judgements(phase)
        if foreign is None:
            why = self._blind or "the phase was never watched"
            return [degraded("contention_unobserved", f"contention not observed in {phase}: {why}"), *throttled]
        cores = f"core{'s' if len(self.cpus) > 1 else ''} {', '.join(map(str, self.cpus))}"
        if self._promised < len(self.cpus):
            cores = f"the {self._promised} promised of {len(self.cpus)} cores"
        what = f"others used {foreign:.0%} of {cores} in {phase}"
        found = _judge_threshold("contended_cpu", foreign, limits.foreign_cpu_degraded, limits.foreign_cpu_invalid, what)
        pressure = means.get("cpu_pressure_some")
        if pressure is not None:
            taken = foreign * self._promised
            what = f"tasks waited for a core in {pressure:.0%} of {phase} while others used {taken:.2f} cores"
            worst = min(pressure, taken)
            found += _judge_threshold("cpu_pressure", worst, limits.cpu_pressure_degraded, limits.cpu_pressure_invalid, what)
        return [*found, *throttled]

    def _loop(self) -> None:
        while not self._stop.wait(self._interval_s):
            with self._lock:
                self._sample(split=False)
                self._measure_overhead()

    def _sample(self, split: bool) -> None:
        try:
            self._sample_pressure()
            if split or self._split is None or time.monotonic() - self._split.at_s >= _EARLY_SHARE * CPU_INTERVAL_S:
                self._sample_split()
        except (OSError, ValueError) as error:
            self._blind = str(error)
            self._tree = self._pressure_file = None
        self._add("load_1m", "tasks", os.getloadavg()[0], self._interval_s)

    def _sample_pressure(self) -> None:
        if self._pressure_file is None:
            return
        now, total = time.monotonic(), pressure_s(self._pressure_file)
        if self._pressure is not None and now > self._pressure[0]:
            seconds = now - self._pressure[0]
            self._add("cpu_pressure_some", "ratio", (total - self._pressure[1]) / seconds, seconds, self._interval_s / 2)
        self._pressure = (now, total)

    def _sample_split(self) -> None:
        if self._tree is None:
            return
        new = _CpuReading(time.monotonic(), core_times(self.cpus), self._tree.seconds())
        old, self._split = self._split, new
        if old is None or new.at_s <= old.at_s:
            return
        seconds = new.at_s - old.at_s
        there, capacity = seconds * len(self.cpus), seconds * self._promised
        own = new.own_s - old.own_s
        # Interrupts are left out: most of them are the trial's own packets and disk writes.
        busy = there - (new.cores.idle_s - old.cores.idle_s) - (new.cores.interrupts_s - old.cores.interrupts_s)
        others = busy - own
        # Without a limit the difference is kept whole: rounding makes single windows negative, and they belong in the mean.
        taken = others if capacity == there else max(others - (there - capacity), 0.0)
        self._add("foreign_cpu", "ratio", taken / capacity, seconds, CPU_INTERVAL_S / 2)
        self._add("own_cpu", "ratio", own / capacity, seconds, CPU_INTERVAL_S / 2)
        self._add("cpu_steal", "ratio", (new.cores.stolen_s - old.cores.stolen_s) / capacity, seconds, CPU_INTERVAL_S / 2)

    def _measure_overhead(self) -> None:
        """Cost of monitoring as a share of one core."""
        now, used = time.monotonic(), time.thread_time()
        if self._overhead is not None:
            seconds = now - self._overhead[0]
            self._add("watch_overhead", "ratio", (used - self._overhead[1]) / seconds, seconds)
        self._overhead = (now, used)

    def _add(self, signal: str, unit: str, value: float, seconds: float, shortest_s: float = 0.0) -> None:
        if self._phases:
            self._signals.setdefault((self._phases[-1], signal), _Signal(unit, shortest_s)).add(value, seconds)


def _judge_threshold(code: str, value: float, degraded_from: float, invalid_from: float, what: str) -> list[Judgement]:
    if value < degraded_from:
        return []
    level: Literal["degraded", "invalid"] = "invalid" if value >= invalid_from else "degraded"
    detail = f"{what}; degraded from {degraded_from:.0%}, invalid from {invalid_from:.0%}"
    return [Judgement(level, Reason(code=code, detail=detail))]


@dataclass(frozen=True)
class MonitorSnapshot:
    """Telemetry of all phases; of the steady one what the GPUs drew and what makes it less than valid."""

    telemetry: tuple[Telemetry, ...]
    gpu_rows: tuple[MetricRow, ...]
    judgements: tuple[Judgement, ...]

    @classmethod
    def of(cls, monitor: ContentionMonitor, limits: ValidityLimits) -> MonitorSnapshot:
        return cls(tuple(monitor.telemetry()), tuple(monitor.gpu_rows()), (*monitor.judgements(limits), *monitor.gpus.new_errors()))


class ResumedContentionMonitor(ContentionMonitor):
    """A monitor that continues what earlier pods observed: steady state was theirs, the recovery is shared."""

    def __init__(self, cpus: Sequence[int], promised: int | None, gpus: GpuPhaseMonitor | None, earlier: MonitorSnapshot) -> None:
        super().__init__(cpus, promised, gpus=gpus)
        self._earlier = earlier

    def telemetry(self) -> list[Telemetry]:
        """Of all pods; a signal that several saw in one phase is weighted by its samples."""
        found = {(row.phase, row.signal): row for row in self._earlier.telemetry}
        for row in super().telemetry():
            key = row.phase, row.signal
            found[key] = _merge_telemetry(found[key], row) if key in found else row
        return list(found.values())

    def gpu_rows(self, phase: Phase = "steady") -> list[MetricRow]:
        return list(self._earlier.gpu_rows) if phase == "steady" else super().gpu_rows(phase)

    def judgements(self, limits: ValidityLimits, phase: Phase = "steady") -> list[Judgement]:
        return list(self._earlier.judgements) if phase == "steady" else super().judgements(limits, phase)


def _merge_telemetry(one: Telemetry, other: Telemetry) -> Telemetry:
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
