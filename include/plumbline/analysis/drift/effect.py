"""How far one metric moved: the blocked Hodges–Lehmann estimate, its exact interval and its exact permutation p.

Blocks are slots. Every difference is taken between a repeat of the candidate and a repeat of the baseline *of the same slot*,
so that the time of day cannot pass for drift; only when the two share no slot are they compared without blocks, and the note
says so. The estimate is the median of those differences, the interval is the blocked rank-sum test turned round, so the two
never contradict each other.

Scale. A metric whose values are all above zero is compared by ratio: differences of logarithms, reported as `candidate / baseline - 1`.
Shares that are allowed to be zero (the catalogue's `reliability` group, such as `error_rate`) are compared by plain difference,
so 0.02 means two percentage points. Any other metric in which a zero or a negative value turned up is compared by difference too,
divided by the baseline's median; if that is zero as well the difference stays in the metric's unit and no relative threshold applies.

Campaigns differ among themselves, also when nothing changed: another node, another month. That spread (plumbline.analysis.drift.noise) is learned
from the accepted campaigns and those since then that did not drift, on top of what is usual for the metric, so that a baseline of one
campaign is not taken for exact. `p` is the exact permutation p, which knows only the repeats; `p_campaigns` that of the shift
against spread and repeats together (Student's t). The interval is widened by the spread.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

import numpy as np
from scipy import special

from plumbline.analysis.drift import rank_test
from plumbline.analysis.drift.noise import CampaignSpread, campaign_spread, noise_for_power, repeat_noise
from plumbline.analysis.drift.rank_test import Block
from plumbline.metrics import METRICS

Scale = Literal["ratio", "relative_difference", "difference"]
Values = Mapping[str, Sequence[float]]
"""Slot → the repeats' values."""
_USUAL_SPREAD = 1 / 6
"""Campaign-to-campaign spread over the warn threshold where nothing better is known: a threshold that campaigns cross by themselves is none."""


@dataclass(frozen=True)
class Effect:
    """How far the candidate moved from the baseline.

    `effect`, `ci_low` and `ci_high` are fractions of the baseline (0.05 is +5 %), except on the `difference` scale, where they are in
    the metric's unit. An end of the interval is None when it is unbounded with so few repeats. `noise` (see
    plumbline.analysis.drift.noise.noise_for_power), `noise_df`, `sizes` and `spread` are what the power calculation needs, on the analysis scale
    (log or difference). `baseline` is the median over repeats, `candidate` the same moved by the effect: it lies apart from the candidate's
    own median where repeats scatter or slots are filled unevenly, and never contradicts the effect.
    """

    scale: Scale
    baseline: float
    candidate: float
    effect: float
    ci_low: float | None
    ci_high: float | None
    p: float
    p_campaigns: float | None
    smallest_p: float
    sizes: tuple[tuple[int, int], ...]
    blocked: bool
    noise: float | None
    noise_df: int
    spread: CampaignSpread
    candidate_changes: tuple[float, ...]
    """Each candidate repeat's change against the baseline median of its block, as `effect` is."""
    notes: tuple[str, ...] = ()


