"""Verdicts: which movements count as changes, corrected for how many were tested."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from plumbline.analysis.drift.comparison import Family, MetricComparison
from plumbline.analysis.drift.effect import Effect, from_analysis_scale, to_analysis_scale
from plumbline.analysis.drift.noise import minimum_detectable_effect, repeats_needed
from plumbline.analysis.drift.series_state import is_move
from plumbline.declarations.thresholds import DriftRules
from plumbline.judgement import judges

RowWithEffect = tuple[MetricComparison, Effect | None]


@judges("performance of a series")
def judge_series(series: Sequence[Sequence[RowWithEffect]], rules: DriftRules) -> list[tuple[MetricComparison, ...]]:
    """The rows of each series with q, minimum detectable effect and verdict, in the order given."""
    rows = [[row for row, _ in measured] for measured in series]
    families: dict[Family, list[tuple[int, int, float, Effect]]] = defaultdict(list)
    for s, measured in enumerate(series):
        for i, (row, effect) in enumerate(measured):
            if effect is not None and row.warn is not None:
                families[row.family].append((s, i, row.warn, effect))
    for members in families.values():
        corrected = benjamini_hochberg([effect.p if effect.p_campaigns is None else effect.p_campaigns for *_, effect in members])
        past = sum(abs(effect.effect) >= warn for *_, warn, effect in members)
        # The level at which a row would be called if the metrics that are past their threshold stay there.
        level = rules.false_discovery_rate * max(1, past) / len(members)
        for (s, i, warn, effect), q in zip(members, corrected, strict=True):
            rows[s][i] = _verdict(rows[s][i], q, warn, effect, rules, level)
    return [tuple(series_rows) for series_rows in rows]


def _verdict(row: MetricComparison, q: float, warn: float, effect: Effect, rules: DriftRules, level: float) -> MetricComparison:
    gate = 1 - rules.confidence
    detectable = minimum_detectable_effect(effect.noise, effect.noise_df, effect.sizes, gate, effect.spread.beyond(gate))
    mde = None if detectable is None else from_analysis_scale(detectable, effect.scale)
    judged = partial(replace, row, q=q, mde=mde)
    if abs(effect.effect) >= warn:
        if q <= rules.false_discovery_rate and effect.p <= gate:
            return judged(verdict="regressed" if row.worse else "improved")
        return judged(verdict="suspected", **_repeats_needed(row, effect, effect.effect, gate, level))
    within = effect.ci_low is not None and effect.ci_high is not None and -warn <= effect.ci_low and effect.ci_high <= warn
    if within or (mde is not None and mde <= warn):
        seen = judged(verdict="unchanged")
        return replace(seen, verdict="moved") if is_move(seen, gate) else seen
    return judged(verdict="insufficient_data", **_repeats_needed(row, effect, warn, gate, gate))


def _repeats_needed(row: MetricComparison, effect: Effect, change: float, gate: float, level: float) -> dict[str, Any]:
    """The fields of a row in doubt: the repeats that would settle it, if any number of them does."""
    shift = to_analysis_scale(change, effect.scale)
    needed = repeats_needed(shift, effect.noise, effect.noise_df, effect.sizes, gate, effect.spread.beyond(level))
    fields: dict[str, Any] = {}
    if needed is None and effect.spread.sd:
        # More of the same campaign cannot say how campaigns differ; another one can, and this is what it should hold.
        needed = repeats_needed(shift, effect.noise, effect.noise_df, effect.sizes, gate)
        if needed is not None:
            fields["notes"] = (*row.notes, "the repeats must be a campaign of their own: campaigns differ among themselves")
    if needed is not None:
        fields |= {"repeats_needed": needed[0], "repeats_where": "both" if needed[1] else "candidate"}
    return fields


def benjamini_hochberg(p_values: Sequence[float]) -> tuple[float, ...]:
    """q of each p: calling everything with q <= f a discovery makes at most a share f of the discoveries false.

    Holds for independent metrics and for metrics that move together, which is what metrics of one trial do.
    """
    if not p_values:
        return ()
    from scipy import stats  # takes two seconds to import

    return tuple(float(q) for q in stats.false_discovery_control(p_values, method="bh"))
