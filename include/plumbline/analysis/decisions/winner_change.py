"""Why the first choice changed: the move of the new first's lead over the old one, split by cause.

The score is a weighted geometric mean, so the lead, the logarithm of the ratio of both scores, is a sum over the columns: weight × log of the
ratio of both values. Each column's move has a part of its weight (at the mean value) and one of its value (at the mean weight); the parts add
up to the whole move. Of a cost, the price's part follows from the stored prices; the rest is what the hour delivers.

`why_moved` names the largest part, and says where no part is shown to move the choice. Every surface reads it there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
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

_RATIO, _NOTHING, _ROUNDED = "ratio to the best", 1e-9, 1e-6
_READING = attrgetter("statistic", "phase", "valued")
"""How a column is read: of two that are read differently the values are not compared."""


@dataclass(frozen=True)
class LeadPart:
    """`points`: the part of the move, in logarithms of the score. `provider`: whose number moved; empty where the two cannot be split.

    `half`: half of the interval of `points`, from the repeats; 0 of a price or a declaration, None where it is not known. `change`: of the
    provider's own number, as a fraction: of its price, of the metric, or of what an hour delivers. `since`: of a price.
    """

    cause: Cause
    workload: str
    metric: str
    points: float
    provider: str = ""
    half: float | None = 0.0
    change: float | None = None
    since: date | None = None


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


Shown = Literal["part", "eligibility", "noise", "close", "unproven", "unknown"]
"""part: the largest one is shown; eligibility: one of the two could not be first; noise: without what lies inside the repeats' intervals the
choice would not move; close: the two largest cannot be distinguished; unproven: no interval is known of the largest; unknown: numbers are not
stored."""


@dataclass(frozen=True)
class Why:
    """Why a first choice moved. `parts`: those towards the new first outside of noise, those of one price together, the largest first. `reasons`:
    of eligibility, in words. `move`: of the lead, in logarithms of the score."""

    shown: Shown
    parts: tuple[LeadPart, ...] = ()
    reasons: tuple[str, ...] = ()
    move: float = 0.0

    @property
    def largest(self) -> LeadPart | None:
        """The largest part; None where none is shown to be it."""
        return self.parts[0] if self.shown == "part" else None


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
    parts: list[LeadPart] = []
    unproven = []
    for key in dict.fromkeys([*leads[0], *leads[1]]):
        was, now = leads[0].get(key), leads[1].get(key)
        if was is None or now is None or _READING(was[2]) != _READING(now[2]):
            declared = (now[0] * now[1] if now else 0.0) - (was[0] * was[1] if was else 0.0)
            parts.append(LeadPart("weights", *key, declared))
            continue
        weight = (was[0] + now[0]) / 2
        parts.append(LeadPart("weights", *key, (now[0] - was[0]) * (was[1] + now[1]) / 2))
        rest = weight * (now[1] - was[1])
        moved = _own_moves(before, after, (new, old), key, now[2], weight, now[1] - was[1])
        halves = {name: _half_width(scatter, key, (name,), now[2]) for name in (new, old)}
        halves[""] = inside = _half_width(scatter, key, (new, old), now[2])
        if now[2].unit == "USD":
            price = _price_moves(before, after, (new, old)) if now[2].valued == _RATIO else None
            if price is None:
                parts += [LeadPart("cost", *key, points, who, _times(halves[who], weight), change) for who, points, change in moved]
                continue
            parts += [LeadPart("price", *key, weight * m, who, 0.0, change, after.prices[who].since) for who, m, change in price]
            rest -= weight * sum(m for _, m, _ in price)
            moved = _without_prices(moved, price, weight, rest)
        cause: Cause = "noise" if inside is not None and abs(rest) <= weight * inside else "speed"
        parts += [LeadPart(cause, *key, points, who, _times(halves[who], weight), change) for who, points, change in moved]
        if inside is None and abs(rest) > _NOTHING:
            unproven.append(key)
    return WinnerChange(new, old, totals[0], totals[1], tuple(p for p in parts if abs(p.points) > _NOTHING), unproven=tuple(unproven))


def why_not_eligible(before: DecisionDocument, after: DecisionDocument) -> tuple[str, ...]:
    """What kept the new first out before and keeps the old one out now, in words; empty of one without results, and where both could be first."""
    pairs = ((before, after.first_name, "before"), (after, before.first_name, "now"))
    ranked = ((decision, name, when) for decision, name, when in pairs if any(r.provider == name for r in decision.ranking))
    return tuple(text for decision, name, when in ranked if name is not None for text in _missing(decision, name, when))


def why_moved(change: WinnerChange) -> Why:
    """What moved the choice: its largest part, or why none is shown to be it."""
    if change.before is None or change.after is None:
        return Why("eligibility" if change.unknown else "unknown", reasons=change.unknown)
    move = change.after - change.before
    real = _towards(change)
    # What was measured beyond noise is not needed for the new lead, or does not exist.
    if not real or change.after - sum(p.points for p in real) > _NOTHING:
        return Why("noise", real, move=move)
    largest, rivals = real[0], real[1:2]
    if largest.half is None:
        return Why("unproven", real, move=move)
    for rival in rivals:
        alone = rival.half is None and change.before + largest.points > _NOTHING
        apart = rival.half is not None and largest.points - rival.points > math.hypot(largest.half, rival.half)
        if not alone and not apart:
            return Why("close", real, move=move)
    return Why("part", real, move=move)


def _towards(change: WinnerChange) -> tuple[LeadPart, ...]:
    """The parts that move the lead towards the new first, outside of noise, the largest first; those of one price are one."""
    together: dict[tuple[str, ...], LeadPart] = {}
    for part in (p for p in change.parts if p.cause != "noise"):
        key = ("price", part.provider) if part.cause == "price" else (part.cause, part.provider, part.workload, part.metric)
        known = together.get(key)
        together[key] = part if known is None else replace(known, points=known.points + part.points)
    return tuple(sorted((p for p in together.values() if p.points > _NOTHING), key=lambda p: -p.points))


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


_Moves = list[tuple[str, float, float | None]]
"""(provider, part of the move of the lead, change of its own number)."""


def _own_moves(
    before: DecisionDocument,
    after: DecisionDocument,
    pair: tuple[str, str],
    key: tuple[str, str],
    column: Column,
    weight: float,
    move: float,
) -> _Moves:
    """A value's part of the lead by provider; in one, without a name, where the stored values do not say whose it is."""
    known = METRICS.get(column.metric)
    moves: _Moves = []
    for name, towards in zip(pair, (1.0, -1.0), strict=True):
        values = [_value(decision, name, key) for decision in (before, after)]
        if known is None or column.valued != _RATIO or not values[0] or not values[1]:
            return [("", weight * move, None)]
        moved = float(log_worths(known, np.array([values[1]]), float(worth(known, np.array([values[0]]))[0]))[0])
        moves.append((name, weight * towards * moved, values[1] / values[0] - 1))
    # Values beyond a thousandth of the best count as a thousandth: their own moves are not the lead's.
    return moves if abs(sum(m for _, m, _ in moves) - weight * move) < _ROUNDED else [("", weight * move, None)]


