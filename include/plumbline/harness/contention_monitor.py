"""Contention beside a measurement: how much of the trial's cores others used, by phase, and when that makes a number invalid.

foreign_cpu        share of the trial's cores (of what it was promised of them) that went to others: time the cores were not idle, less
                   interrupts, less the CPU time of the harness, everything it started, and a server
                   under test that was declared to run here. Time that a hypervisor took away counts.
cpu_pressure_some  PSI: share of time in which a task that could run waited for a core. A trial waits for itself as well (server and client on
                   one core), and the machine's PSI speaks of other cores too: judged is the lesser of the pressure and the core-seconds a
                   second that others used."""

from __future__ import annotations

import math
import os
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from plumbline.declarations import ValidityLimits
from plumbline.harness.environment.container import cgroup_folders
from plumbline.harness.gpu_monitor import GpuPhaseMonitor
from plumbline.harness.measurement import TrialJudgement, Watched, degraded
from plumbline.harness.network_counters import counter_rows, read_counters
from plumbline.harness.other_programs import ProcessCpu, Snapshot, busiest_programs, snapshot
from plumbline.metrics import Phase
from plumbline.results import MetricRow, Reason, Telemetry
from plumbline.results.document import JUDGED_PHASES, OtherProgram

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
    server_s: float


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
        self._servers: list[ProcessTreeCpu] = []
        self._split: _CpuReading | None = None
        self._pressure: tuple[float, float] | None = None
        self._overhead: tuple[float, float] | None = None
        self._programs: dict[str, float] = {}
        self._network: dict[Phase, Counter[str]] = {}
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
    def phase(self, name: Phase) -> Iterator[Watched]:
        """Attribute what is seen to a phase: to the innermost one if they nest, added up if a phase comes twice.

        What it yields has this stretch alone, once it is over."""
        around, watched = self._phases[-1] if self._phases else None, Watched()
        with self._lock:
            began, before = time.monotonic(), self._others() if name in JUDGED_PHASES else None
            self._sample(split=True)
            self._phases.append(name)
            first = self._split
        self.gpus.change(around, name)
        sampled = self.gpus.counts(name)
        network = read_counters() if name in JUDGED_PHASES else None
        try:
            yield watched
        finally:
            if network is not None:
                self._count_network(name, network)
            with self._lock:
                self._sample(split=True)
                if first is not None and self._split is not None and self._split.at_s > first.at_s:
                    watched.own, watched.foreign = self._shares(first, self._split)
                self._phases.remove(name)
                if before is not None and (after := self._others()) is not None:
                    for each in busiest_programs(before, after, time.monotonic() - began, self.cpus, _PROC):
                        self._programs[each.name] = max(each.cores, self._programs.get(each.name, 0.0))
            self.gpus.change(name, around)
            watched.gpus = self.gpus.means_since(name, sampled)

    def include(self, root: int, cpus: Collection[int]) -> None:
        """Count a process tree that the harness did not start, on these cores, as the trial's own from now on: the server under test.

        Its share is the signal `server_cpu` too. OSError if there is no such process."""
        with self._lock:
            self._sample(split=True)
            self._servers.append(ProcessTreeCpu(root))
            whole = self._promised == len(self.cpus)
            self.cpus = tuple(sorted({*self.cpus, *cpus}))
            self._promised = len(self.cpus) if whole else self._promised
            # Neither its time until now nor that of further cores belongs to the next window.
            self._split = None
            self._sample(split=True)

    @property
    def cores(self) -> int:
        """Cores' worth of time that the trial may use."""
        return self._promised

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

    def other_programs(self) -> list[OtherProgram]:
        """Programs outside the trial that computed beside its judged phases, busiest first."""
        return [
            OtherProgram(name=name, cores=cores) for name, cores in sorted(self._programs.items(), key=lambda item: (-item[1], item[0]))
        ]

    def gpu_rows(self, phase: Phase = "steady") -> list[MetricRow]:
        return self.gpus.rows(phase)

    def _count_network(self, phase: Phase, before: Counter[str]) -> None:
        after, gained = read_counters(), self._network.setdefault(phase, Counter())
        gained.update({name: max(count - before[name], 0) for name, count in after.items() if name in before})

    def network_rows(self) -> list[MetricRow]:
        """What the network of the namespace counted in each judged phase."""
        return [row for phase, gained in self._network.items() for row in counter_rows(phase, gained)]

    def judgements(self, limits: ValidityLimits, phase: Phase = "steady") -> list[TrialJudgement]:
        """Judgements that make the phase less than valid. An unobserved phase is degraded; a sweep, which most costs rest on, is judged with it."""
        also = [one for one in JUDGED_PHASES if phase == "steady" != one and (one, "foreign_cpu") in self._signals]
        return [*(j for one in (phase, *also) for j in self._judge_load(one, limits)), *self.gpus.judgements(phase)]

    def _judge_load(self, phase: Phase, limits: ValidityLimits) -> list[TrialJudgement]:
        means = {row.signal: row.mean for row in self.telemetry() if row.phase == phase}
        foreign = means.get("foreign_cpu")
        if foreign is None:
            why = self._blind or "the phase was never watched"
            return [degraded("contention_unobserved", f"contention not observed in {phase}: {why}")]
        cores = f"core{'s' if len(self.cpus) > 1 else ''} {', '.join(map(str, self.cpus))}"
        if self._promised < len(self.cpus):
            cores = f"the {self._promised} promised of {len(self.cpus)} cores"
        what = f"others used {foreign:.0%} of {cores} in {phase}"
        judgements = _judge_threshold("contended_cpu", foreign, limits.foreign_cpu_degraded, limits.foreign_cpu_invalid, what)
        pressure = means.get("cpu_pressure_some")
        if pressure is not None:
            taken = foreign * self._promised
            what = f"tasks waited for a core in {pressure:.0%} of {phase} while others used {taken:.2f} cores"
            worst = min(pressure, taken)
            judgements += _judge_threshold("cpu_pressure", worst, limits.cpu_pressure_degraded, limits.cpu_pressure_invalid, what)
        return judgements

    def _others(self) -> Snapshot | None:
        if self._tree is None:
            return None
        own = {pid for tree in (self._tree, *self._servers) for pid in tree.members()}
        return snapshot(self._tree.stat, own, _PROC)

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
        server_s = sum(server.seconds() for server in self._servers)
        new = _CpuReading(time.monotonic(), core_times(self.cpus), self._tree.seconds() + server_s, server_s)
        old, self._split = self._split, new
        if old is None or new.at_s <= old.at_s:
            return
        seconds = new.at_s - old.at_s
        capacity = seconds * self._promised
        own, foreign = self._shares(old, new)
        self._add("foreign_cpu", "ratio", foreign, seconds, CPU_INTERVAL_S / 2)
        self._add("own_cpu", "ratio", own, seconds, CPU_INTERVAL_S / 2)
        if self._servers:
            self._add("server_cpu", "ratio", (new.server_s - old.server_s) / capacity, seconds, CPU_INTERVAL_S / 2)
        self._add("cpu_steal", "ratio", (new.cores.stolen_s - old.cores.stolen_s) / capacity, seconds, CPU_INTERVAL_S / 2)

    def _shares(self, old: _CpuReading, new: _CpuReading) -> tuple[float, float]:
        """Shares of the trial's cores between two readings: its own, and others'."""
        seconds = new.at_s - old.at_s
        there, capacity = seconds * len(self.cpus), seconds * self._promised
        own = new.own_s - old.own_s
        # Interrupts are left out: most of them are the trial's own packets and disk writes.
        busy = there - (new.cores.idle_s - old.cores.idle_s) - (new.cores.interrupts_s - old.cores.interrupts_s)
        others = busy - own
        # Without a limit the difference is kept whole: rounding makes single windows negative, and they belong in the mean.
        taken = others if capacity == there else max(others - (there - capacity), 0.0)
        return own / capacity, taken / capacity

    def _measure_overhead(self) -> None:
        now, used = time.monotonic(), time.thread_time()
        if self._overhead is not None:
            seconds = now - self._overhead[0]
            self._add("watch_overhead", "ratio", (used - self._overhead[1]) / seconds, seconds)
        self._overhead = (now, used)

    def _add(self, signal: str, unit: str, value: float, seconds: float, shortest_s: float = 0.0) -> None:
        if self._phases:
            self._signals.setdefault((self._phases[-1], signal), _Signal(unit, shortest_s)).add(value, seconds)


