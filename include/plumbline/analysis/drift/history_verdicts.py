"""The contribution of a series of a year or more to the comparison of one campaign: doubts that its past settles, and creep past every baseline.

A metric that is past its threshold but whose repeats prove nothing (`suspected`) is believed when the series of campaigns itself shows a
lasting change in that direction: two repeats a month prove nothing in any month, and plenty in twelve.

Creep: each step was too small or was accepted, and the sum is not small. It is measured from the oldest baseline that was accepted since
the last accepted creep; while the only baseline is the oldest one, the plain comparison reports it already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from plumbline.analysis.drift.change_detection import detect_changes
from plumbline.analysis.drift.comparison import Comparison, LastingChange, MetricComparison
from plumbline.analysis.drift.creep import detect_creep

LONG_SERIES = 12
"""Campaigns from which on a series is long."""
RowKey = tuple[str, str, str]
Levels = Mapping[RowKey, Sequence[float | None]]
"""(metric, statistic, phase) → one value per campaign in order of time, the campaign in question last; None where it has none."""


@dataclass(frozen=True)
class SeriesHistory:
    """A series before a campaign. `campaigns` name the points of `levels`; `oldest` are the levels of the oldest baseline,
    empty if that is the one that the campaign is compared with anyway."""

    campaigns: Sequence[str]
    levels: Levels
    oldest: Mapping[RowKey, float]


def row_key(row: MetricComparison) -> RowKey:
    """The key of a row in a series."""
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
            shown = LastingChange(last[0].kind, past.campaigns[last[0].index])
            return replace(row, verdict="regressed" if row.worse else "improved", repeats_needed=None, past=shown)
    elif row.verdict in ("unchanged", "moved", "insufficient_data") and min((v for v in values if v is not None), default=0.0) > 0:
        start = past.oldest.get(row_key(row), 0.0)
        crept = detect_creep(values, start, floor=row.warn) if start > 0 else None
        if crept is not None:
            moved = replace(row, effect=crept.effect, ci_low=None, ci_high=None, q=crept.p)
            return replace(moved, verdict="regressed" if moved.worse else "improved", repeats_needed=None, past=crept, crept=True)
    return row
