"""Acceptance of a fleet: which nodes differ from the others, by robust statistics of figures and by rules on facts that need none.

A figure is compared as a logarithm, so that rates and times mirror each other: its distance from the median of the nodes, in units of their scaled
median absolute deviation, against the quantile that the greatest distance of healthy nodes exceeds in FALSE_ALARMS / metrics of fleets (simulated
for the number of nodes, as the MAD of few nodes is itself uncertain). One-sided: a faster node is no fault.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from plumbline.analysis.drift.comparison import format_probe_name
from plumbline.metrics import METRICS
from plumbline.metrics.formatting import format_change, format_quantity, natural_order
from plumbline.results import Scalar

FALSE_ALARMS = 0.005
"""Share of healthy fleets with any node in doubt, over all metrics and nodes."""
POWER = 0.9
MIN_NODES = 5
"""From so many nodes on there is a test; with fewer, a node that is SMALL_FLEET_LIMIT worse than the best one is in doubt."""
SMALL_FLEET_LIMIT = 0.10
MIN_EFFECT = 0.02
"""A share below the median that no node is returned for, however sure it is."""
_LEAST_SCALE = 0.001
_NORMAL_MAD = 1.4826
_DRAWS = 40_000
_MAJORITY_FACTS = ("gpu.count", "driver.version", "cuda.version")
_MAJORITY_GPU_FACTS = ("product", "vbios", "firmware", "ecc", "pcie_width_max", "pcie_generation_max", "nvlink_active")
_LOWER_IS_WORSE = ("power_limit_w",)
_COUNTERS = {
    "row_remap_pending": "remapped memory rows are pending until a reset",
    "row_remap_failure": "faulty memory rows could not be remapped",
    "page_retirement_pending": "memory pages are pending retirement",
    "ecc_uncorrected_volatile": "uncorrectable memory errors",
}
_INFINIBAND = ("rate", "firmware")
PAIR_METRICS = ("inter_node_all_reduce_bus_bandwidth", "peer_bandwidth")


@dataclass(frozen=True)
class Node:
    """What was seen of a node. `figures`: metric → value in SI units; `counters`: counter → its sum over the node's GPUs; `faults`: what the
    harness, or the launch, found wrong by itself; `missing`: why there are no figures, where that is not proven to be the provider's."""

    name: str
    facts: Mapping[str, Scalar]
    figures: Mapping[str, float]
    counters: Mapping[str, int]
    serials: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    missing: str = ""


@dataclass(frozen=True)
class FigureTest:
    """One metric over the nodes that have it. `median` in SI units; `limit`: the share by which a node must be worse to be in doubt; `detectable`: the
    share that is found in POWER of cases. Without a test (too few nodes) `detectable` is None."""

    metric: str
    nodes: int
    median: float
    limit: float
    detectable: float | None

    @property
    def text(self) -> str:
        name = f"{format_probe_name(self.metric)}, median {format_quantity(self.median, METRICS[self.metric].unit)}"
        if self.detectable is None:
            return f"{name}: {self.nodes} nodes are too few for a test; a node {self.limit:.0%} worse than the best is in doubt"
        return f"{name}: with {self.nodes} nodes a slowdown of {self.detectable:.1%} is found in {POWER:.0%} of cases"


@dataclass(frozen=True)
class NodeVerdict:
    """`reasons`: why it goes back; none if it is accepted, or was not measured. `slow`: metric → how much worse than the fleet it is, as a share."""

    node: Node
    reasons: tuple[str, ...]
    slow: Mapping[str, float]

    @property
    def text(self) -> str:
        return "send back" if self.reasons else "not measured" if self.node.missing else "accept"


@dataclass(frozen=True)
class FleetVerdict:
    """All nodes by name; `tests`: of each metric, what could be found."""

    nodes: tuple[NodeVerdict, ...]
    tests: tuple[FigureTest, ...]

    @property
    def returned(self) -> tuple[NodeVerdict, ...]:
        return tuple(verdict for verdict in self.nodes if verdict.reasons)

    @property
    def unmeasured(self) -> tuple[NodeVerdict, ...]:
        return tuple(verdict for verdict in self.nodes if verdict.node.missing and not verdict.reasons)


def with_pairs(nodes: Sequence[Node], pairs: Sequence[tuple[Sequence[str], Mapping[str, float]]]) -> list[Node]:
    """The nodes with the median of their pairs' figures: a slow node is in all of its pairs, and in one of each other node. `pairs`: both names, metric →
    value. A node without a measured pair is missing if pairs were measured."""
    by_node: dict[str, dict[str, list[float]]] = {node.name: {} for node in nodes}
    for names, figures in pairs:
        for name in names:
            for metric, value in figures.items():
                by_node.setdefault(name, {}).setdefault(metric, []).append(value)
    added = []
    for node in nodes:
        figures = {metric: float(np.median(values)) for metric, values in by_node[node.name].items()}
        lost = "" if figures or not pairs else "no pair of it was measured"
        added.append(replace(node, figures={**node.figures, **figures}, missing=node.missing or lost))
    return added


