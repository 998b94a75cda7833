"""How much a metric scatters when nothing changed, and what that lets a comparison see.

Repeat noise: 1.0483 × the median of |a − b| over all pairs of repeats of one campaign and slot (for normal noise that is the standard
deviation; one wild repeat does not move it), never below `FLOOR`: a handful of equal readings does not prove a noiseless machine.

Minimum detectable effect: (t(1 − α/2) + t(0.8)) × noise × 1.023 / √Σ(m·n / (m + n)), summed over blocks of m baseline and n candidate
repeats, t with the noise's degrees of freedom, 1.023 the price of ranks against a t-test, plus the campaign spread that a change has
to exceed first. It is the shift that the test finds with a probability of 80 % at level α, and None where no shift can be
significant because there are too few arrangements, or where there is no pair of repeats to learn the noise from.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import combinations
from statistics import median

import numpy as np
from scipy import special

from plumbline.analysis.drift.rank_test import smallest_p

NOISE_FLOOR = 0.002
"""Least noise assumed, on the analysis scale (0.2 %): repeats of a quiet training system scatter by 0.1–0.5 %."""
POWER = 0.8
PRIOR_DF = 4
"""How many campaigns' worth the usual spread of a metric counts: after half a year of monthly campaigns the series' own outweighs it."""
_SUCCESSIVE = 2 / 3
"""Degrees of freedom of a squared successive difference, relative to a squared deviation from the mean."""
_RANK_PRICE = 1.023
_CONTRADICTS = 2.5
"""How far the two estimates of one scatter may lie apart. Of normal repeats, from three in two slots to ten in one, about one comparison in a
hundred lies further."""
_MOST_REPEATS = 200
"""Where the search for enough repeats ends; a campaign allows 50 per slot and 24 slots, nobody pays for more than this to settle a doubt."""


@lru_cache(maxsize=4096)
def _t_quantile(probability: float, df: float) -> float:
    # Not stats.t.ppf, which checks its arguments for a hundred times as long: a report asks for half a million, of a few hundred.
    return float(special.stdtrit(df, probability))


def repeat_noise(campaigns: Sequence[Mapping[str, np.ndarray]]) -> tuple[float | None, int]:
    """(noise, degrees of freedom) on the analysis scale from campaigns as slot → values; (None, 0) without a single pair of repeats."""
    cells = [v.tolist() for campaign in campaigns for v in campaign.values() if len(v) > 1]
    if not cells:
        return None, 0
    # Not as arrays, which take three times as long for so few pairs.
    gaps = [abs(a - b) for v in cells for a, b in combinations(v, 2)]
    return max(NOISE_FLOOR, 1.0483 * median(gaps)), sum(len(v) - 1 for v in cells)


def noise_for_power(noise: float, df: int, sizes: Sequence[tuple[int, int]], half: float, confidence: float) -> float:
    """The noise for power calculations: `noise`, or that of the interval of half-width `half` (analysis scale) where the two contradict.

    Repeats of two kinds, such as those of one slow node among four, lie close to their own kind: the median gap sees little, the interval
    spans both. To promise from the gap that one more repeat settles such a doubt would be wrong.
    """
    contradicting = half * math.sqrt(sum(m * n / (m + n) for m, n in sizes)) / _t_quantile((1 + confidence) / 2, df)
    return contradicting if contradicting > _CONTRADICTS * noise else noise


@dataclass(frozen=True)
class CampaignSpread:
    """How far a new campaign's level lies from the accepted ones' with nothing changed: a standard deviation on the analysis scale
    that already counts that the accepted level is itself uncertain, and the degrees of freedom that it is known with (0: not known)."""

    sd: float
    df: float

    def beyond(self, level: float) -> float:
        """The shift that campaigns with nothing changed exceed with probability `level` (two-sided); 0 where nothing is known."""
        return _t_quantile(1 - level / 2, self.df) * self.sd if self.df else 0.0


def campaign_spread(
    accepted: Sequence[Mapping[str, np.ndarray]], since: Sequence[Mapping[str, np.ndarray]], noise: float | None, usual: float | None
) -> CampaignSpread:
    """The spread that the accepted campaigns and those `since` then, in order of time, show beyond what their repeats explain.

    Half the mean square of successive differences of the campaigns' levels, so that one step that was accepted, or a slow ramp, does
    not pass for scatter. `usual` is what a metric of this kind scatters by; it counts as much as PRIOR_DF campaigns would, so that one
    baseline campaign, which shows nothing, is not taken for proof of a provider without moods. A level is the mean over slots of the
    difference to the slot's median.
    """
    campaigns = [c for c in (*accepted, *since) if c]
    slots = set().union(*campaigns) if campaigns else set()
    centre = {slot: float(median([v for c in campaigns if slot in c for v in c[slot]])) for slot in slots}
    levels = [float(np.mean([np.mean(v) - centre[slot] for slot, v in c.items()])) for c in campaigns]
    prior = PRIOR_DF if usual is not None else 0
    squares, df = prior * (usual or 0.0) ** 2, float(prior)
    if len(levels) > 1 and noise is not None:
        by_repeats = noise**2 * float(np.mean([sum(1 / len(v) for v in c.values()) / len(c) ** 2 for c in campaigns]))
        known = (len(levels) - 1) * _SUCCESSIVE
        squares += known * max(0.0, float(np.mean(np.square(np.diff(levels)))) / 2 - by_repeats)
        df += known
    if (len(levels) <= 2 and usual is None) or not df:
        return CampaignSpread(0.0, 0.0)
    return CampaignSpread(math.sqrt(squares / df * (1 + 1 / max(1, len(accepted)))), df)


def minimum_detectable_effect(
    noise: float | None, df: int, sizes: Sequence[tuple[int, int]], level: float, beyond: float = 0.0
) -> float | None:
    """The shift (analysis scale) that blocks of (baseline, candidate) sizes find with 80 % probability at `level`; None if none can be."""
    if noise is None or df < 1 or smallest_p(sizes) > level:
        return None
    quantiles = _t_quantile(1 - level / 2, df) + _t_quantile(POWER, df)
    return beyond + quantiles * noise * _RANK_PRICE / math.sqrt(sum(m * n / (m + n) for m, n in sizes))


def repeats_needed(
    shift: float, noise: float | None, df: int, sizes: Sequence[tuple[int, int]], level: float, beyond: float = 0.0
) -> tuple[int, bool] | None:
    """(further repeats, whether the baseline needs as many too) after which `shift` is detectable; None if 200 on each side are not enough.

    Repeats are spread over the blocks in turn. More candidate repeats against the baseline as it is are preferred; where the
    baseline itself is too short for that, both sides grow.
    """
    if noise is None:
        return None

    def settled(both: bool, extra: int) -> bool:
        grown = [_grown(size, i, extra, len(sizes), both) for i, size in enumerate(sizes)]
        detectable = minimum_detectable_effect(noise, df + extra * (2 if both else 1), grown, level, beyond)
        return detectable is not None and detectable <= shift

    for both in (False, True):
        extra = 1 + bisect_left(range(1, _MOST_REPEATS + 1), True, key=partial(settled, both))
        if extra <= _MOST_REPEATS:
            return extra, both
    return None


def _grown(size: tuple[int, int], index: int, extra: int, blocks: int, both: bool) -> tuple[int, int]:
    more = extra // blocks + (index < extra % blocks)
    return (size[0] + more if both else size[0], size[1] + more)