def _judge_threshold(code: str, value: float, degraded_from: float, invalid_from: float, what: str) -> list[TrialJudgement]:
    if value < degraded_from:
        return []
    level: Literal["degraded", "invalid"] = "invalid" if value >= invalid_from else "degraded"
    detail = f"{what}; degraded from {degraded_from:.0%}, invalid from {invalid_from:.0%}"
    return [TrialJudgement(level, Reason(code=code, detail=detail))]


@dataclass(frozen=True)
class MonitorSnapshot:
    """Telemetry of all phases; of the steady one what the GPUs drew and what makes it less than valid."""

    telemetry: tuple[Telemetry, ...]
    gpu_rows: tuple[MetricRow, ...]
    judgements: tuple[TrialJudgement, ...]
    network_rows: tuple[MetricRow, ...] = ()

    @classmethod
    def of(cls, monitor: ContentionMonitor, limits: ValidityLimits) -> MonitorSnapshot:
        judgements = (*monitor.judgements(limits), *monitor.gpus.new_errors())
        return cls(tuple(monitor.telemetry()), tuple(monitor.gpu_rows()), judgements, tuple(monitor.network_rows()))


class ResumedContentionMonitor(ContentionMonitor):
    """A monitor that continues what earlier pods observed: steady state was theirs, the recovery is shared."""

    def __init__(self, cpus: Sequence[int], promised: int | None, gpus: GpuPhaseMonitor | None, earlier: MonitorSnapshot) -> None:
        super().__init__(cpus, promised, gpus=gpus)
        self._earlier = earlier

    def telemetry(self) -> list[Telemetry]:
        """Telemetry of all pods; a signal that several saw in one phase is weighted by its samples."""
        rows = {(row.phase, row.signal): row for row in self._earlier.telemetry}
        for row in super().telemetry():
            key = row.phase, row.signal
            rows[key] = _merge_telemetry(rows[key], row) if key in rows else row
        return list(rows.values())

    def gpu_rows(self, phase: Phase = "steady") -> list[MetricRow]:
        return list(self._earlier.gpu_rows) if phase == "steady" else super().gpu_rows(phase)

    def network_rows(self) -> list[MetricRow]:
        return list(self._earlier.network_rows)

    def judgements(self, limits: ValidityLimits, phase: Phase = "steady") -> list[TrialJudgement]:
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