def _value(decision: DecisionDocument, provider: str, key: tuple[str, str]) -> float | None:
    row = next(r for r in decision.ranking if r.provider == provider)
    return next((v for c, v in zip(decision.columns, row.values, strict=True) if (c.workload, c.metric) == key), None)


def _price_moves(before: DecisionDocument, after: DecisionDocument, pair: tuple[str, str]) -> list[tuple[str, float, float]] | None:
    """How much each price moves the log ratio of both costs towards the first of the pair, and its change; None where one price is not stored."""
    moves = []
    for name, towards in zip(pair, (-1.0, 1.0), strict=True):
        was, has = before.prices.get(name), after.prices.get(name)
        if was is None or has is None or not was.usd_per_hour or not has.usd_per_hour:
            return None
        moves.append((name, towards * math.log(has.usd_per_hour / was.usd_per_hour), has.usd_per_hour / was.usd_per_hour - 1))
    return moves


def _without_prices(moved: _Moves, prices: Sequence[tuple[str, float, float]], weight: float, rest: float) -> _Moves:
    """What is left of a cost's moves without the price: what an hour delivers, and its change."""
    if len(moved) != len(prices):
        return [("", rest, None)]
    left = [(name, points - weight * price) for (name, points, _), (_, price, _) in zip(moved, prices, strict=True)]
    # The lead of the first of the pair grows with what its hour delivers, and falls with the other's.
    signs = (1.0, -1.0)
    return [
        (name, points, math.exp(sign * points / weight) - 1 if weight else None) for (name, points), sign in zip(left, signs, strict=True)
    ]


def _times(half: float | None, weight: float) -> float | None:
    return None if half is None else weight * half


def _half_width(scatter: tuple[Scatter, Scatter], key: tuple[str, str], providers: Sequence[str], column: Column) -> float | None:
    """Half the interval of the log ratio's move, from the intervals' independent halves before and after, of one provider or of both."""
    halves = [own.get((name, *key)) for own in scatter for name in providers]
    if column.valued != _RATIO or any(h is None for h in halves):
        return None
    return math.sqrt(sum(h * h for h in halves if h is not None))
