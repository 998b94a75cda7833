"""One verdict for each cause: what a change of driver, image or node type did to all series that it touched, against those that it did not.

A cause is a value of a fact that came to providers; values that always came together are one cause. Each series gives one shift: the
logarithm of its leading number after over before, positive where worse, with its standard error. The shifts are combined in a mixed-effects
meta-regression:

1. Contrast. The median shift of the untouched series of the same workload and time is subtracted, so that a move of the whole fleet, such as
   one of a new harness, blames no cause.
2. A provider is one witness, however many workloads it ran: its series are averaged by the inverse of their variance, which has the errors
   and a between-series variance (DerSimonian–Laird, over all providers).
3. The between-provider variance is Paule–Mandel's, of touched and untouched providers about their own means. A usual campaign-to-campaign
   spread (a sixth of the warn threshold) counts as much as PRIOR_DF providers, so that one provider alone is not taken for exact.
   An untouched provider that moved far from the others has a change of its own and is no measure of the usual.
4. The difference of the two means is tested by Student's t with the standard error of Hartung and Knapp, never below the plain one. More than
   half of the touched providers must have moved: one wild provider does not accuse what others got too.

False alarms: a cause is judged once for each campaign since it came. The n-th look has the level ALARM_LEVEL / 2ⁿ, shared by the two kinds of
workload; all looks together stay below ALARM_LEVEL. `perf/pooled_causes.py` simulates it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

import numpy as np
from scipy import special

from plumbline.analysis.drift.environment import FACT_NAMES, FactChange
from plumbline.analysis.drift.noise import NOISE_FLOOR, PRIOR_DF

ALARM_LEVEL = 0.005
"""Probability that a harmless change is ever called harmful, of both kinds of workload and all looks: half of what is promised, as the fleet's
campaigns arrive one provider after the other."""
_KINDS, _FEWEST_UNTOUCHED, _FEWEST_SERIES = 2, 3, 2
USUAL_SPREAD, _MATTERS = 1 / 6, 1 / 3
"""Shares of the warn threshold: the spread of campaigns without a change, and the smallest effect that is worth a finding."""
_CLEAR, _STRAY = 1.96, 5
"""Standard errors from which a series moved by itself; usual spreads beyond which an untouched provider has a change of its own."""

PooledVerdict = Literal["regressed", "improved", "unchanged", "insufficient_data"]


@dataclass(frozen=True)
class PooledCause:
    """Values of facts that came together. `came`: provider → the campaign in which it was seen there first, `began` the first of them. `left`:
    providers still on another value."""

    facts: tuple[tuple[str, str], ...]
    came: Mapping[str, str]
    began: str
    left: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        """The permanent name of the cause, such as `cause/driver.version 570.86.15`."""
        return "cause/" + " ".join(self.facts[0])


@dataclass(frozen=True)
class SeriesShift:
    """`time`: names what lies between before and after; only shifts of one time are compared. `shift` (log, positive: worse) and its standard
    `error`; `warn`: the metric's practical threshold, a fraction."""

    provider: str
    series_key: str
    workload: str
    kind: str
    time: str
    shift: float
    error: float
    warn: float
    metric: str = ""

    @property
    def change(self) -> float:
        """How much worse, as a fraction."""
        return math.expm1(self.shift)


@dataclass(frozen=True)
class PooledEffect:
    """The effect of one cause on one kind of workload. `effect` and its 95 % interval: how much worse, a fraction. `moved`: the touched series that moved
    that way by themselves; `shifts`: all touched series, without what the untouched ones did."""

    kind: str
    effect: float
    ci_low: float
    ci_high: float
    p: float
    verdict: PooledVerdict
    warn: float
    moved: tuple[str, ...]
    shifts: tuple[SeriesShift, ...]
    untouched: int

    @property
    def providers(self) -> tuple[str, ...]:
        return tuple(sorted({s.provider for s in self.shifts}))

    @property
    def moved_providers(self) -> tuple[str, ...]:
        return tuple(sorted({s.provider for s in self.shifts if s.series_key in self.moved}))


