"""Verdicts: which movements count as changes, corrected for how many were tested."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from plumbline.analysis.drift.change_detection import detect_changes, detect_creep
from plumbline.analysis.drift.comparison import Comparison, Family, MetricComparison
from plumbline.analysis.drift.effect import Effect, from_analysis_scale, to_analysis_scale
from plumbline.analysis.drift.noise import minimum_detectable_effect, repeats_needed
from plumbline.analysis.drift.series_state import is_move
from plumbline.declarations.thresholds import DriftRules
from plumbline.metrics.formatting import format_change

RowWithEffect = tuple[MetricComparison, Effect | None]


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


# What a series of a year or more adds to the comparison of one campaign: doubts that its past settles, and creep past every baseline.
#
# A metric that is past its threshold but whose repeats prove nothing (`suspected`) is believed when the series of campaigns itself shows a
# lasting change in that direction: two repeats a month prove nothing in any month, and plenty in twelve.
#
# Creep: each step was too small or was accepted, and the sum is not small. It is measured from the oldest baseline that was accepted since
# the last accepted creep; while the only baseline is the oldest one, the plain comparison reports it already.


LONG_SERIES = 12
"""Campaigns from which on a series is long."""
RowKey = tuple[str, str, str]
Levels = Mapping[RowKey, Sequence[float | None]]
"""(metric, statistic, phase) → one value per campaign in order of time, the campaign in question last; None where it has none."""


@dataclass(frozen=True)
class SeriesHistory:
    """What is known of a series before a campaign. `campaigns` name the points of `levels`; `oldest` are the levels of the oldest baseline,
    empty if that is the one that the campaign is compared with anyway."""

    campaigns: Sequence[str]
    levels: Levels
    oldest: Mapping[RowKey, float]


def row_key(row: MetricComparison) -> RowKey:
    """What names a row in a series."""
    return row.metric, row.statistic, row.phase


def rows_needing_history(comparison: Comparison, several_baselines: bool) -> list[RowKey]:
    """The rows whose past is worth reading."""
    return [
        row_key(row)
        for row in comparison.rows
        if row.family == "lead" and row.warn and row.effect is not None and (row.verdict == "suspected" or several_baselines)
    ]


def apply_history(comparison: Comparison, past: SeriesHistory) -> Comparison:
    """The comparison with what the past says of its leading rows; as it is if the series is not long."""
    return replace(comparison, rows=tuple(_row(row, past) for row in comparison.rows))


def _row(row: MetricComparison, past: SeriesHistory) -> MetricComparison:
    values = past.levels.get(row_key(row))
    if values is None or row.warn is None or row.effect is None or sum(v is not None for v in values) < LONG_SERIES:
        return row
    if row.verdict == "suspected":
        last = detect_changes(values, floor=row.warn)[-1:]
        if last and (last[0].effect > 0) == (row.effect > 0):
            since = past.campaigns[last[0].index]
            note = f"the series shows a lasting {last[0].kind} since campaign {since}"
            return replace(row, verdict="regressed" if row.worse else "improved", repeats_needed=None, past=note)
    elif row.verdict in ("unchanged", "moved", "insufficient_data") and min((v for v in values if v is not None), default=0.0) > 0:
        start = past.oldest.get(row_key(row), 0.0)
        crept = detect_creep(values, start, floor=row.warn) if start > 0 else None
        if crept is not None:
            note = (
                f"crept away from the oldest accepted baseline by {format_change(crept.effect)}, {format_change(crept.slope, 2)} a campaign"
            )
            moved = replace(row, effect=crept.effect, ci_low=None, ci_high=None, q=crept.p)
            return replace(moved, verdict="regressed" if moved.worse else "improved", repeats_needed=None, past=note, crept=True)
    return row