def estimate_effect(
    metric: str,
    baseline: Sequence[Values],
    candidate: Values,
    confidence: float,
    *,
    history: Sequence[Values] = (),
    warn: float | None = None,
) -> Effect:
    """The effect between the candidate and all accepted campaigns of the baseline (one mapping each).

    `history` are campaigns since then that did not drift, oldest first; only spread and noise are learned from them. `warn` is the metric's
    practical threshold: a sixth of it is the spread that is usual.

    ValueError if one side has no value at all.
    """
    before = [v for campaign in baseline for values in campaign.values() for v in values]
    after = [v for values in candidate.values() for v in values]
    if not before or not after:
        raise ValueError(f"{metric}: {len(before)} baseline and {len(after)} candidate values; expected at least one of each")
    scale, unit = _scale(metric, before, after)
    accepted = [_mapped(campaign, scale, unit) for campaign in baseline]
    new = _mapped(candidate, scale, unit)
    blocks, blocked, notes = _blocks(accepted, new)
    sizes = tuple((len(b), len(c)) for b, c in blocks)
    differences = np.sort(np.concatenate([np.subtract.outer(c, b).ravel() for b, c in blocks]))
    last = len(differences) - 1  # sorted, so the median is in the middle
    shift = float(differences[last // 2] + differences[(last + 1) // 2]) / 2
    since = [_mapped(campaign, scale, unit) for campaign in history if _has_logarithms(campaign, scale)]
    noise, df = repeat_noise([*accepted, *since, new])
    usual = None if warn is None else to_analysis_scale(warn, scale) * _USUAL_SPREAD
    slots = set(new) if blocked else set()
    spread = campaign_spread(_only_slots(accepted, slots), _only_slots(since, slots), noise, usual)
    widened = spread.beyond(1 - confidence)
    k = rank_test.interval_rank(sizes, confidence)
    low, high = (None, None) if k is None else (float(differences[k - 1]) - widened, float(differences[-k]) + widened)
    level = float(median(before))
    return Effect(
        scale=scale,
        baseline=level,
        candidate=level * math.exp(shift) if scale == "ratio" else level + shift * unit,
        effect=from_analysis_scale(shift, scale),
        ci_low=None if low is None else from_analysis_scale(low, scale),
        ci_high=None if high is None else from_analysis_scale(high, scale),
        p=rank_test.two_sided_p(blocks),
        p_campaigns=_p_of_campaigns(shift, spread, noise, sizes),
        smallest_p=rank_test.smallest_p(sizes),
        sizes=sizes,
        blocked=blocked,
        noise=noise
        if k is None or noise is None
        else noise_for_power(noise, df, sizes, (differences[-k] - differences[k - 1]) / 2, confidence),
        noise_df=df,
        spread=spread,
        candidate_changes=tuple(
            from_analysis_scale(float(x) - middle, scale) for b, c in blocks for middle in (float(median(b)),) for x in c
        ),
        notes=tuple(notes),
    )


def from_analysis_scale(shift: float, scale: Scale) -> float:
    """A shift on the analysis scale as people read it: `exp(shift) - 1` for ratios, itself otherwise."""
    return math.expm1(shift) if scale == "ratio" else shift


def to_analysis_scale(change: float, scale: Scale) -> float:
    """The size of the shift that a change amounts to, for power calculations: a doubling and a halving are equally large."""
    return abs(math.log1p(change)) if scale == "ratio" else abs(change)


def _scale(metric: str, before: Sequence[float], after: Sequence[float]) -> tuple[Scale, float]:
    """The scale and what differences are divided by."""
    if (known := METRICS.get(metric)) is not None and known.group == "reliability":
        return "difference", 1.0
    if min(min(before), min(after)) > 0:
        return "ratio", 1.0
    level = abs(float(median(before)))
    return ("relative_difference", level) if level else ("difference", 1.0)


def _p_of_campaigns(shift: float, spread: CampaignSpread, noise: float | None, sizes: Sequence[tuple[int, int]]) -> float | None:
    """p of a shift between campaigns that differ by `spread` and by what is left of their repeats' noise; None where no spread is known."""
    if not spread.df:
        return None
    of_repeats = 0.0 if noise is None else noise**2 / sum(m * n / (m + n) for m, n in sizes)
    total = math.sqrt(spread.sd**2 + of_repeats)
    return float(2 * special.stdtr(spread.df, -abs(shift) / total)) if total else None


def _has_logarithms(campaign: Values, scale: Scale) -> bool:
    """Whether its values can stand on the scale: a zero has no logarithm."""
    return scale != "ratio" or min((v for values in campaign.values() for v in values), default=0.0) > 0


def _only_slots(campaigns: Sequence[Mapping[str, np.ndarray]], slots: set[str]) -> list[dict[str, np.ndarray]]:
    return [{slot: v for slot, v in campaign.items() if slot in slots} for campaign in campaigns]


def _mapped(values: Values, scale: Scale, unit: float) -> dict[str, np.ndarray]:
    return {slot: np.log(np.asarray(v, float)) if scale == "ratio" else np.asarray(v, float) / unit for slot, v in values.items() if len(v)}


def _blocks(baseline: Sequence[Mapping[str, np.ndarray]], candidate: Mapping[str, np.ndarray]) -> tuple[list[Block], bool, list[str]]:
    accepted: dict[str, list[np.ndarray]] = defaultdict(list)
    for campaign in baseline:
        for slot, values in campaign.items():
            accepted[slot].append(values)
    shared = sorted(set(accepted) & set(candidate))
    if not shared:
        everything = np.concatenate([v for parts in accepted.values() for v in parts]), np.concatenate(list(candidate.values()))
        note = f"no common slot (baseline {', '.join(sorted(accepted))}; candidate {', '.join(sorted(candidate))}): compared without blocks"
        return [everything], False, [note]
    left_out = sorted(set(accepted) ^ set(candidate))
    notes = [f"slots of only one side left out: {', '.join(left_out)}"] if left_out else []
    return [(np.concatenate(accepted[slot]), candidate[slot]) for slot in shared], True, notes
