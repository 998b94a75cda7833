"""Acceptance of a fleet: which nodes differ from the others, by robust statistics of figures and by rules on facts that need none.

A figure is compared as a logarithm, so that rates and times mirror each other. A node is in doubt whose distance from the median of the nodes, in units
of their scaled median absolute deviation, is beyond that of the worst node of healthy fleets with normal noise (simulated for the number of nodes, as the
MAD of few nodes is itself uncertain). Real noise has longer tails, so doubt alone sends no node back: it is measured again, and goes back if it is slow
again. One-sided: a faster node is no fault.

A node without a figure or fact that others have was not measured: it is never accepted, and the others are not compared with it. The same holds for a
driver or MIG layout that several nodes have and most have not: an operator rolls it out, which is neither a fault nor a comparison of equals; and
for nodes with the serial number of one GPU.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache

import numpy as np

from plumbline.declarations import Provider
from plumbline.declarations.promises.speed_floors import SpeedFloors
from plumbline.declarations.references import References
from plumbline.judgement import Verdict, is_measured, together
from plumbline.metrics import METRICS
from plumbline.metrics.names import natural_order
from plumbline.results import Scalar

FALSE_ALARMS = 0.005
"""Share of healthy fleets of which any node is in doubt, with normal noise: over all metrics and nodes, of fleets of _USUAL_NODES and less."""
_USUAL_NODES = 32
POWER = 0.9
MIN_NODES = 5
"""From so many nodes on there is a test; with fewer, a node that is SMALL_FLEET_LIMIT worse than the best one goes back."""
SMALL_FLEET_LIMIT = 0.10
MIN_EFFECT = 0.02
"""A share below the median that no node is returned for, however sure it is."""
_LEAST_SCALE = 0.001
_NORMAL_MAD, _NORMAL_Q90 = 1.4826, 1.2816
_SKEW_NODES = 30
_DRAWS = 40_000
_MAJORITY_FACTS = ("gpu.count", "driver.version", "cuda.version")
_MAJORITY_GPU_FACTS = ("product", "mig", "vbios", "firmware", "ecc", "pcie_width_max", "pcie_generation_max", "nvlink_active")
_LOWER_IS_WORSE = ("power_limit_w",)
_ROLLED_OUT = ("driver.version", "cuda.version", "gpu.mig")
_WITH_MIG = ("gpu.product", "gpu.count")
ROLLOUT_NODES = 3
"""Nodes from which on a value of _ROLLED_OUT is taken for an upgrade, not for a fault of single nodes."""
UPGRADE = "upgrade in progress"
_COUNTERS = ("row_remap_pending", "row_remap_failure", "page_retirement_pending", "ecc_uncorrected_volatile")
_MENDED_BY_RESET = ("row_remap_pending", "page_retirement_pending")
_INFINIBAND = ("rate", "firmware")
_POSITIVE = ("gpu.nvlink_active", "infiniband.rate", "infiniband.adapters")
"""Facts of which 0 says that there is none, which nodes that have some make a question."""
ALONE = "there is no other node to compare it with, and no absolute limit"
LEAST_OF_PUBLISHED = 0.6
"""Share of a published best figure below which an accelerator is slow whatever the others do: identical GPUs of clouds lie up to 38 % apart."""
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
    share that is found in POWER of cases. Without a test (too few nodes) `detectable` is None, and a node that is worse by the limit goes back at once."""

    metric: str
    nodes: int
    median: float
    limit: float
    detectable: float | None


@dataclass(frozen=True)
class AbsoluteLimit:
    """`value` in SI units, which no node of the fleet may be worse than; `source`: who says so."""

    value: float
    source: str


@dataclass(frozen=True)
class SlowFigure:
    """`value` in SI units, and its `change` from the fleet's median as a fraction. `suspect`: it decides nothing until it is measured
    again."""

    metric: str
    value: float
    change: float
    suspect: bool


@dataclass(frozen=True)
class BeyondLimit:
    """A figure that is worse than an absolute limit; `value` in SI units."""

    metric: str
    value: float
    limit: AbsoluteLimit


