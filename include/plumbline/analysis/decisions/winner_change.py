"""Why the first choice changed: the move of the new first's lead over the old one, split by cause.

The score is a weighted geometric mean, so the lead, the logarithm of the ratio of both scores, is a sum over the columns: weight × log of the
ratio of both values. Each column's move has a part of its weight (at the mean value) and one of its value (at the mean weight); the parts add
up to the whole move. Of a cost, the price's part follows from the stored prices; the rest is what the hour delivers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Literal

import numpy as np

from plumbline.analysis.decisions.decision import Column
from plumbline.analysis.decisions.decision_record import DecisionDocument
from plumbline.analysis.decisions.value_functions import log_worths, worth
from plumbline.metrics import METRICS, own_metric
from plumbline.metrics.pooling import pool

Cause = Literal["price", "speed", "noise", "cost", "weights"]
"""speed: a measured number outside the repeats' intervals; noise: one inside them; cost: a cost whose price is not stored, so that price and
speed are one part; weights: declared weights, value functions or phases."""

Scatter = Mapping[tuple[str, str, str], float]
"""(provider, workload, metric) → half of the interval of the log value; absent where fewer than two repeats are known."""

_RATIO, _NOTHING = "ratio to the best", 1e-9
_READING = attrgetter("statistic", "phase", "valued")
"""How a column is read: of two that are read differently the values are not compared."""


@dataclass(frozen=True)
class LeadPart:
    """`points`: the part of the move, in logarithms of the score."""

    cause: Cause
    workload: str
    metric: str
    points: float


@dataclass(frozen=True)
class WinnerChange:
    """The lead of `new` over `old` in both decisions, and the parts of its move, which add up to `after - before`.

    A lead is None where one of the two was not eligible then: there are no parts, and `unknown` says why. `unproven`: (workload, metric) of
    speed parts of which the repeats' intervals are not known.
    """

    new: str
    old: str
    before: float | None
    after: float | None
    parts: tuple[LeadPart, ...] = ()
    unknown: tuple[str, ...] = ()
    unproven: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class StoredChange:
    """The decision that changed the first choice."""

    decision_id: str
    decided_at: datetime
    change: WinnerChange


def explain_change(before: DecisionDocument, after: DecisionDocument, scatter: tuple[Scatter, Scatter] = ({}, {})) -> WinnerChange | None:
    """The change between two decisions about the same workloads; None where the first is the same or unknown.

    `scatter`: of the decision before and after.
    """
    old, new = before.first_name, after.first_name
    if old is None or new is None or old == new:
        return None
    leads = [_columns(decision, new, old) for decision in (before, after)]
    missing = [
        text for decision, when in ((before, "before"), (after, "now")) for name in (new, old) for text in _missing(decision, name, when)
    ]
    totals = [None if contributions is None else sum(w * d for w, d, _ in contributions.values()) for contributions in leads]
    if leads[0] is None or leads[1] is None:
        return WinnerChange(new, old, totals[0], totals[1], unknown=tuple(missing))
    parts, unproven = [], []
    for key in dict.fromkeys([*leads[0], *leads[1]]):
        was, now = leads[0].get(key), leads[1].get(key)
        if was is None or now is None or _READING(was[2]) != _READING(now[2]):
            moved = (now[0] * now[1] if now else 0.0) - (was[0] * was[1] if was else 0.0)
            parts.append(LeadPart("weights", *key, moved))
            continue
        weight = (was[0] + now[0]) / 2
        parts.append(LeadPart("weights", *key, (now[0] - was[0]) * (was[1] + now[1]) / 2))
        rest = weight * (now[1] - was[1])
        if now[2].unit == "USD":
            price = _price_move(before, after, new, old) if now[2].valued == _RATIO else None
            if price is None:
                parts.append(LeadPart("cost", *key, rest))
                continue
            parts.append(LeadPart("price", *key, weight * price))
            rest -= weight * price
        inside = _half_width(scatter, key, (new, old), now[2])
        parts.append(LeadPart("noise" if inside is not None and abs(rest) <= weight * inside else "speed", *key, rest))
        if inside is None and abs(rest) > _NOTHING:
            unproven.append(key)
    return WinnerChange(new, old, totals[0], totals[1], tuple(p for p in parts if abs(p.points) > _NOTHING), unproven=tuple(unproven))


def scatter_of(metric: str, values: Sequence[float]) -> float | None:
    """Half of the interval of the log value of one provider's repeats; None with fewer than two."""
    if len(values) < 2:
        return None
    pooled = pool(values)
    return interval_half(metric, pooled.value, pooled.low, pooled.high)


def interval_half(metric: str, value: float, low: float | None, high: float | None) -> float | None:
    """Half of an interval, as a logarithm of the value's ratio; None without an interval."""
    if low is None or high is None:
        return None
    # Of a workload's own metric neither unit nor direction changes the width of a ratio: only a share of failures is turned into its complement.
    known = METRICS.get(metric) or own_metric(metric, "1", "higher_is_better")
    ends = log_worths(known, np.array([low, high]), float(worth(known, np.array([value]))[0]))
    return abs(float(ends[1] - ends[0])) / 2


def _columns(decision: DecisionDocument, new: str, old: str) -> dict[tuple[str, str], tuple[float, float, Column]] | None:
    """(workload, metric) → weight, log of the ratio of the values of both providers, and the column; None if one was not eligible."""
    ratios = {r.provider: r.ratios for r in decision.ranking}
    of_new, of_old = ratios.get(new), ratios.get(old)
    if not of_new or not of_old:
        return None
    values = zip(decision.columns, of_new, of_old, strict=True)
    return {(c.workload, c.metric): (c.weight, math.log(a) - math.log(b), c) for c, a, b in values}


def _missing(decision: DecisionDocument, provider: str, when: str) -> list[str]:
    row = next((r for r in decision.ranking if r.provider == provider), None)
    if row is None:
        return [f"{provider} had no results {when}" if when == "before" else f"{provider} has no current results"]
    return [f"{provider}, {when}: {why}" for why in row.why_not]


def _price_move(before: DecisionDocument, after: DecisionDocument, new: str, old: str) -> float | None:
    """How much the prices move the log ratio of both costs towards `new`; None where one price is not stored."""
    logs = []
    for name in (new, old):
        for decision in (before, after):
            price = decision.prices.get(name)
            if price is None or not price.usd_per_hour:
                return None
            logs.append(math.log(price.usd_per_hour))
    return (logs[0] - logs[1]) - (logs[2] - logs[3])


def _half_width(scatter: tuple[Scatter, Scatter], key: tuple[str, str], providers: Sequence[str], column: Column) -> float | None:
    """Half the interval of the log ratio's move, from the four intervals' independent halves."""
    halves = [own.get((name, *key)) for own in scatter for name in providers]
    if column.valued != _RATIO or any(h is None for h in halves):
        return None
    return math.sqrt(sum(h * h for h in halves if h is not None))
