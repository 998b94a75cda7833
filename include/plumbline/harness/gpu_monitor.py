"""GPU power, clocks and errors beside a measurement, by phase; node 0 adds the readings of a gang's other nodes."""

from __future__ import annotations

import threading
import time
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from plumbline.harness.gpu_errors import GpuHealth
from plumbline.harness.gpu_meters import HARMFUL_THROTTLING, SIGNAL_UNITS, THROTTLE_REASONS, Meters, open_meters
from plumbline.harness.measurement import TrialJudgement, degraded, telemetry_row
from plumbline.metrics import Phase
from plumbline.results import GpuCounter, MetricRow, metric_row

if TYPE_CHECKING:
    from plumbline.results import Telemetry


@dataclass(frozen=True)
class GpuWindow:
    """The GPUs of one node in one phase: their energy in J (None: one of them reports neither energy nor power), over so many seconds."""

    joules: float | None
    seconds: float
    samples: int

    @property
    def watts(self) -> float | None:
        """Mean of all GPUs together."""
        return None if self.joules is None or not self.seconds else self.joules / self.seconds


class GpuSamples:
    """Samples of one stretch, which may pause and resume."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.signals: dict[tuple[int, str], array[float]] = {}
        self.overhead: array[float] = array("d")
        self._counted: dict[int, float | None] = {}
        self._gpus = 0

    def add(self, gpu: int, signals: dict[str, float]) -> None:
        for name, value in signals.items():
            self.signals.setdefault((gpu, name), array("d")).append(value)

    def lasted(self, seconds: float, joules: list[float | None]) -> None:
        """Add `seconds`, and each GPU's gain in joules (None: no counter)."""
        self.seconds += seconds
        self._gpus = len(joules)
        for gpu, counted in enumerate(joules):
            before = self._counted.get(gpu, 0.0)
            self._counted[gpu] = None if counted is None or before is None else before + counted

    def telemetry(self, phase: Phase) -> list[Telemetry]:
        """A row for each GPU and signal, and `gpu_watch_overhead`, the share of one core that asking took. Of reasons to throttle only those
        that were seen."""
        rows = [
            _summary(phase, f"gpu{gpu}_{name}", SIGNAL_UNITS.get(name, "ratio"), values)
            for (gpu, name), values in self.signals.items()
            if name in SIGNAL_UNITS or max(values) > 0
        ]
        return rows + ([_summary(phase, "gpu_watch_overhead", "ratio", self.overhead)] if self.overhead else [])

    def share(self, gpu: int, name: str) -> float:
        """Mean of a signal; 0 without samples."""
        values = self.signals.get((gpu, name))
        return sum(values) / len(values) if values else 0.0

    @property
    def energy_j(self) -> float | None:
        """Joules of all GPUs together: their drivers' counters, else mean sampled power times seconds. None without a GPU, or if one reports neither."""
        total = 0.0
        for gpu in range(self._gpus):
            counted, power = self._counted[gpu], self.signals.get((gpu, "power"))
            if counted is None and not power:
                return None
            total += self.share(gpu, "power") * self.seconds if counted is None else counted
        return total if self._gpus else None

    @property
    def samples(self) -> int:
        return max(map(len, self.signals.values()), default=0)

    @property
    def window(self) -> GpuWindow:
        return GpuWindow(self.energy_j, self.seconds, self.samples)


def _summary(phase: Phase, signal: str, unit: str, values: array[float]) -> Telemetry:
    return telemetry_row(phase, signal, unit, values, p95=sorted(values)[round(0.95 * (len(values) - 1))])


SAMPLE_INTERVAL_S = 0.1