_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class CoreTimes:
    """Seconds since boot, summed over some cores."""

    idle_s: float
    interrupts_s: float
    stolen_s: float


def core_times(cpus: Collection[int], stat: Path = Path("/proc/stat")) -> CoreTimes:
    """Counters of `cpus` from /proc/stat. OSError if there are none; ValueError if a core is not in it.

    The idle counter is the exact one: the kernel clocks it when a core goes to sleep and wakes, while user and system time
    are sampled at each tick and so miss work that is paced by a timer.
    """
    wanted = {f"cpu{cpu}" for cpu in cpus}
    idle = interrupts = stolen = 0
    with stat.open() as file:
        for line in file:
            if not line.startswith("cpu"):
                break
            name, *fields = line.split()
            if name in wanted:
                wanted.remove(name)
                ticks = [int(field) for field in fields]
                idle += ticks[3] + ticks[4]
                interrupts += ticks[5] + ticks[6]
                stolen += ticks[7]
    if wanted:
        raise ValueError(f"{stat} does not list {', '.join(sorted(wanted))}; expected every core of the trial")
    return CoreTimes(idle * _TICK_S, interrupts * _TICK_S, stolen * _TICK_S)


def pressure_file(root: Path = Path("/")) -> Path | None:
    """Where PSI for the CPU can be read: the process's own cgroup (a pod's), else the machine; None without PSI."""
    candidates = [*(folder / "cpu.pressure" for folder in islice(cgroup_folders(root, ""), 1)), root / "proc/pressure/cpu"]
    for candidate in candidates:
        try:
            pressure_s(candidate)
        except (OSError, ValueError):
            continue  # PSI can be compiled in and yet switched off: the file is there and cannot be read
        return candidate
    return None