def causes_of(changes: Sequence[FactChange]) -> tuple[PooledCause, ...]:
    """The causes that some provider still has; `changes` of providers that may be compared."""
    together: dict[tuple[tuple[str, str], ...], list[FactChange]] = defaultdict(list)
    for change in changes:
        if came := tuple(sorted((a.provider, a.campaign) for a in change.adoptions if a.current)):
            together[came].append(change)
    return tuple(
        PooledCause(
            tuple((c.fact, c.value) for c in sorted(own, key=lambda c: list(FACT_NAMES).index(c.fact))),
            dict(came),
            min((a for a in own[0].adoptions if a.current), key=lambda a: a.at).campaign,
            tuple(provider for provider, _ in own[0].others),
        )
        for came, own in together.items()
    )


def estimate_shift(before: Sequence[float], after: Sequence[float], worse: int) -> tuple[float, float, int] | None:
    """The mean logarithm of `after` over `before`, times `worse` (1: more is worse, -1), the scatter of a repeat and its degrees of freedom; None
    without a value on each side, or with one that has no logarithm."""
    if not before or not after or min(*before, *after) <= 0:
        return None
    old, new = np.log(before), np.log(after)
    df = len(old) + len(new) - 2
    squares = float(np.sum((old - old.mean()) ** 2) + np.sum((new - new.mean()) ** 2))
    return worse * float(new.mean() - old.mean()), math.sqrt(squares / df) if df else 0.0, df


def standard_error(scatter: float, df: int, of_workload: Sequence[float], usual: float, sizes: tuple[int, int]) -> float:
    """The standard error of a shift between so many repeats: a series' own `scatter` counts with its degrees of freedom, the median of its workload on all
    providers as PRIOR_DF; `usual` where nobody repeated."""
    shared = median(of_workload) if of_workload else usual
    variance = (df * scatter**2 + PRIOR_DF * shared**2) / (df + PRIOR_DF)
    return max(NOISE_FLOOR, math.sqrt(variance)) * math.sqrt(sum(1 / n for n in sizes))


def pooled_effect(touched: Sequence[SeriesShift], untouched: Sequence[SeriesShift], look: int = 1) -> PooledEffect | None:
    """The effect on one kind of workload; None with fewer than two touched series. `look`: campaigns since the cause came, 1 in its first."""
    if len(touched) < _FEWEST_SERIES:
        return None
    touched, untouched = _contrasted(touched, untouched)
    between_series = _between_series((*touched, *untouched))
    with_it, without = (_by_provider(own, between_series) for own in (touched, untouched))
    warn = median(s.warn for s in touched)
    usual = math.log1p(warn) * USUAL_SPREAD
    times = [_without_strays(group, usual) for group in _by_time(without)]
    without = [one for group in times for one in group]
    groups = [group for group in (with_it, *times) if group]
    df = sum(len(group) - 1 for group in groups)
    spread = (PRIOR_DF * usual**2 + df * _paule_mandel(groups, df)) / (PRIOR_DF + df)
    effect, variance = _mean(with_it, spread)
    if without:
        other, more = _mean(without, spread)
        effect, variance = effect - other, variance + more
    error = math.sqrt(variance * max(1.0, _scatter(groups, spread) / df if df else 1.0))
    p = float(2 * special.stdtr(PRIOR_DF + df, -abs(effect) / error))
    reach = float(special.stdtrit(PRIOR_DF + df, 0.975)) * error
    low, high = math.expm1(effect - reach), math.expm1(effect + reach)
    matters = math.log1p(warn) * _MATTERS
    sign = math.copysign(1.0, effect)
    most = 2 * sum(sign * y >= matters for y, *_ in with_it) > len(with_it)
    verdict: PooledVerdict = "insufficient_data"
    if p <= ALARM_LEVEL / 2**look / _KINDS and abs(effect) >= matters and most:
        verdict = "regressed" if effect > 0 else "improved"
    elif -warn < low and high < warn:
        verdict = "unchanged"
    moved = tuple(s.series_key for s in touched if sign * s.shift >= max(matters, _CLEAR * s.error))
    return PooledEffect(touched[0].kind, math.expm1(effect), low, high, p, verdict, warn, moved, tuple(touched), len(untouched))