class GpuPhaseMonitor:
    """A context manager that samples every GPU each `interval_s` in its own thread and attributes samples to phases (`change`). Without readable
    GPUs it does nothing.

    Every GPU of CUDA_VISIBLE_DEVICES counts, idle ones too: they are paid for. Error counters are read at both ends of the block.
    `nvml`, `amdsmi`: see `open_meters`. `node`: this node's number in a gang; node 0 adds the others' readings with `add_nodes`."""

    def __init__(self, interval_s: float = SAMPLE_INTERVAL_S, nvml: Any = None, amdsmi: Any = None, node: int = 0) -> None:
        self._interval_s, self._libraries, self._node = interval_s, (nvml, amdsmi), node
        self._health = GpuHealth(node)
        self._others: dict[int, MonitoredGpus | None] = {}
        self.before: list[TrialJudgement] = []
        """Faults of this node's GPUs before the trial, see `environment.hardware_judgements`."""
        self.announce: Callable[[Phase | None], None] = lambda _: None
        """Called with each phase that is entered, for the GPUs of other nodes."""
        self._stretches: dict[Phase, GpuSamples] = {}
        self._current: GpuSamples | None = None
        self._meters: Meters | None = None
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="gpu-monitor", daemon=True)

    def __enter__(self) -> GpuPhaseMonitor:
        self._meters = open_meters(*self._libraries)
        if self._meters is not None:
            self._health.take_first(self._errors(self._meters))
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._meters is not None:
            self._stop.set()
            self._thread.join()
            self._health.take_latest(self._errors(self._meters))
            self._meters.close()

    @property
    def gpus(self) -> int:
        return 0 if self._meters is None else self._meters.count

    def change(self, left: Phase | None, entered: Phase | None) -> None:
        """Attribute further samples to `entered`, those since the last change to `left`; None: to no phase."""
        if left is not None:
            self._end()
        if entered is not None:
            self._begin(self._stretches.setdefault(entered, GpuSamples()))
        self.announce(entered)

    def _begin(self, stretch: GpuSamples) -> None:
        if self._meters is not None:
            with self._lock:
                self._current, self._began = stretch, (time.monotonic(), self._joules(self._meters))
                self._sample(self._meters)

    def _end(self) -> None:
        if self._meters is not None and self._current is not None:
            with self._lock:
                self._sample(self._meters)
                began_s, first = self._began
                spent = [None if a is None or b is None else b - a for a, b in zip(first, self._joules(self._meters), strict=True)]
                self._current.lasted(time.monotonic() - began_s, spent)
                self._current = None

    def _loop(self) -> None:
        due, last = time.monotonic() + self._interval_s, (time.monotonic(), time.thread_time())
        while self._meters is not None and not self._stop.wait(max(0.0, due - time.monotonic())):
            with self._lock:
                self._sample(self._meters)
                now = (time.monotonic(), time.thread_time())
                if self._current is not None:
                    self._current.overhead.append((now[1] - last[1]) / (now[0] - last[0]))
            last = now
            due = max(due + self._interval_s, time.monotonic())

    def _sample(self, meters: Meters) -> None:
        if self._current is not None:
            for gpu in range(meters.count):
                self._current.add(gpu, meters.read(gpu))

    def _joules(self, meters: Meters) -> list[float | None]:
        return [meters.joules(gpu) for gpu in range(meters.count)]

    def _errors(self, meters: Meters) -> list[dict[str, int]]:
        return [meters.errors(gpu) for gpu in range(meters.count)]

    def samples(self, phase: Phase) -> GpuSamples:
        """Those of a phase, none of one that has not begun."""
        return self._stretches.get(phase, GpuSamples())

    def counts(self, phase: Phase) -> dict[tuple[int, str], int]:
        """Samples of a phase so far, by GPU and signal."""
        with self._lock:
            return {key: len(values) for key, values in self.samples(phase).signals.items()}

    def means_since(self, phase: Phase, counts: Mapping[tuple[int, str], int]) -> dict[str, float]:
        """Means of the phase's signals over all GPUs and the samples after `counts`, by the signal's name."""
        later: dict[str, list[float]] = {}
        with self._lock:
            for key, values in self.samples(phase).signals.items():
                later.setdefault(key[1], []).extend(values[counts.get(key, 0) :])
        return {name: sum(values) / len(values) for name, values in later.items() if values}

    def peak(self, phase: Phase, name: str) -> float | None:
        """The most of a signal that one GPU showed in a phase; None without samples."""
        values = [value for (_, signal), found in self.samples(phase).signals.items() if signal == name for value in found]
        return max(values, default=None)

    def telemetry(self) -> list[Telemetry]:
        """A row for each phase that is over, GPU and signal."""
        return [row for phase, stretch in self._stretches.items() for row in stretch.telemetry(phase)]

    def add_nodes(self, others: Mapping[int, MonitoredGpus | None]) -> None:
        """Add the readings of the gang's other nodes, by node; None for one that sent nothing."""
        self._others = dict(others)

    def reading(self) -> MonitoredGpus:
        """This node's reading so far, for node 0."""
        windows = {phase: stretch.window for phase, stretch in self._stretches.items()}
        judgements = (*self.new_errors(), *self.judgements("steady"))
        return MonitoredGpus(self.gpus, windows if self.gpus else {}, self.health(), judgements, self._peak_memory())

    def _read_health(self) -> None:
        if self._meters is not None and not self._stop.is_set():
            with self._lock:
                self._health.take_latest(self._errors(self._meters))

    def health(self) -> tuple[GpuCounter, ...]:
        """Each GPU's counters of errors at the beginning and now, or at the end if it is over; then those of the other nodes."""
        self._read_health()
        others = (gpus.health for _, gpus in sorted(self._others.items()) if gpus is not None)
        return (*self._health.counters(), *(counter for health in others for counter in health))

    def new_errors(self) -> list[TrialJudgement]:
        """Judgements on what was wrong before, and on errors since then, whichever phase they came in; of other nodes also on throttling.

        `node_gpus_unobserved` for a node that sent nothing, where node 0 has GPUs: unseen is not undisturbed.
        """
        self._read_health()
        judgements = [*self.before, *self._health.judgements()]
        for node, gpus in sorted(self._others.items()):
            if gpus is not None:
                judgements += gpus.judgements
            elif self.gpus:
                judgements.append(degraded("node_gpus_unobserved", f"node {node} reported no GPU readings; their errors are unknown"))
        return judgements

    def rows(self, phase: Phase) -> list[MetricRow]:
        """`gpu_power`: mean of all GPUs of all nodes together in W, by their counters of energy where they have them. On one node no row if a
        GPU reports neither; on several a row without a value, with the reason. No row where no node reads a GPU."""
        own = self._stretches[phase].window if self.gpus and phase in self._stretches else None
        if not self._others:
            watts = None if own is None else own.watts
            return [] if own is None or watts is None else [metric_row("gpu_power", watts, own.samples, phase=phase, statistic="mean")]
        if not self.gpus and not any(gpus is not None and gpus.gpus for gpus in self._others.values()):
            return []
        watts, why = total_power(phase, own, self._others)
        n = own.samples if own is not None and watts is not None else 0
        return [metric_row("gpu_power", watts, n, phase=phase, statistic="mean", reason=why or None)]

    def memory_rows(self) -> list[MetricRow]:
        """`training_peak_memory` of a program that does not report its own: of the GPU with the most, of all nodes; no row without a reading."""
        peak = max([self._peak_memory(), *(gpus.peak_memory for gpus in self._others.values() if gpus is not None)])
        return [metric_row("training_peak_memory", peak, self.gpus, method="used on the GPU beyond what was used before")] if peak else []

    def _peak_memory(self) -> float:
        """Bytes in use beyond those when the first phase after the probes began; 0 where no GPU reports them."""
        after_probes = [stretch.signals for phase, stretch in self._stretches.items() if phase != "environment"]
        used = [[value for signals in after_probes for value in signals.get((gpu, "memory_used"), ())] for gpu in range(self.gpus)]
        return max((max(values) - values[0] for values in used if values), default=0.0)

    def judgements(self, phase: Phase) -> list[TrialJudgement]:
        """`throttled` if any GPU ran below its clocks for a reason that full load alone does not bring."""
        stretch = self._stretches.get(phase)
        if stretch is None:
            return []
        judgements = []
        for gpu in range(self.gpus):
            shares = {THROTTLE_REASONS[name]: stretch.share(gpu, name) for name in HARMFUL_THROTTLING}
            reasons = ", ".join(f"{words} ({share:.0%} of the samples)" for words, share in shares.items() if share > 0)
            if reasons:
                of = f" of node {self._node}" if self._node else ""
                judgements.append(degraded("throttled", f"GPU {gpu}{of} throttled in {phase} by {reasons}"))
        return judgements