def pressure_s(file: Path) -> float:
    """Seconds so far in which at least one task that could run waited for a core (`some total`, kept in microseconds)."""
    for line in file.read_text().splitlines():
        if line.startswith("some "):
            return int(line.rsplit("total=", 1)[1]) / 1e6
    raise ValueError(f"{file} has no line 'some … total=…'; expected the kernel's PSI format")


_PROC = Path("/proc")


class ProcessTreeCpu:
    """A process tree under `root`. A process that was seen in it stays in it, even if its parent dies first.

    A child's time lies in its own /proc/<pid>/stat while it lives and in its parent's own (cutime, cstime) once it was waited
    for: the sum over the living tree therefore never forgets a child, whether or not it was ever seen alive.
    """

    def __init__(self, root: int | None = None, proc: Path = _PROC) -> None:
        self._proc = proc
        self.root = root or os.getpid()
        self._members: dict[int, int] = {}  # pid → start time; parents come before their children
        self._strangers: set[int] = set()
        self._lost_s = 0.0
        self._last_s = 0.0
        first = self.stat(self.root)
        if first is None:
            raise ProcessLookupError(f"there is no process {self.root}")
        self._members[self.root] = first.started

    def seconds(self) -> float:
        """CPU seconds of the tree so far. Only differences mean anything; it never falls."""
        self._discover()
        total = self._total()
        if total < self._last_s - self._lost_s:
            # A child ended between reading its parent and reading it: its time stands in the parent's by now.
            total = self._total()
        if total < self._last_s - self._lost_s:
            # Ended: another process reaped the orphan, and its CPU time is lost.
            self._lost_s = self._last_s - total
        self._last_s = total + self._lost_s
        return self._last_s

    def members(self) -> list[int]:
        """The pids of the tree."""
        self._discover()
        return list(self._members)

    def _total(self) -> float:
        total = 0.0
        for pid, started in list(self._members.items()):
            # Parents are read before their children, so that a child waited for in between is missed, never counted twice.
            stat = self.stat(pid)
            if stat is None or stat.started != started:
                del self._members[pid]
                continue
            total += stat.cpu_s
        return total

    def _discover(self) -> None:
        """Adopt new descendants. Only unseen processes are read: a full scan costs too much on a big node."""
        alive = {int(name) for name in os.listdir(self._proc) if name.isdigit()}  # noqa: PTH208 - names alone, ten times cheaper
        self._strangers &= alive
        fresh = {pid: stat for pid in alive - self._strangers - self._members.keys() if (stat := self.stat(pid)) is not None}
        ordered = sorted(fresh.items(), key=lambda item: (item[1].started, item[0]))
        discovered = True
        while discovered:
            discovered = False
            for pid, stat in ordered:
                if pid not in self._members and stat.parent in self._members:
                    self._members[pid] = stat.started
                    discovered = True
        self._strangers.update(fresh.keys() - self._members.keys())

    def stat(self, pid: int) -> ProcessCpu | None:
        """Any process's own and waited time; None if there is no such process."""
        try:
            text = (self._proc / str(pid) / "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return None
        # The command's name stands in brackets and may itself hold brackets and spaces.
        fields = text[text.rindex(")") + 2 :].split()
        user, system, waited_user, waited_system = (int(field) for field in fields[11:15])
        own = user + system
        return ProcessCpu(int(fields[1]), int(fields[19]), (own + waited_user + waited_system) * _TICK_S, own * _TICK_S)