@dataclass(frozen=True)
class NoFigure:
    """A figure that other nodes have, or a limit needs, and the node has not."""

    metric: str


@dataclass(frozen=True)
class CountedFault:
    """A counter of the node's GPUs that should be 0; `count`: its sum over them."""

    counter: str
    count: int


@dataclass(frozen=True)
class SharedSerial:
    """A serial number of the node's GPUs that `others` have too."""

    serial: str
    others: tuple[str, ...]


NodeReason = str | SlowFigure | BeyondLimit | NoFigure | CountedFault | SharedSerial
"""A fault or a fact of a node, as it was reported, or a figure of it."""


@dataclass(frozen=True)
class NodeVerdict:
    """`reasons`: why it goes back. `lacking`: why it can be neither accepted nor sent back, such as the figures that it has not. `slow`: metric → how
    much worse than the fleet it is, as a share."""

    node: Node
    reasons: tuple[NodeReason, ...]
    slow: Mapping[str, float]
    lacking: tuple[NodeReason, ...] = ()
    upgrade: tuple[str, ...] = ()
    """Of `lacking`, what differs because an operator rolls it out."""

    @property
    def verdict(self) -> Verdict:
        """Met by a node that is accepted, broken by one that goes back."""
        return "broken" if self.reasons else "not_shown" if self.lacking else "met"

    @property
    def reset_first(self) -> bool:
        """Whether it goes back only for what a reset of its GPUs may mend."""
        return bool(self.reasons) and all(isinstance(why, CountedFault) and why.counter in _MENDED_BY_RESET for why in self.reasons)

    @property
    def text(self) -> str:
        if self.reasons:
            return "send back"
        if not self.lacking:
            return "accept"
        return UPGRADE if set(self.lacking) <= set(self.upgrade) else "not measured"


@dataclass(frozen=True)
class FleetVerdict:
    """All nodes by name; `tests`: of each metric, what could be found; `limited`: metrics with an absolute limit."""

    nodes: tuple[NodeVerdict, ...]
    tests: tuple[FigureTest, ...]
    limited: tuple[str, ...] = ()

    @property
    def returned(self) -> tuple[NodeVerdict, ...]:
        return tuple(verdict for verdict in self.nodes if verdict.reasons)

    @property
    def to_reset(self) -> tuple[NodeVerdict, ...]:
        """Of `returned`, what a reset may mend."""
        return tuple(verdict for verdict in self.returned if verdict.reset_first)

    @property
    def network(self) -> bool:
        """Whether anything was measured between nodes."""
        return any(metric in verdict.node.figures for verdict in self.nodes for metric in PAIR_METRICS)

    @property
    def unmeasured(self) -> tuple[NodeVerdict, ...]:
        return tuple(verdict for verdict in self.nodes if verdict.text == "not measured")

    @property
    def upgrading(self) -> tuple[NodeVerdict, ...]:
        return tuple(verdict for verdict in self.nodes if verdict.text == UPGRADE)

    @property
    def verdict(self) -> Verdict:
        """Of the whole delivery: met only if every node is accepted."""
        return together(verdict.verdict for verdict in self.nodes)


def absolute_limits(provider: Provider, workload: str, references: References) -> dict[str, AbsoluteLimit]:
    """Metric → its limit: the promised speed of the workload, and LEAST_OF_PUBLISHED of what is published for one accelerator of this product or all of a
    node's."""
    limits, sheet = {}, references.sheet_of(provider.accelerator.product)
    for entry in references.published if sheet is not None else ():
        if (
            sheet is not None
            and entry.kind == "hardware"
            and entry.accelerator == sheet.name
            and entry.count in (1, provider.accelerator.count)
        ):
            value = entry.amount * LEAST_OF_PUBLISHED ** -_sign(entry.metric)
            limits[entry.metric] = AbsoluteLimit(value, f"{LEAST_OF_PUBLISHED:.0%} of {entry.by}'s figure for {sheet.name}")
    floor = SpeedFloors.floors(provider.sla).get(workload)
    return limits if floor is None else {**limits, floor.metric: AbsoluteLimit(floor.limit, f"promised in sla.speed_floors: {floor.text}")}


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