_Provider = tuple[float, float, str]
"""Mean shift, its variance without the between-provider part, and the time."""


def _contrasted(touched: Sequence[SeriesShift], untouched: Sequence[SeriesShift]) -> tuple[list[SeriesShift], list[SeriesShift]]:
    """Without what the untouched series of the workload did at that time; else of all workloads, where there are enough."""
    own: dict[tuple[str, str], list[float]] = defaultdict(list)
    for s in untouched:
        own[s.workload, s.time].append(s.shift)
        own["", s.time].append(s.shift)

    def common(s: SeriesShift) -> float:
        known = (own.get(key, []) for key in ((s.workload, s.time), ("", s.time)))
        return next((median(shifts) for shifts in known if len(shifts) >= _FEWEST_UNTOUCHED), 0.0)

    return [replace(s, shift=s.shift - common(s)) for s in touched], [replace(s, shift=s.shift - common(s)) for s in untouched]


def _between_series(shifts: Sequence[SeriesShift]) -> float:
    """DerSimonian and Laird's variance between the series of a provider, over all providers."""
    scatter = weights = freedom = 0.0
    for own in _grouped(shifts).values():
        w = np.array([1 / s.error**2 for s in own])
        y = np.array([s.shift for s in own])
        scatter += float(np.sum(w * (y - np.average(y, weights=w)) ** 2))
        weights += float(w.sum() - np.sum(w**2) / w.sum())
        freedom += len(own) - 1
    return max(0.0, (scatter - freedom) / weights) if weights > 0 else 0.0


def _grouped(shifts: Sequence[SeriesShift]) -> dict[tuple[str, str], list[SeriesShift]]:
    grouped: dict[tuple[str, str], list[SeriesShift]] = defaultdict(list)
    for s in shifts:
        grouped[s.provider, s.time].append(s)
    return grouped


def _by_provider(shifts: Sequence[SeriesShift], between: float) -> list[_Provider]:
    means = []
    for (_, time), own in _grouped(shifts).items():
        w = np.array([1 / (s.error**2 + between) for s in own])
        means.append((float(np.average([s.shift for s in own], weights=w)), float(1 / w.sum()), time))
    return means


def _by_time(means: Sequence[_Provider]) -> list[list[_Provider]]:
    times: dict[str, list[_Provider]] = defaultdict(list)
    for one in means:
        times[one[2]].append(one)
    return list(times.values())


def _without_strays(group: Sequence[_Provider], usual: float) -> list[_Provider]:
    middle = median(y for y, *_ in group)
    reach = _STRAY * max(usual, 1.4826 * median(abs(y - middle) for y, *_ in group))
    return [one for one in group if abs(one[0] - middle) <= reach]


def _mean(means: Sequence[_Provider], spread: float) -> tuple[float, float]:
    """Weighted mean and its variance."""
    weights = [1 / (variance + spread) for _, variance, _ in means]
    total = sum(weights)
    return sum(w * y for w, (y, *_) in zip(weights, means, strict=True)) / total, 1 / total


def _scatter(groups: Sequence[Sequence[_Provider]], spread: float) -> float:
    """Sum of squared deviations from the groups' means over their variances."""
    total = 0.0
    for group in groups:
        middle, _ = _mean(group, spread)
        total += sum((y - middle) ** 2 / (variance + spread) for y, variance, _ in group)
    return total


def _paule_mandel(groups: Sequence[Sequence[_Provider]], df: int) -> float:
    """The variance between providers with which `_scatter` is what chance gives, its degrees of freedom."""
    if not df or _scatter(groups, 0.0) <= df:
        return 0.0
    low, high = 0.0, 1e-6
    while _scatter(groups, high) > df:
        low, high = high, 4 * high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if _scatter(groups, middle) > df else (low, middle)
    return high
