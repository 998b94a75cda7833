"""Verdicts: which movements are believed, corrected for how many were looked at.

The family that Benjamini–Hochberg corrects over is the provider's part of a campaign: all its series' leading metrics together, their
tails apart. Per series was tried beside it, on four seeded series of one provider (two training, two inference; three slots of three repeats,
a baseline of one campaign, a rate of 5 %): where campaigns scattered by twice what is usual, a quiet provider was accused in 24 of 100 campaigns per
series and in 5 together; a step of 5 % in one training series and one of 10 % in one inference series were found as often either way.
A provider that drifts moves several metrics, and each one that moved makes room for the next.

What is corrected is p_campaigns, against which a clear move is as small as it is clear. The exact permutation p is a gate beside it, at the
level that the declared confidence leaves: five repeats of one slot against five have none below 0.008, which no correction over thirty metrics lets through (a step of 5 % in one
of the four series was found in 0 of 30 campaigns, now in all).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from plumbline.declarations.thresholds import DriftRules
from plumbline.drift.comparison import Family, MetricComparison, Verdict
from plumbline.drift.effect import Effect, on_analysis_scale, shown
from plumbline.drift.multiplicity import benjamini_hochberg
from plumbline.drift.noise import minimum_detectable, repeats_to_see

Measured = tuple[MetricComparison, Effect | None]


def judged(series: Sequence[Sequence[Measured]], rules: DriftRules) -> list[tuple[MetricComparison, ...]]:
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
            rows[s][i] = _verdict(replace(rows[s][i], q=q), warn, effect, rules, level)
    return [tuple(found) for found in rows]


def _verdict(row: MetricComparison, warn: float, effect: Effect, rules: DriftRules, level: float) -> MetricComparison:
    rate, gate = rules.false_discovery_rate, 1 - rules.confidence
    detectable = minimum_detectable(effect.noise, effect.noise_df, effect.sizes, gate, effect.spread.beyond(gate))
    row = replace(row, mde=None if detectable is None else shown(detectable, effect.scale))
    if abs(effect.effect) >= warn:
        if row.q is not None and row.q <= rate and effect.p <= gate:
            return replace(row, verdict="regressed" if row.worse else "improved")
        return _in_doubt(row, effect, "suspected", effect.effect, gate, level)
    within = effect.ci_low is not None and effect.ci_high is not None and -warn <= effect.ci_low and effect.ci_high <= warn
    if within or (row.mde is not None and row.mde <= warn):
        return replace(row, verdict="unchanged")
    return _in_doubt(row, effect, "insufficient_data", warn, gate, gate)


def _in_doubt(row: MetricComparison, effect: Effect, verdict: Verdict, change: float, gate: float, level: float) -> MetricComparison:
    shift = on_analysis_scale(change, effect.scale)
    row = replace(row, verdict=verdict)
    needed = repeats_to_see(shift, effect.noise, effect.noise_df, effect.sizes, gate, effect.spread.beyond(level))
    if needed is None and effect.spread.sd:
        # More of the same campaign cannot say how campaigns differ; another one can, and this is what it should hold.
        needed = repeats_to_see(shift, effect.noise, effect.noise_df, effect.sizes, gate)
        if needed is not None:
            row = replace(row, notes=(*row.notes, "the repeats must be a campaign of their own: campaigns differ among themselves"))
    if needed is None:
        return row
    return replace(row, repeats_needed=needed[0], repeats_where="both" if needed[1] else "candidate")