def judge_fleet(
    nodes: Sequence[Node],
    slow_before: Mapping[str, Collection[str]] | None = None,
    limits: Mapping[str, AbsoluteLimit] | None = None,
) -> FleetVerdict:
    """The verdict on each node of one fleet, which should be alike. `slow_before`: node → metrics in which an earlier measurement of it was slow;
    `limits`: metric → its absolute limit."""
    before, limits = slow_before or {}, limits or {}
    metrics = sorted({name for node in nodes for name, value in node.figures.items() if is_measured(value) and _sign(name)})
    facts = _compared_facts(nodes)
    lacking = _lacking(nodes, facts, metrics, limits)
    measured = [node.name for node in nodes if not node.missing]
    upgrades = _upgrades(measured, facts)
    for name, texts in upgrades.items():
        lacking[name] += texts.values()
    for name, shared in _shared_serials(nodes).items():
        lacking[name] += shared
    complete = [node.name for node in nodes if not lacking[node.name]]
    if len(complete) == 1 and not set(limits) & set(metrics):
        lacking[complete[0]].append(ALONE)
    tests, slow = [], dict[str, dict[str, float]]()
    for metric in metrics:
        own = {node.name: node.figures[metric] for node in nodes if is_measured(node.figures.get(metric))}
        compared = [name for name in complete if name in own]
        if compared and len(own) > 1:
            tests.append(_judge_figure(metric, own, compared, len(metrics), slow))
    rules = _differing_facts(measured, facts, upgrades)
    verdicts = []
    for node in sorted(nodes, key=lambda n: natural_order(n.name)):
        figures = slow.get(node.name, {})
        certain: list[NodeReason] = []
        doubted: list[NodeReason] = []
        for test in tests:
            if (m := test.metric) in figures:
                # Another driver or layout can explain it.
                sure = node.name not in upgrades and (test.detectable is None or m in before.get(node.name, ()))
                (certain if sure else doubted).append(SlowFigure(m, node.figures[m], node.figures[m] / test.median - 1, not sure))
        counted = (CountedFault(name, count) for name in _COUNTERS if (count := node.counters.get(name, 0)) > 0)
        reasons: dict[NodeReason, None] = dict.fromkeys(
            (*node.faults, *counted, *rules.get(node.name, ()), *_beyond(node, limits), *certain)
        )
        open_texts = tuple(dict.fromkeys((*lacking[node.name], *doubted)))
        verdicts.append(NodeVerdict(node, tuple(reasons), figures, open_texts, tuple(upgrades.get(node.name, {}).values())))
    return FleetVerdict(tuple(verdicts), tuple(tests), tuple(sorted(limits)))


Facts = Mapping[str, Mapping[str, Sequence[Scalar]]]
"""Kind of fact → node → its known values, such as one a GPU; empty where it has none."""


def _compared_facts(nodes: Sequence[Node]) -> Facts:
    found: dict[str, dict[str, list[Scalar]]] = {}
    for node in nodes:
        for key, value in node.facts.items():
            if (kind := _compared_kind(key)) is not None:
                if kind not in found:
                    found[kind] = {each.name: [] for each in nodes}
                if value is not None and value != "" and not (isinstance(value, float) and math.isnan(value)):
                    found[kind][node.name].append(value)
    return dict(sorted(found.items()))


