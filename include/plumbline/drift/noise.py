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
from functools import partial

import numpy as np
from scipy import stats

from plumbline.drift.ranks import smallest_p

FLOOR = 0.002
"""Least noise assumed, on the analysis scale (0.2 %): repeats of a quiet training system scatter by 0.1–0.5 %."""
POWER = 0.8
_RANK_PRICE = 1.023
_MOST_REPEATS = 200
"""Where the search for enough repeats ends; a campaign allows 50 per slot and 24 slots, nobody pays for more than this to settle a doubt."""


def repeat_noise(campaigns: Sequence[Mapping[str, np.ndarray]]) -> tuple[float | None, int]:
    """(noise, degrees of freedom) on the analysis scale from campaigns as slot → values; (None, 0) without a single pair of repeats."""
    cells = [np.asarray(v) for campaign in campaigns for v in campaign.values() if len(v) > 1]
    if not cells:
        return None, 0
    gaps = np.concatenate([np.abs(np.subtract.outer(v, v))[np.triu_indices(len(v), 1)] for v in cells])
    return max(FLOOR, 1.0483 * float(np.median(gaps))), sum(len(v) - 1 for v in cells)


def campaign_spread(campaigns: Sequence[Mapping[str, np.ndarray]], noise: float | None) -> float:
    """How far a new campaign's level may lie from the accepted ones' with nothing changed; 0 with fewer than three campaigns.

    t(0.975) × √(1 + 1/K) × the standard deviation of the K campaigns' levels beyond what repeat noise explains. A level is the mean
    over slots of the difference to the slot's median, over the slots that all campaigns have.
    """
    common = sorted(set.intersection(*(set(c) for c in campaigns))) if campaigns else []
    if len(campaigns) < 3 or not common or noise is None:
        return 0.0
    centre = {slot: float(np.median(np.concatenate([c[slot] for c in campaigns]))) for slot in common}
    levels = [float(np.mean([np.mean(c[slot]) - centre[slot] for slot in common])) for c in campaigns]
    by_repeats = noise**2 * float(np.mean([sum(1 / len(c[slot]) for slot in common) / len(common) ** 2 for c in campaigns]))
    beyond = float(np.var(levels, ddof=1)) - by_repeats
    if beyond <= 0:
        return 0.0
    return float(stats.t.ppf(0.975, len(campaigns) - 1)) * math.sqrt(beyond * (1 + 1 / len(campaigns)))


def minimum_detectable(noise: float | None, df: int, sizes: Sequence[tuple[int, int]], level: float, beyond: float = 0.0) -> float | None:
    """The shift (analysis scale) that blocks of (baseline, candidate) sizes find with 80 % probability at `level`; None if none can be."""
    if noise is None or df < 1 or smallest_p(sizes) > level:
        return None
    quantiles = float(stats.t.ppf(1 - level / 2, df) + stats.t.ppf(POWER, df))
    return beyond + quantiles * noise * _RANK_PRICE / math.sqrt(sum(m * n / (m + n) for m, n in sizes))


def repeats_to_see(
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
        seen = minimum_detectable(noise, df + extra * (2 if both else 1), grown, level, beyond)
        return seen is not None and seen <= shift

    for both in (False, True):
        extra = 1 + bisect_left(range(1, _MOST_REPEATS + 1), True, key=partial(settled, both))
        if extra <= _MOST_REPEATS:
            return extra, both
    return None


def _grown(size: tuple[int, int], index: int, extra: int, blocks: int, both: bool) -> tuple[int, int]:
    more = extra // blocks + (index < extra % blocks)
    return (size[0] + more if both else size[0], size[1] + more)
