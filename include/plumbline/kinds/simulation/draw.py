"""A simulated provider: hardware levels, noise of run, node and hour, declared drift."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from plumbline.declarations import Provider, SimulatedLauncher, Trial
from plumbline.declarations.providers.simulation import DriverChange, Family, Level, NodeFault, PerformanceEvent
from plumbline.declarations.workloads.workload import parse_metric_value
from plumbline.kinds.arithmetic.peak_flops import published_peak
from plumbline.metrics import METRICS, Phase
from plumbline.results import MetricRow, metric_row

_STORAGE_METRICS = frozenset(
    {
        "checkpoint_save_time",
        "checkpoint_blocking_time",
        "checkpoint_load_time",
        "checkpoint_save_bandwidth",
        "checkpoint_load_bandwidth",
        "disk_write_bandwidth",
        "data_wait_time",
    }
)
_SLOWEST_HOUR = 18.0
_NODE = "{}-node-{}"
# What a trial's metrics have in common is most of what moves them; each has a little of its own.
_OWN_SHARE = 0.3


def node_name(provider: Provider, node: int) -> str:
    return _NODE.format(provider.name, node)


@lru_cache
def _node_indices(provider: str, count: int) -> dict[str, int]:
    """By name, of the first `count` nodes: an acceptance of a fleet asks for thousands."""
    return {_NODE.format(provider, i): i for i in range(count)}


@dataclass(frozen=True)
class TrialDraw:
    """The random draws of one attempt. ValueError for a trial whose provider is not simulated."""

    trial: Trial
    _random: random.Random = field(init=False, repr=False)
    _noise: dict[Family, float] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        if not self.trial.provider.simulated:
            raise ValueError(
                f"{self.trial.trial_id}: provider {self.trial.provider.name} is {self.trial.provider.launcher.kind}; expected simulated"
            )
        object.__setattr__(self, "_random", random.Random(f"{self.declared.seed}|{self.trial.trial_id}|{self.trial.attempt}"))

    @cached_property
    def declared(self) -> SimulatedLauncher:
        return self.trial.provider.launcher_as(SimulatedLauncher)

    @cached_property
    def events(self) -> tuple[Any, ...]:
        return self.declared.events(self.trial.workload.name, self.trial.planned_at)

    @cached_property
    def node(self) -> int:
        """Index of its (first) node; with a fresh node, of an unused one if one is left. ValueError for a named node that does not exist."""
        if self.trial.on_nodes:
            return self.nodes[0]
        avoided = self.trial.avoid_nodes if self.trial.placement == "fresh_node" else ()
        free = [i for i in range(self.declared.nodes) if self.node_name(i) not in avoided]
        return self._seeded("landing", self.trial.trial_id, str(self.trial.attempt)).choice(free or range(self.declared.nodes))

    @cached_property
    def nodes(self) -> tuple[int, ...]:
        """Of a trial on named nodes all of them, else its node. ValueError for one that does not exist."""
        known = _node_indices(self.trial.provider.name, self.declared.nodes)
        if unknown := [name for name in self.trial.on_nodes if name not in known]:
            raise ValueError(
                f"{self.trial.provider.name} has no node {unknown[0]}; expected {self.node_name(0)} to {self.node_name(len(known) - 1)}"
            )
        return tuple(known[name] for name in self.trial.on_nodes) or (self.node,)

    def node_name(self, node: int) -> str:
        return node_name(self.trial.provider, node)

    def facts(self) -> dict[str, Any]:
        """Environment facts of the driver changes and of the node's faults in force, later declared ones last."""
        changes = [e for e in self.events if isinstance(e, DriverChange) or e in self.faults]
        return {name: value for event in changes for name, value in event.facts.items()}

    @cached_property
    def faults(self) -> tuple[NodeFault, ...]:
        """The faults of its node."""
        return tuple(e for e in self.events if isinstance(e, NodeFault) and self.node in e.on_nodes)

    def ends_as(self) -> str | None:
        """The class of this attempt's failure, or None."""
        if self.declared.skips(self.trial.workload.name, self.trial.planned_at):
            return "unreachable"
        luck = self._seeded("failure", self.trial.trial_id, str(self.trial.attempt)).random()
        for name, share in sorted(self.declared.failures.items()):
            luck -= share
            if luck < 0:
                return name
        return None

    def slowness(self, family: Family) -> float:
        """The common factor of a family in this trial; the workload's own family includes drift without `metrics`."""
        drift = sum(self._shift(e) for e in self._moving if e.metrics is None) if family == self.trial.workload.kind else 0.0
        if family not in self._noise:
            self._noise[family] = math.exp(self._scatter(family))
        return self._noise[family] * math.exp(drift)

    def _shift(self, event: PerformanceEvent) -> float:
        """Of several nodes the slowest one's, which the others wait for."""
        return max(event.shift(self.trial.planned_at, node) for node in self.nodes)

    def own(self, metric: str, phase: Phase, spread: float) -> float:
        """The factor of one metric: its own noise, and drift that names it."""
        probe = phase == "environment"
        drift = sum(self._shift(e) for e in self._moving if (metric in e.probes if probe else metric in (e.metrics or ())))
        return math.exp(drift + _OWN_SHARE * spread * self._random.gauss(0, 1))

    def row(
        self,
        metric: str,
        level: float | None,
        n: int,
        *,
        phase: Phase = "steady",
        statistic: str | None = None,
        spread: float = 0.0,
        moved: bool = True,
        scatter: bool = True,
    ) -> MetricRow:
        """The row of a metric from its level without noise. `spread`: relative standard deviation of one observation, which gives the interval.
        `moved`: apply the common factor of the metric's family. `scatter`: add noise of the metric's own."""
        known = self.trial.workload.catalogue[metric]
        if level is None:
            return metric_row(known, None, n, phase=phase, statistic=statistic)
        family = self.family(metric, phase)
        factor = (self.slowness(family) if moved else 1.0) * self.own(metric, phase, self.declared.noise_of(family).run if scatter else 0.0)
        value = (
            level / factor if known.direction == "higher_is_better" else level * factor if known.direction == "lower_is_better" else level
        )
        if known.unit == "ratio" and level <= 1.0:
            value = min(value, 1.0)  # a share of everything stays one
        half = 1.96 * 1.25 * spread / math.sqrt(n) if spread and n > 5 else 0.0  # 1.25: a median scatters more than a mean
        return metric_row(known, value, n, phase=phase, statistic=statistic, ci=(value * (1 - half), value * (1 + half)) if half else None)

    def family(self, metric: str, phase: Phase) -> Family:
        if metric in _STORAGE_METRICS:
            return "storage"
        if phase == "environment" or metric == "device_matmul_peak":
            return "hardware"
        if phase == "cold_start" or self.trial.workload.catalogue[metric].group in ("start_up", "recovery"):
            return "start_up"
        return self.trial.workload.kind

    @cached_property
    def _moving(self) -> tuple[PerformanceEvent, ...]:
        return tuple(event for event in self.events if isinstance(event, PerformanceEvent))

    def _scatter(self, family: Family) -> float:
        noise = self.declared.noise_of(family)
        hour = int(self.trial.slot[:2]) + int(self.trial.slot[3:]) / 60
        wave = math.cos((hour - _SLOWEST_HOUR) / 24 * 2 * math.pi)
        run = self._seeded("run", family, self.trial.trial_id, str(self.trial.attempt)).gauss(0, 1)
        node = self._seeded("node", family, str(self.node)).gauss(0, 1)
        return float(noise.run * run + noise.node * node + noise.time_of_day * wave)

    def _seeded(self, *names: str) -> random.Random:
        return random.Random("|".join((str(self.declared.seed), self.trial.provider.name, *names)))


