"""One verdict for each cause: what a change of driver, image or node type did to all series that it touched, against those that it did not.

A cause is a value of a fact that came to providers; values that always came together are one cause. What else a cloud changed since a campaign is a
cause of its own (`cloud_effect`). Each series gives one shift: the logarithm of its leading number after over before, positive where worse, with its
standard error. The shifts are combined in a mixed-effects meta-regression:

1. Contrast. The median shift of the untouched series of the same workload and time is subtracted, so that a move of the whole fleet, such as
   one of a new harness, blames no cause.
2. A cloud (or a declared group) is one witness, however many regions and workloads it ran, as its regions can share a change that nothing recorded.
   Series are averaged to providers and providers to clouds by the inverse of their variance, each with the variance between them (DerSimonian–Laird).
   Of a cloud with regions on either side, the difference between the two is the witness: it has its own control.
3. The between-cloud variance is Paule–Mandel's, of touched and untouched clouds about their own means. A usual campaign-to-campaign
   spread (a sixth of the warn threshold) counts as much as PRIOR_DF clouds, so that one cloud alone is not taken for exact.
   An untouched cloud that moved far from the others has a change of its own and is no measure of the usual.
4. The difference of the two means is tested by Student's t with the standard error of Hartung and Knapp, never below the plain one. More than
   half of the touched clouds must have moved: one wild cloud does not accuse what others got too.
5. A cause is called harmful or an improvement by two touched clouds or more, against two untouched ones, or one that did not move by itself: a
   smaller fleet cannot tell, and `undecided` says why.

False alarms: a cause is judged once for each campaign since it came. The n-th look has the level ALARM_LEVEL / 2ⁿ, shared by the two kinds of
workload; all looks together stay below ALARM_LEVEL. `perf/pooled_causes.py` simulates it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
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
_KINDS, _FEWEST_UNTOUCHED, _FEWEST_SERIES, _FEWEST_CLOUDS = 2, 3, 2, 2
_MOST_CLOUDS = 64
"""Beyond this number of clouds no fleet decides, and the number is not shown."""
USUAL_SPREAD, _MATTERS = 1 / 6, 1 / 3
"""Shares of the warn threshold: the spread of campaigns without a change, and the smallest effect that is worth a finding."""
_CLEAR, _STRAY = 1.96, 5
"""Standard errors from which a series moved by itself; usual spreads beyond which an untouched provider has a change of its own."""

PooledVerdict = Literal["regressed", "improved", "unchanged", "insufficient_data"]


@dataclass(frozen=True)
class PooledCause:
    """Values of facts that came together. `came`: provider → the campaign in which it was seen there first, `began` the first of them. `left`:
    providers still on another value. `cloud`: of what a cloud changed since that campaign, whether recorded or not; `facts` then came there too."""

    facts: tuple[tuple[str, str], ...]
    came: Mapping[str, str]
    began: str
    left: tuple[str, ...] = ()
    cloud: str = ""

    @property
    def subject(self) -> str:
        """The permanent name of the cause, such as `cause/driver.version 570.86.15` or `cause/cloud cirrus since 2026-10`."""
        return f"cause/cloud {self.cloud} since {self.began}" if self.cloud else "cause/" + " ".join(self.facts[0])


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
    group: str = ""
    """The cloud or declared group of the provider; empty for one that shares nothing with others."""
    direction: str = "lower_is_better"
    """Of the metric."""

    @property
    def witness(self) -> str:
        return self.group or self.provider

    @property
    def change(self) -> float:
        """How much worse, as a fraction."""
        return math.expm1(self.shift)


UndecidedReason = Literal["no_control", "control_moved", "one_cloud", "clouds_scatter", "other_clouds_moved", "regions_scatter"]


@dataclass(frozen=True)
class Undecided:
    """Why a fleet cannot tell. Of clouds that scatter: their number, and how many like these would show an effect of the threshold; None:
    no number of them."""

    reason: UndecidedReason
    clouds: int = 0
    enough: int | None = None


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
    clouds: int = 1
    undecided: Undecided | None = None

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
    between = _between_series((*touched, *untouched))
    with_it, without = (_by_provider(own, between) for own in (touched, untouched))
    warn = median(s.warn for s in touched)
    usual, matters = math.log1p(warn) * USUAL_SPREAD, math.log1p(warn) * _MATTERS
    regions = _dersimonian_laird([*_grouped(with_it).values(), *_grouped(without).values()])
    uncontrolled, controlled, times = _witnesses(with_it, without, regions, usual)
    free = [one for group in times for one in group]
    common = sum(y for y, *_ in free) / len(free) if free else 0.0
    marked = [(y + common, variance, time) for y, variance, time in controlled]
    missing = _missing_control(free, matters)
    if missing is not None and len(controlled) >= _FEWEST_CLOUDS:
        missing = None
    else:
        marked += uncontrolled
    if len(marked) < _FEWEST_CLOUDS:
        missing = Undecided("one_cloud")
    groups = [group for group in (marked, *times) if group]
    df = sum(len(group) - 1 for group in groups)
    spread = (PRIOR_DF * usual**2 + df * _paule_mandel(groups, df)) / (PRIOR_DF + df)
    other, more = _mean(free, spread) if free else (0.0, 0.0)
    effect, variance = _mean(marked, spread)
    effect, variance = effect - other, variance + more
    error = math.sqrt(variance * max(1.0, _scatter(groups, spread) / df if df else 1.0))
    sign = math.copysign(1.0, effect)
    most = 2 * sum(sign * (y - other) >= matters for y, *_ in marked) > len(marked)
    level = ALARM_LEVEL / 2**look / _KINDS
    undecided = missing or Undecided(
        "clouds_scatter", len(marked), _clouds_that_decide(len(marked), df, variance - more, more, level, math.log1p(warn))
    )
    return _judged(touched, len(untouched), len(marked), effect, error, PRIOR_DF + df, level, most and missing is None, undecided)


def cloud_effect(
    own: Sequence[SeriesShift],
    others: Sequence[SeriesShift],
    changed: Collection[str] = (),
    alike: Collection[str] = (),
    look: int = 1,
    rivals: int = 1,
) -> PooledEffect | None:
    """What a cloud did since a campaign, on one kind of workload; None with fewer than two series or providers of the cloud.

    Its regions are the witnesses, and the usual move of a cloud is added to the error. `changed`: other clouds with a recorded change, which are no
    measure of the usual; if one of them moved the same way, it is not this cloud alone. `alike`: those of them with the same changes, which are compared
    with where the whole fleet changed. `rivals`: clouds that are judged at the same time, which share
    the level.
    """
    if len(own) < _FEWEST_SERIES or len({s.provider for s in own}) < 2:
        return None
    compared = [s for s in others if s.witness not in changed] or [s for s in others if s.witness in alike]
    touched, untouched = _contrasted(own, compared)
    between = _between_series((*touched, *untouched))
    with_it, without = (_by_provider(each, between) for each in (touched, untouched))
    warn = median(s.warn for s in touched)
    usual, matters = math.log1p(warn) * USUAL_SPREAD, math.log1p(warn) * _MATTERS
    clusters = [[(y, v, time) for y, v, time, _ in each] for each in (with_it, *_grouped(without).values())]
    df = sum(len(each) - 1 for each in clusters)
    regions = (PRIOR_DF * usual**2 + df * _paule_mandel(clusters, df)) / (PRIOR_DF + df)
    times = [_without_strays(each, usual) for each in _by_time([(*_mean(each, regions), each[0][2]) for each in clusters[1:]])]
    free = [one for each in times for one in each]
    missing = _missing_control(free, matters)
    clouds_df = sum(len(each) - 1 for each in times)
    clouds = max(usual**2, _paule_mandel(times, clouds_df))
    effect, variance = _mean(clusters[0], regions)
    other, more = _mean(free, clouds) if free else (0.0, 0.0)
    effect -= other
    error = math.sqrt(variance + clouds + more)
    sign = math.copysign(1.0, effect)
    most = 2 * sum(sign * (y - other) >= matters for y, *_ in clusters[0]) > len(clusters[0])
    elsewhere, _ = _contrasted([s for s in others if s.witness in changed], compared)
    shared = _grouped(_by_provider(elsewhere, between)).values()
    moved_too = any(sign * (_mean([(y, v, time) for y, v, time, _ in each], regions)[0] - other) >= matters for each in shared)
    undecided = missing or Undecided("other_clouds_moved" if moved_too else "regions_scatter")
    level = ALARM_LEVEL / 2**look / _KINDS / rivals
    return _judged(touched, len(untouched), 1, effect, error, PRIOR_DF + df, level, most and missing is None and not moved_too, undecided)


def _judged(
    touched: Sequence[SeriesShift],
    untouched: int,
    clouds: int,
    effect: float,
    error: float,
    df: int,
    level: float,
    convicts: bool,
    undecided: Undecided,
) -> PooledEffect:
    warn = median(s.warn for s in touched)
    matters = math.log1p(warn) * _MATTERS
    p = float(2 * special.stdtr(df, -abs(effect) / error))
    reach = float(special.stdtrit(df, 0.975)) * error
    low, high = math.expm1(effect - reach), math.expm1(effect + reach)
    sign = math.copysign(1.0, effect)
    verdict: PooledVerdict = "insufficient_data"
    if p <= level and abs(effect) >= matters and convicts:
        verdict = "regressed" if effect > 0 else "improved"
    elif -warn < low and high < warn:
        verdict = "unchanged"
    moved = tuple(s.series_key for s in touched if sign * s.shift >= max(matters, _CLEAR * s.error))
    numbers = (math.expm1(effect), low, high, p)
    return PooledEffect(
        touched[0].kind,
        *numbers,
        verdict,
        warn,
        moved,
        tuple(touched),
        untouched,
        clouds,
        undecided if verdict == "insufficient_data" else None,
    )


_Witness = tuple[float, float, str]
"""Mean shift, its variance without the part between witnesses, and the time."""
_Provider = tuple[float, float, str, str]
"""As a witness, and the name of the witness that it is part of."""


def _missing_control(free: Sequence[_Witness], matters: float) -> Undecided | None:
    """Why the untouched clouds separate no cause from a move of the whole fleet; None if they do."""
    if not free:
        return Undecided("no_control")
    return Undecided("control_moved") if len(free) == 1 and abs(free[0][0]) >= matters else None


def _clouds_that_decide(clouds: int, df: int, variance: float, other: float, level: float, worth: float) -> int | None:
    """How many clouds like these with the change would show an effect of the threshold, `worth` as a logarithm; None beyond
    _MOST_CLOUDS."""
    for count in range(clouds + 1, _MOST_CLOUDS + 1):
        error = math.sqrt(variance * clouds / count + other)
        if -float(special.stdtrit(PRIOR_DF + df + count - clouds, level / 2)) * error <= worth:
            return count
    return None


def _contrasted(touched: Sequence[SeriesShift], untouched: Sequence[SeriesShift]) -> tuple[list[SeriesShift], list[SeriesShift]]:
    """Without what the untouched clouds did in the workload at that time, the middle one of them; else in all workloads, where there are enough."""
    own: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for s in untouched:
        own[s.workload, s.time][s.witness].append(s.shift)
        own["", s.time][s.witness].append(s.shift)
    middle = {key: median(map(median, by.values())) for key, by in own.items() if len(by) >= _FEWEST_UNTOUCHED}

    def common(s: SeriesShift) -> float:
        return next((middle[key] for key in ((s.workload, s.time), ("", s.time)) if key in middle), 0.0)

    return [replace(s, shift=s.shift - common(s)) for s in touched], [replace(s, shift=s.shift - common(s)) for s in untouched]


def _between_series(shifts: Sequence[SeriesShift]) -> float:
    """The variance between the series of a provider, over all providers."""
    return _dersimonian_laird([[(s.shift, s.error**2) for s in own] for own in _series_of(shifts).values()])


def _dersimonian_laird(clusters: Sequence[Sequence[tuple[float, float] | _Provider]]) -> float:
    """The variance between the members of a cluster beside their own, over all clusters. A member begins with its value and variance."""
    scatter = weights = freedom = 0.0
    for own in clusters:
        if len(own) < 2:
            continue
        w = [1 / one[1] for one in own]
        total = sum(w)
        middle = sum(wi * one[0] for wi, one in zip(w, own, strict=True)) / total
        scatter += sum(wi * (one[0] - middle) ** 2 for wi, one in zip(w, own, strict=True))
        weights += total - sum(wi**2 for wi in w) / total
        freedom += len(own) - 1
    return max(0.0, (scatter - freedom) / weights) if weights > 0 else 0.0


def _series_of(shifts: Sequence[SeriesShift]) -> dict[tuple[str, str], list[SeriesShift]]:
    by_provider: dict[tuple[str, str], list[SeriesShift]] = defaultdict(list)
    for s in shifts:
        by_provider[s.provider, s.time].append(s)
    return by_provider


def _by_provider(shifts: Sequence[SeriesShift], between: float) -> list[_Provider]:
    means = []
    for (_, time), own in _series_of(shifts).items():
        means.append((*_mean([(s.shift, s.error**2, time) for s in own], between), time, own[0].witness))
    return means


def _grouped(providers: Sequence[_Provider]) -> dict[tuple[str, str], list[_Provider]]:
    """By cloud and time."""
    grouped: dict[tuple[str, str], list[_Provider]] = defaultdict(list)
    for one in providers:
        grouped[one[3], one[2]].append(one)
    return grouped


def _witnesses(
    with_it: Sequence[_Provider], without: Sequence[_Provider], regions: float, usual: float
) -> tuple[list[_Witness], list[_Witness], list[list[_Witness]]]:
    """Of each touched cloud its move; of those with their own control the difference to it; by time the untouched clouds without those that moved by themselves.

    `regions`: variance between the providers of a cloud.
    """
    touched: dict[str, list[_Provider]] = defaultdict(list)
    for one in with_it:
        touched[one[3]].append(one)
    at = {cloud: _mean([each[:3] for each in own], regions) for cloud, own in touched.items()}
    controls: dict[str, list[_Witness]] = defaultdict(list)
    free: list[_Witness] = []
    for (cloud, time), own in _grouped(without).items():
        mean = (*_mean([each[:3] for each in own], regions), time)
        (controls[cloud] if cloud in touched else free).append(mean)
    uncontrolled, controlled = [], []
    for cloud, (y, variance) in at.items():
        time = touched[cloud][0][2]
        if control := controls.get(cloud):
            # The windows of several times overlap: their mean is no more certain than one of them.
            level, known = sum(c[0] for c in control) / len(control), max(c[1] for c in control)
            controlled.append((y - level, variance + known, time))
        else:
            uncontrolled.append((y, variance, time))
    return uncontrolled, controlled, [_without_strays(group, usual) for group in _by_time(free)]


def _by_time(means: Sequence[_Witness]) -> list[list[_Witness]]:
    times: dict[str, list[_Witness]] = defaultdict(list)
    for one in means:
        times[one[2]].append(one)
    return list(times.values())


def _without_strays(group: Sequence[_Witness], usual: float) -> list[_Witness]:
    middle = median(y for y, *_ in group)
    reach = _STRAY * max(usual, 1.4826 * median(abs(y - middle) for y, *_ in group))
    return [one for one in group if abs(one[0] - middle) <= reach]


def _mean(means: Sequence[_Witness], spread: float) -> tuple[float, float]:
    """Weighted mean and its variance."""
    weights = [1 / (variance + spread) for _, variance, _ in means]
    total = sum(weights)
    return sum(w * y for w, (y, *_) in zip(weights, means, strict=True)) / total, 1 / total


def _scatter(groups: Sequence[Sequence[_Witness]], spread: float) -> float:
    """Sum of squared deviations from the groups' means over their variances."""
    total = 0.0
    for group in groups:
        middle, _ = _mean(group, spread)
        total += sum((y - middle) ** 2 / (variance + spread) for y, variance, _ in group)
    return total


def _paule_mandel(groups: Sequence[Sequence[_Witness]], df: int) -> float:
    """The variance between witnesses with which `_scatter` is what chance gives, its degrees of freedom."""
    if not df or _scatter(groups, 0.0) <= df:
        return 0.0
    low, high = 0.0, 1e-6
    while _scatter(groups, high) > df:
        low, high = high, 4 * high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if _scatter(groups, middle) > df else (low, middle)
    return high
