"""One attempt of one trial as plain numbers: what scorecards, decisions and costs are made from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import Literal

from plumbline.analysis.prices.book import InstanceShare
from plumbline.declarations import Criterion
from plumbline.metrics import PHASES
from plumbline.metrics.rows import MetricRow
from plumbline.results.limit import Limit
from plumbline.results.token_usage import TokenUsage

WorkloadKind = Literal["training", "inference"]
USABLE = ("valid", "degraded")
"""Statuses whose numbers count. Invalid, failed and missing trials are counted as trials, never as numbers."""

SUSTAINED = "highest_sustained_rate"
"""The metric of a sweep that inference is priced by."""
_FIRST = ("steady", "cold_start", "recovery")
PHASE_ORDER = (*_FIRST, *(phase for phase in PHASES if phase not in (*_FIRST, "warmup", "cooldown")), "warmup", "cooldown")
"""Where a metric's leading number is looked for when nobody names a phase: the first phase in which it was measured."""


@dataclass(frozen=True)
class Conditions:
    """Under what a trial was measured, as far as it decides what its numbers may be put beside.

    `protocol` and `engine` are those of the series key; `asked` is the specification as (field, value), every default written out.
    `stack`: what computed, as (fact, version), see `comparison_class.FACTS`; empty if it was not recorded. `accelerator`: its product, None of a CPU.
    """

    source: Literal["measured", "simulated"]
    protocol: str
    engine: str
    asked: tuple[tuple[str, str | int | float | bool | None], ...] = ()
    stack: tuple[tuple[str, str], ...] = ()
    accelerator: str | None = None


@dataclass(frozen=True)
class InterruptionRate:
    """Interruptions of a whole run an hour, and who says so."""

    per_hour: float
    source: str


@dataclass(frozen=True)
class TrialSample:
    """One attempt of one trial. A planned trial without any result has the status "missing" and no metrics."""

    trial_id: str
    provider: str
    kind: WorkloadKind
    workload: str
    version: int
    status: str
    slot: str
    repeat: int
    started: date | None
    metrics: tuple[MetricRow, ...] = ()
    attempt: int = 1
    failure_class: str | None = None
    reasons: tuple[str, ...] = ()
    held_s: float | None = field(
        default=None, metadata={"unit": "s", "meaning": "request to release, idle time included, summed over nodes"}
    )
    nodes: int = 1
    gpus: int | None = field(default=None, metadata={"meaning": "accelerators that it holds on each node; None: all"})
    share: InstanceShare | None = field(default=None, metadata={"meaning": "what its costs charge of each instance; None: all of it"})
    restarts: InterruptionRate | None = field(
        default=None, metadata={"meaning": "interruptions whose expected restarts its costs include; None: none"}
    )
    includes: tuple[str, ...] = field(default=(), metadata={"meaning": "what its costs include beside hours or tokens"})
    without: tuple[str, ...] = field(default=(), metadata={"meaning": "what its costs are without, each with the reason"})
    uncosted: str = field(default="", metadata={"meaning": "why its outcomes have no cost; empty: they have one, or no rate or price"})
    usage: tuple[TokenUsage, ...] = field(default=(), metadata={"meaning": "tokens that a hosted model counted"})
    conditions: Conditions | None = field(default=None, metadata={"meaning": "None of a trial whose document is not at hand"})
    limits: tuple[Limit, ...] = field(default=(), metadata={"meaning": "what limited its highest rate, or its step"})
    apart: str = field(default="", metadata={"meaning": "why its provider takes no part in a decision; empty: it does"})
    resolved: Mapping[str, Criterion] = field(
        default_factory=dict,
        hash=False,
        metadata={"meaning": "by a relative criterion's text, the one with its reference's limit, if known"},
    )

    @property
    def usable(self) -> bool:
        """Whether its numbers count."""
        return self.status in USABLE

    def value(self, metric: str, statistic: str, phase: str) -> float | None:
        """One number, None if absent."""
        number = self.number(metric, statistic, phase)
        return number.value if number else None

    def number(self, metric: str, statistic: str, phase: str) -> MetricRow | None:
        """One number with what is behind it, None if there is no such row."""
        return self._numbers.get((metric, statistic, phase))

    @cached_property
    def _numbers(self) -> dict[tuple[str, str, str], MetricRow]:
        # Decisions ask for hundreds of thousands of numbers. Of equal names the first one counts.
        return {(m.metric, m.statistic, m.phase): m for m in reversed(self.metrics)}


def leading_phase(trials: Iterable[TrialSample], metric: str, statistic: str) -> str | None:
    """The phase whose numbers lead for this metric: the first of `PHASE_ORDER` that any usable trial measured it in."""
    usable = [t for t in trials if t.usable]
    return next((phase for phase in PHASE_ORDER if any(t.value(metric, statistic, phase) is not None for t in usable)), None)
