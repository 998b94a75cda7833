"""The exact null distribution of the rank-sum statistic, blocked: what a difference would look like if labels meant nothing.

Within each block the candidate's labels are shuffled among all observations of the block; blocks are independent, so the
distribution of the sum is the convolution of the blocks' distributions. Counting subsets by their rank sum gives each
block's distribution without enumerating arrangements, ties included, so that nothing needs a seed. Blocks that are too
large for that (hundreds of repeats, where it is accurate to many digits) use the normal limit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special  # not scipy.stats, which takes two seconds to import

Floats = NDArray[np.float64]
Block = tuple[Floats, Floats]
"""Baseline values and candidate values of one block, each 1-D with at least one value."""

_EXACT_WORK = 20_000_000
"""Cells of the counting table (observations × candidates × rank sums) up to which a block is counted exactly: well under a second."""


@dataclass(frozen=True)
class Null:
    """Distribution of the summed statistic: `pmf[i]` is the probability of the sum `i`; without a pmf it is normal."""

    pmf: Floats | None
    mean: float
    sd: float

    def at_most(self, value: float) -> float:
        """P(statistic <= value)."""
        if self.pmf is None:
            return float(special.ndtr((value + 0.5 - self.mean) / self.sd)) if self.sd else float(value >= self.mean)
        return float(min(1.0, self.pmf[: max(0, math.floor(value) + 1)].sum()))

    def at_least(self, value: float) -> float:
        """P(statistic >= value)."""
        if self.pmf is None:
            return float(special.ndtr((self.mean - value + 0.5) / self.sd)) if self.sd else float(value <= self.mean)
        return float(min(1.0, self.pmf[max(0, math.ceil(value)) :].sum()))


def two_sided_p(blocks: Sequence[Block]) -> float:
    """Exact p of "the candidate's values are shuffled among the baseline's, block by block", two-sided (twice the smaller tail)."""
    total, ranks, sizes = 0, [], []
    for baseline, candidate in blocks:
        both = np.sort(np.concatenate([baseline, candidate]))
        # Twice the mean rank of each value among equal ones. Not scipy.stats.rankdata, which takes ten times as long for so few.
        total += int(_doubled_ranks(both, candidate).sum())
        ranks.append(tuple(_doubled_ranks(both, both).tolist()))
        sizes.append(len(candidate))
    null = _null(tuple(ranks), tuple(sizes))
    return min(1.0, 2 * min(null.at_most(total), null.at_least(total)))


def _doubled_ranks(ordered: Floats, values: Floats) -> NDArray[np.int64]:
    """Doubled rank of each value among the ordered ones, from 2."""
    return np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right") + 1


def smallest_p(sizes: Sequence[tuple[int, int]]) -> float:
    """The smallest two-sided p that blocks of (baseline, candidate) sizes can give: when the two do not overlap in any block."""
    log_arrangements = sum(math.lgamma(m + n + 1) - math.lgamma(m + 1) - math.lgamma(n + 1) for m, n in sizes)
    return min(1.0, 2 * math.exp(-log_arrangements))


def interval_rank(sizes: Sequence[tuple[int, int]], confidence: float) -> int | None:
    """k such that the k-th smallest and k-th largest within-block difference bound the shift with that confidence.

    None if even the extremes do not reach it: the interval is unbounded with so few repeats.
    """
    # The count of differences below the true shift is a blocked Mann–Whitney U: doubled rank sums step by 2 from their lowest.
    null = _null(tuple(tuple(range(2, 2 * (m + n) + 1, 2)) for m, n in sizes), tuple(n for _, n in sizes))
    lowest = sum(n * (n + 1) for _, n in sizes)
    tail = (1 - confidence) / 2
    if null.pmf is None:
        k = math.floor((null.mean + null.sd * float(special.ndtri(tail)) - lowest) / 2)
    else:
        k = int(np.searchsorted(np.cumsum(null.pmf)[lowest::2], tail, side="right"))
    return k if k > 0 else None


@lru_cache(maxsize=256)
def _null(doubled: tuple[tuple[int, ...], ...], sizes: tuple[int, ...]) -> Null:
    """Distribution of the candidate's summed doubled ranks over all blocks: of each the ranks in order, and how many are the candidate's.

    Kept, since the metrics of a campaign have the same numbers of repeats and, without ties, the same ranks.
    """
    ranks = [np.array(block, np.int64) for block in doubled]
    mean = float(sum(n * r.mean() for r, n in zip(ranks, sizes, strict=True)))
    variance = float(sum(n * (len(r) - n) * r.var() / max(1, len(r) - 1) for r, n in zip(ranks, sizes, strict=True)))
    work = sum(len(r) * n * int(np.sort(r)[-n:].sum()) for r, n in zip(ranks, sizes, strict=True))
    if work > _EXACT_WORK:
        return Null(None, mean, math.sqrt(variance))
    pmf = np.ones(1)
    for block, n in zip(ranks, sizes, strict=True):
        pmf = np.convolve(pmf, _subset_sums(block, n))
    return Null(pmf, mean, math.sqrt(variance))


def _subset_sums(ranks: NDArray[np.int64], n: int) -> Floats:
    """Probability of each sum of `n` of the ranks, drawn without replacement; index = sum."""
    top = int(np.sort(ranks)[-n:].sum())
    ways = np.zeros((n + 1, top + 1))
    ways[0, 0] = 1.0
    for rank in ranks:
        longer = ways[:-1, : top + 1 - rank].copy()
        ways[1:, rank:] += longer
    counts: Floats = ways[n] / math.comb(len(ranks), n)
    return counts