# Matrix products reach about four fifths of what is published for the device, copies in its memory nine tenths.
_REACHED, _COPIED = 0.8, 0.9
_MEMORY: tuple[tuple[str, float], ...] = (
    (r"\bB200\b", 8.0e12),
    (r"\bMI300X\b", 5.3e12),
    (r"\bG?H200\b", 4.8e12),
    (r"\bH100 PCIe\b", 2.0e12),
    (r"\bG?H100\b", 3.35e12),
    (r"\bA100\b", 2.0e12),
    (r"\bL40S\b", 8.64e11),
    (r"\bA10\b", 6.0e11),
    (r"\bL4\b", 3.0e11),
)
"""Bytes per second, from data sheets."""
_CORE_FLOPS, _CORE_BYTES = 7.5e10, 7e9
_DISK, _CPU_DISK = 2.5e9, 1e9
_COLLECTIVE, _PEER = 4.5e11, 5e9
_LEAD_S, _CPU_LEAD_S = 90.0, 1.0


class UnknownHardware(ValueError):
    """The accelerator's speed is unknown; the message names what to declare."""


@dataclass(frozen=True)
class Hardware:
    """One accelerator (of a CPU: all cores together), SI units. `all_reduce` bytes/s on the bus between those of a node."""

    count: int
    matmul: float
    memory: float
    all_reduce: float
    disk: float
    peer: float
    lead_s: float
    gpu: bool