def judge_fleet(nodes: Sequence[Node]) -> FleetVerdict:
    """The verdict on each node of one fleet, which should be alike."""
    metrics = sorted({name for node in nodes for name in node.figures if _sign(name)})
    tests, slow = [], dict[str, dict[str, float]]()
    for metric in metrics:
        own = {node.name: node.figures[metric] for node in nodes if node.figures.get(metric, 0.0) > 0}
        if len(own) > 1:
            tests.append(_judge_figure(metric, own, len(metrics), slow))
    rules = _differing_facts(nodes)
    verdicts = []
    for node in sorted(nodes, key=lambda n: natural_order(n.name)):
        figures = slow.get(node.name, {})
        shown = (
            f"{format_probe_name(m)} {format_quantity(node.figures[m], METRICS[m].unit)}, {format_change(node.figures[m] / t.median - 1)} "
            f"from the fleet's median"
            for t in tests
            if (m := t.metric) in figures
        )
        counted = (f"{what} ({name} {node.counters[name]})" for name, what in _COUNTERS.items() if node.counters.get(name, 0) > 0)
        verdicts.append(NodeVerdict(node, tuple(dict.fromkeys((*node.faults, *counted, *rules[node.name], *shown))), figures))
    return FleetVerdict(tuple(verdicts), tuple(tests))


def _sign(metric: str) -> int:
    return {"higher_is_better": -1, "lower_is_better": 1}.get(METRICS[metric].direction, 0)


def _judge_figure(metric: str, figures: Mapping[str, float], metrics: int, slow: dict[str, dict[str, float]]) -> FigureTest:
    """Add the nodes in doubt to `slow`. Positive logarithms are worse than the median."""
    values = np.array(list(figures.values()))
    worse = _sign(metric) * np.log(values)
    middle = float(np.median(worse))
    if len(values) < MIN_NODES:
        reference, limit, detectable = float(worse.min()), -math.log1p(-SMALL_FLEET_LIMIT), None
    else:
        scale = max(_NORMAL_MAD * float(np.median(np.abs(worse - middle))), _LEAST_SCALE)
        critical, found = critical_distance(len(values), FALSE_ALARMS / metrics)
        least = -math.log1p(-MIN_EFFECT)
        reference, limit, detectable = middle, max(critical * scale, least), -math.expm1(-max(found * scale, least))
    for name, value in zip(figures, worse, strict=True):
        if value - reference > limit:
            slow.setdefault(name, {})[metric] = -math.expm1(-float(value - reference))
    return FigureTest(metric, len(values), float(np.median(values)), -math.expm1(-limit), detectable)


@cache
def critical_distance(n: int, alpha: float) -> tuple[float, float]:
    """For n healthy nodes with normal noise, in scaled MADs: the distance from the median that the worst node exceeds with probability `alpha`, and, in
    standard deviations, the slowdown of one node that exceeds it in POWER of fleets."""
    draws = np.random.default_rng(n).normal(size=(min(_DRAWS, max(4000, 4_000_000 // n)), n))
    middle = np.median(draws, axis=1)
    scale = _NORMAL_MAD * np.median(np.abs(draws - middle[:, None]), axis=1)
    critical = float(np.quantile((draws.max(axis=1) - middle) / scale, 1 - alpha))
    shifted = draws.copy()
    shifted[:, 0] = 1e9  # a node that is found lies beyond the median, wherever it is
    beyond = np.median(shifted, axis=1)
    spread = _NORMAL_MAD * np.median(np.abs(shifted - beyond[:, None]), axis=1)
    return critical, float(np.quantile(critical * spread + beyond - draws[:, 0], POWER))


def _differing_facts(nodes: Sequence[Node]) -> dict[str, list[str]]:
    """Node → its facts that differ from what most of the fleet has: any other driver, firmware or link, a lower power limit or width."""
    reasons: dict[str, list[str]] = {node.name: [] for node in nodes}
    measured = [node for node in nodes if not node.missing]
    keys = sorted({key for node in measured for key in node.facts if _compared(key)})
    for kind in sorted({_without_index(key) for key in keys}):
        own = {node.name: [node.facts[key] for key in keys if _without_index(key) == kind and key in node.facts] for node in measured}
        usual = _majority(value for values in own.values() for value in values if value is not None)
        lower = kind.rpartition(".")[2] in _LOWER_IS_WORSE
        for name, values in own.items():
            others = sorted({str(v) for v in values if v is not None and v != usual and (not lower or _less(v, usual))})
            if usual is not None and others:
                reasons[name].append(f"{kind} {', '.join(others)}; most of the fleet has {usual}")
    return reasons


def _compared(key: str) -> bool:
    first, _, rest = key.partition(".")
    last = rest.partition(".")[2]
    of_gpu = first == "gpu" and last in (*_MAJORITY_GPU_FACTS, *_LOWER_IS_WORSE)
    return key in _MAJORITY_FACTS or of_gpu or (first == "infiniband" and (last in _INFINIBAND or rest == "adapters"))


def _without_index(key: str) -> str:
    return ".".join(part for part in key.split(".") if not part.isdigit())


def _majority(values: Iterable[Scalar]) -> Scalar:
    """What more than half of them are; None without such."""
    counts = Counter(values)
    common = counts.most_common(1)
    return common[0][0] if common and 2 * common[0][1] > counts.total() else None


def _less(value: Scalar, usual: Scalar) -> bool:
    return isinstance(value, int | float) and isinstance(usual, int | float) and value < usual