def _lacking(
    nodes: Sequence[Node], facts: Facts, metrics: Sequence[str], limits: Mapping[str, AbsoluteLimit]
) -> dict[str, list[NodeReason]]:
    """Node → what other nodes have, or a limit needs, and it has not."""
    wanted = (*metrics, *(m for m in limits if m not in metrics))
    lacks: dict[str, list[NodeReason]] = {}
    for node in nodes:
        absent: list[NodeReason] = [NoFigure(m) for m in wanted if not is_measured(node.figures.get(m))]
        lacks[node.name] = [node.missing] if node.missing else absent if metrics else [*absent, "no figure was measured"]
    for kind, known in facts.items():
        most = _majority(len(values) for values in known.values() if values)
        having = {name for name, values in known.items() if any(map(_is_known, values))}
        for name in (node.name for node in nodes if not node.missing):
            own = known[name]
            if not own and having - {name}:
                lacks[name].append(f"no {kind}")
            elif isinstance(most, int) and len(own) < most:
                lacks[name].append(f"{kind} of {len(own)} of {most}")
            elif kind in _POSITIVE and having and name not in having:
                lacks[name].append(f"{kind} {own[0]}")
    return lacks


def _shared_serials(nodes: Sequence[Node]) -> dict[str, list[SharedSerial]]:
    """Node → the serial numbers of its GPUs that other nodes have too: a card is in one machine, so it is unknown which of them was measured."""
    having: dict[str, dict[str, None]] = {}
    for node in nodes:
        for serial in node.serials:
            if serial.strip("0"):  # a vendor's placeholder, or a lost card, is no number
                having.setdefault(serial, {})[node.name] = None
    found: dict[str, list[SharedSerial]] = {}
    for serial, names in having.items():
        for name in names if len(names) > 1 else ():
            found.setdefault(name, []).append(SharedSerial(serial, tuple(other for other in names if other != name)))
    return found


def _is_known(value: Scalar) -> bool:
    """Also that a number is not 0."""
    return value is not None and value is not False and value != 0


def _beyond(node: Node, limits: Mapping[str, AbsoluteLimit]) -> list[BeyondLimit]:
    """Its figures that are worse than an absolute limit."""
    found = []
    for metric, limit in sorted(limits.items()):
        value = node.figures.get(metric)
        if value is not None and is_measured(value) and _sign(metric) * (value - limit.value) > 0:
            found.append(BeyondLimit(metric, value, limit))
    return found


def _sign(metric: str) -> int:
    return {"higher_is_better": -1, "lower_is_better": 1}.get(METRICS[metric].direction, 0)


def _judge_figure(
    metric: str,
    figures: Mapping[str, float],
    compared: Sequence[str],
    metrics: int,
    slow: dict[str, dict[str, float]],
) -> FigureTest:
    """Compare `figures` with those of the `compared` nodes; add the nodes in doubt to `slow`. Positive logarithms are worse than the median."""
    sign, values = _sign(metric), np.array([figures[name] for name in compared])
    worse = sign * np.log(values)
    middle = float(np.median(worse))
    if len(values) < MIN_NODES:
        reference, limit, detectable = float(worse.min()), -math.log1p(-SMALL_FLEET_LIMIT), None
    else:
        scale = max(float(spread(worse - middle)), _LEAST_SCALE)
        critical, found = critical_distance(len(values), false_alarms(len(values)) / metrics)
        least = -math.log1p(-MIN_EFFECT)
        reference, limit, detectable = middle, max(critical * scale, least), -math.expm1(-max(found * scale, least))
    for name, value in figures.items():
        distance = sign * math.log(value) - reference
        if distance > limit:
            slow.setdefault(name, {})[metric] = -math.expm1(-distance)
    return FigureTest(metric, len(values), float(np.median(values)), -math.expm1(-limit), detectable)


def spread(distances: np.ndarray) -> np.ndarray:
    """The standard deviation of normal noise, over the last axis of distances from the median: from the MAD, or from the slow side where that is longer
    (skewed noise), which needs enough nodes to leave out a tenth of them."""
    middle: np.ndarray = _NORMAL_MAD * np.median(np.abs(distances), axis=-1)
    return middle if distances.shape[-1] < _SKEW_NODES else np.maximum(middle, np.quantile(distances, 0.9, axis=-1) / _NORMAL_Q90)


def false_alarms(n: int) -> float:
    """The share for n nodes. Long tails reach further in larger fleets, and twice more often, than the normal limit does."""
    return FALSE_ALARMS * min(1.0, _USUAL_NODES / n)