def hardware_of(provider: Provider) -> Hardware:
    """The provider's declared levels, and the usual ones of its accelerator for the rest. UnknownHardware where neither is known."""
    launcher, has = provider.launcher_as(SimulatedLauncher), provider.accelerator
    levels = {name: parse_metric_value(METRICS[name].unit, text) for name, text in launcher.levels.items()}
    gpu = has.kind != "cpu"
    if gpu:
        device = " ".join((has.product or "").split("-"))
        peak = published_peak(device, "bf16")
        bandwidth = next((rate for pattern, rate in _MEMORY if re.search(pattern, device)), None)
        usual: dict[Level, float | None] = {
            "matmul_tflops": None if peak is None else peak * _REACHED,
            "memory_bandwidth": None if bandwidth is None else bandwidth * _COPIED,
        }
    else:
        usual = {"matmul_tflops": _CORE_FLOPS * has.count, "memory_bandwidth": _CORE_BYTES * has.count}
    known = {name: levels.get(name) or rate for name, rate in usual.items()}
    missing = sorted(name for name, rate in known.items() if rate is None)
    if missing:
        raise UnknownHardware(
            f"accelerator {has.product or has.kind} of {provider.name} is unknown; expected launcher.levels with "
            + ", ".join(
                f'{name}: "{400 if name == "matmul_tflops" else 2}{"TFLOP/s" if name == "matmul_tflops" else "TB/s"}"' for name in missing
            )
        )
    return Hardware(
        count=has.count,
        matmul=known["matmul_tflops"] or 0.0,
        memory=known["memory_bandwidth"] or 0.0,
        all_reduce=levels.get("all_reduce_bus_bandwidth", _COLLECTIVE if gpu else _CORE_BYTES / 4),
        disk=levels.get("disk_write_bandwidth", _DISK if gpu else _CPU_DISK),
        peer=levels.get("peer_bandwidth", _PEER),
        lead_s=levels.get("provisioning_lead_time", _LEAD_S if gpu else _CPU_LEAD_S),
        gpu=gpu,
    )


def probe_rows(draw: TrialDraw, has: Hardware, ranks: int) -> list[MetricRow]:
    rows = [
        draw.row("matmul_tflops", has.matmul, 30, phase="environment"),
        draw.row("memory_bandwidth", has.memory, 30, phase="environment"),
        draw.row("disk_write_bandwidth", has.disk, 3, phase="environment"),
    ]
    if ranks > 1:
        rows.append(draw.row("all_reduce_bus_bandwidth", has.all_reduce, 20, phase="environment"))
    return [*rows, draw.row("peer_bandwidth", has.peer, 20, phase="environment")] if len(draw.nodes) > 1 else rows


def value_of(metrics: Sequence[MetricRow], metric: str, phase: str) -> float:
    """The first value of a metric in a phase; 0 without one."""
    return next((r.value for r in metrics if (r.metric, r.phase) == (metric, phase) and r.value is not None), 0.0)
