"""Two single trials side by side, such as a trial and its replay.

One against one repeat can never be significant by itself. What can be asked is whether the two differ by more than trials of this
series differ anyway. The two come from different campaigns, so the scatter is that of all trials of a slot, over campaigns as well as
within them; a series that has drifted scatters more, which makes this verdict the more careful. It says how far two trials may lie apart:

reach = t(1 − α / (2 · rows)) × noise × √2,   t with the noise's degrees of freedom, α the declared false discovery rate

unchanged            the difference is inside the reach, which stands beside the verdict as the smallest change one would see
suspected            it is outside, and at least `warn`: run a campaign to know; a single trial never accuses
insufficient_data    the series has no two other trials of one slot yet, so nobody knows how much it scatters
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy import special

from plumbline.analysis.drift.compare import compare
from plumbline.analysis.drift.comparison import Comparison, Limits, MetricComparison
from plumbline.analysis.drift.effect import from_analysis_scale, to_analysis_scale
from plumbline.analysis.drift.noise import repeat_noise
from plumbline.declarations.thresholds import DriftRules
from plumbline.results.sample import CampaignSample


def compare_trials(
    baseline: CampaignSample, candidate: CampaignSample, history: Sequence[CampaignSample], *, rules: DriftRules, limits: Limits
) -> Comparison:
    """Compare two samples of one trial each; `history` holds the series' other campaigns, from which its scatter is learned.

    ValueError if a sample holds more than one trial.
    """
    for sample in (baseline, candidate):
        trials = {(o.slot, o.repeat) for o in sample.observations}
        if len(trials) > 1:
            raise ValueError(f"{len(trials)} trials of {sample.campaign_id}; expected one (compare campaigns for more)")
    comparison = compare([baseline], candidate, rules=rules, limits=limits)
    judged = sum(row.verdict is not None for row in comparison.rows)
    rows = tuple(
        row if row.verdict is None else _judge_trial_row(row, history, rules.false_discovery_rate / max(judged, 1))
        for row in comparison.rows
    )
    return replace(comparison, rows=rows)


def _judge_trial_row(row: MetricComparison, history: Sequence[CampaignSample], level: float) -> MetricComparison:
    plain = replace(row, ci_low=None, ci_high=None, p=None, q=None, mde=None, repeats_needed=None, repeats_where=None)
    if row.effect is None or row.baseline is None or row.warn is None:
        return replace(plain, verdict="insufficient_data")
    noise, df = repeat_noise([_values(history, row)])
    if noise is None:
        return replace(
            plain, verdict="insufficient_data", notes=(*row.notes, "no two other trials of this series to learn its scatter from")
        )
    reach = float(special.stdtrit(df, 1 - level / 2)) * noise * math.sqrt(2)
    shift = to_analysis_scale(row.effect, row.scale)
    inside = shift <= reach or abs(row.effect) < row.warn
    return replace(plain, mde=from_analysis_scale(reach, row.scale), verdict="unchanged" if inside else "suspected")


def _values(history: Sequence[CampaignSample], row: MetricComparison) -> dict[str, np.ndarray]:
    """Slot → values of the row's number in all campaigns, on the row's analysis scale."""
    by_slot: dict[str, list[float]] = {}
    for o in (o for sample in history for o in sample.observations):
        if (o.metric, o.statistic, o.phase) == (row.metric, row.statistic, row.phase) and (row.scale != "ratio" or o.value > 0):
            by_slot.setdefault(o.slot, []).append(o.value)
    if row.scale == "ratio":
        return {slot: np.log(v) for slot, v in by_slot.items()}
    divisor = abs(row.baseline or 0.0) if row.scale == "relative_difference" else 1.0
    return {slot: np.asarray(v) / (divisor or 1.0) for slot, v in by_slot.items()}