@cache
def critical_distance(n: int, alpha: float) -> tuple[float, float]:
    """For n healthy nodes with normal noise, in units of `spread`: the distance from the median that the worst node exceeds with probability `alpha`, and, in
    standard deviations, the slowdown of one node that exceeds it in POWER of fleets."""
    draws = np.random.default_rng(n).normal(size=(min(_DRAWS, max(4000, 4_000_000 // n)), n))
    middle = np.median(draws, axis=1)
    scale = spread(draws - middle[:, None])
    critical = float(np.quantile((draws.max(axis=1) - middle) / scale, 1 - alpha))
    shifted = draws.copy()
    shifted[:, 0] = 1e9  # a node that is found lies beyond the median, wherever it is
    beyond = np.median(shifted, axis=1)
    return critical, float(np.quantile(critical * spread(shifted - beyond[:, None]) + beyond - draws[:, 0], POWER))


def _upgrades(names: Sequence[str], facts: Facts) -> dict[str, dict[str, str]]:
    """Node → kind of fact → what is being rolled out: a driver or MIG layout of ROLLOUT_NODES or more, which most do not have. Without a majority every
    node is within the upgrade."""
    found: dict[str, dict[str, str]] = {}
    for kind in _ROLLED_OUT:
        by_value: dict[str, list[str]] = {}
        for name in names:
            if values := sorted({str(value) for value in facts.get(kind, {}).get(name, ())}):
                by_value.setdefault(", ".join(values), []).append(name)
        if sum(len(own) >= ROLLOUT_NODES for own in by_value.values()) < 2:
            continue
        usual = next((value for value, own in by_value.items() if 2 * len(own) > sum(map(len, by_value.values()))), None)
        for value, own in by_value.items():
            if value == usual or len(own) < ROLLOUT_NODES:
                continue
            rest = f"most have {usual}" if usual is not None else "no value is that of most nodes"
            for name in own:
                found.setdefault(name, {})[kind] = f"{UPGRADE}: {kind} {value} on {len(own)} of {len(names)} nodes, {rest}"
    return found


def _differing_facts(names: Sequence[str], facts: Facts, upgrades: Mapping[str, Collection[str]]) -> dict[str, list[str]]:
    """Node → its facts that differ from what most of the named nodes have: any other driver, firmware or link, a lower power limit or width; without
    those of `upgrades`."""
    reasons: dict[str, list[str]] = {name: [] for name in names}
    for kind, known in facts.items():
        usual = _majority(value for name in names for value in known[name])
        lower = kind.rpartition(".")[2] in _LOWER_IS_WORSE
        for name in names:
            others = sorted({str(v) for v in known[name] if v != usual and (not lower or _less(v, usual))})
            rolled = upgrades.get(name, ())
            if usual is not None and others and kind not in rolled and not (kind in _WITH_MIG and "gpu.mig" in rolled):
                reasons[name].append(f"{kind} {', '.join(others)}; most of the fleet has {usual}")
    return reasons


@lru_cache(maxsize=4096)  # each node of a fleet has the same few hundred keys
def _compared_kind(key: str) -> str | None:
    """Kind of a fact that nodes are compared by: its key without an index. None for another."""
    first, _, rest = key.partition(".")
    last = rest.partition(".")[2]
    of_gpu = first == "gpu" and last in (*_MAJORITY_GPU_FACTS, *_LOWER_IS_WORSE)
    if not (key in _MAJORITY_FACTS or of_gpu or (first == "infiniband" and (last in _INFINIBAND or rest == "adapters"))):
        return None
    return ".".join(part for part in key.split(".") if not part.isdigit())


def _majority(values: Iterable[Scalar]) -> Scalar:
    """What more than half of them are; None without such."""
    counts = Counter(values)
    common = counts.most_common(1)
    return common[0][0] if common and 2 * common[0][1] > counts.total() else None


def _less(value: Scalar, usual: Scalar) -> bool:
    return isinstance(value, int | float) and isinstance(usual, int | float) and value < usual