WINDOW_TOLERANCE, _WINDOW_TOLERANCE_S = 0.05, 0.25
"""Share of node 0's window, and the seconds allowed for a short one. Node 0 announces each phase change, so windows differ by a message and a
reading; a node whose window differs by more measured something else."""


@dataclass(frozen=True)
class MonitoredGpus:
    """One node's GPUs over the whole job. `windows` by phase; `health` with the node's number; `judgements` on errors and throttling;
    `peak_memory`: bytes beyond those before, of the GPU with the most."""

    gpus: int
    windows: Mapping[Phase, GpuWindow]
    health: tuple[GpuCounter, ...]
    judgements: tuple[TrialJudgement, ...]
    peak_memory: float = 0.0


NODE_GPUS: TypeAdapter[MonitoredGpus] = TypeAdapter(MonitoredGpus)
"""Parses the message with a node's reading."""


def total_power(phase: Phase, own: GpuWindow | None, others: Mapping[int, MonitoredGpus | None]) -> tuple[float | None, str]:
    """Power of all nodes' GPUs together in W, or None and the reason: a node without a reading is missing, never 0.

    `own`: node 0's window; None where its GPUs cannot be read. `others` by node; None for a node that sent nothing.
    """
    if own is None:
        return None, "node 0 reads no GPUs, and other nodes do"
    powers = [own.watts]
    lacking = [] if own.watts is not None else ["node 0: one of its GPUs reports neither energy nor power"]
    for node, gpus in sorted(others.items()):
        window = None if gpus is None else gpus.windows.get(phase)
        if gpus is None:
            lacking.append(f"node {node} reported no GPU readings")
        elif window is None:
            lacking.append(f"node {node} reads no GPUs" if not gpus.gpus else f"node {node} has no reading of {phase}")
        elif abs(window.seconds - own.seconds) > max(WINDOW_TOLERANCE * own.seconds, _WINDOW_TOLERANCE_S):
            lacking.append(f"node {node} measured {window.seconds:.2f} s of {phase}, node 0 {own.seconds:.2f} s")
        elif window.watts is None:
            lacking.append(f"node {node}: one of its GPUs reports neither energy nor power")
        else:
            powers.append(window.watts)
    if lacking:
        return None, "; ".join(lacking)
    return sum(watts for watts in powers if watts is not None), ""
