"""Why a metric moved: recorded changes of the environment and the hardware probes, ranked, or the statement that nothing explains it.

A change of the environment counts by how plausible it is that it moves performance (its rule's weight in plumbline.analysis.drift.environment),
more if it touches the resource that the moved metric lives on (compute for step times, storage for checkpoints …), more again if
a probe of that resource moved the same way, less if that probe ran and did not move. A probe *agrees* when it is worse where the
metric is worse (or better where it is better) by at least 3 % and is as clear as its repeats allow; it is *unchanged* when it moved less than 5 %
and not clearly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from plumbline.analysis.drift.comparison import MetricComparison
from plumbline.analysis.drift.environment import Cause, EnvironmentChange, fact_rule
from plumbline.metrics import METRICS

ProbeAgreement = Literal["agrees", "unchanged", "contradicts", "unclear"]

_PROBES: dict[str, Cause] = {
    "matmul_tflops": "compute",
    "memory_bandwidth": "memory",
    "disk_write_bandwidth": "storage",
    "all_reduce_bus_bandwidth": "network",
    "inter_node_all_reduce_bus_bandwidth": "network",
}
_BY_METRIC: dict[str, tuple[Cause, ...]] = {
    "checkpoint_save_time": ("storage",),
    "checkpoint_blocking_time": ("storage",),
    "checkpoint_load_time": ("storage",),
    "data_wait_time": ("storage", "network"),
    "image_pull_time": ("network", "storage"),
    "time_to_ready": ("storage", "compute", "software"),
    "model_download_time": ("network", "storage"),
    "model_download_bandwidth": ("network", "storage"),
    "model_load_time": ("storage", "memory", "software"),
    "restart_penalty": ("storage", "compute", "software"),
}
_USUAL: tuple[Cause, ...] = ("compute", "memory", "software", "network", "isolation")
_AGREES_FROM, _UNCHANGED_BELOW, _CLEAR = 0.03, 0.05, 0.05
_ORDER: dict[ProbeAgreement, int] = {"agrees": 0, "contradicts": 1, "unclear": 2, "unchanged": 3}


@dataclass(frozen=True)
class Explanation:
    """One recorded change that may explain a movement; `score` ranks, it is not a probability."""

    subject: str
    text: str
    score: float


@dataclass(frozen=True)
class ProbeEvidence:
    """The evidence of one hardware probe about a movement."""

    metric: str
    effect: float
    says: ProbeAgreement


@dataclass(frozen=True)
class Attribution:
    """Explanations, best first, and the probes, those that agree first. Without an explanation nothing recorded explains the movement."""

    explanations: tuple[Explanation, ...]
    probes: tuple[ProbeEvidence, ...]


def attribute(lead: MetricComparison, rows: Sequence[MetricComparison], changes: Sequence[EnvironmentChange]) -> Attribution:
    """Explain the movement of `lead` by what else was recorded in the same comparison."""
    probes = tuple(_probe(row, lead) for row in rows if _is_probe(row))
    explanations = sorted(
        (Explanation(c.key, c.text, round(_score(c, lead, probes), 3)) for c in changes if c.matters), key=lambda e: (-e.score, e.subject)
    )
    ranked = sorted(probes, key=lambda p: (_ORDER[p.says], list(_PROBES).index(p.metric)))
    return Attribution(tuple(explanations), tuple(ranked))


def _is_probe(row: MetricComparison) -> bool:
    if row.metric not in _PROBES or row.phase != "environment":
        return False
    return row.statistic == METRICS[row.metric].statistic and row.effect is not None


def _probe(row: MetricComparison, lead: MetricComparison) -> ProbeEvidence:
    effect = row.effect or 0.0
    # With few repeats no p is small; then "as clear as it can be" (no overlap at all) is what there is to go by.
    clear = row.p is not None and (row.p <= _CLEAR or (row.smallest_p is not None and row.p <= row.smallest_p * (1 + 1e-9)))
    says: ProbeAgreement = "unclear"
    if clear and abs(effect) >= _AGREES_FROM:
        says = "agrees" if row.worse == lead.worse else "contradicts"
    elif abs(effect) < _UNCHANGED_BELOW:
        says = "unchanged"
    return ProbeEvidence(row.metric, effect, says)


def _score(change: EnvironmentChange, lead: MetricComparison, probes: Sequence[ProbeEvidence]) -> float:
    rule = fact_rule(change.key)
    touched = set(rule.causes) & set(_BY_METRIC.get(lead.metric, _USUAL))
    score = rule.weight * (1.0 if touched else 0.3) * change.trials / max(1, change.of_trials)
    concerned = [probe for probe in probes if _PROBES[probe.metric] in touched]
    if any(probe.says == "agrees" for probe in concerned):
        return score * 1.5
    # The resource was measured and is as it was: only what is not that resource (software) is left of the explanation.
    if concerned and all(probe.says in ("unchanged", "contradicts") for probe in concerned) and "software" not in touched:
        return score * 0.3
    return score
