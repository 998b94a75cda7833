"""Whether a service is back, or only had a lucky moment: a server that goes on missing has good windows too."""

from __future__ import annotations

import math

from plumbline.metrics.proportions import binomial_at_most

_LUCK = 0.01
"""Probability of a streak as good by chance, over all moments that were tried, below which the service is back."""
_WORSE = 0.02
"""Probability of so many of the misses after the recovery if they fell as before the fault, below which it is worse than before."""


def is_shown(missed: int, requests: int, missed_after: int, after: int, tries: int) -> bool:
    """Whether the `after` requests since the service was back, of which `missed_after` were missed, are more than luck of a service that goes on missing
    as it did: `missed` of `requests` while it was not. `tries`: moments that could have been taken for the recovery."""
    share = (missed + 0.5) / (requests + 1)
    return binomial_at_most(missed_after, after, share) * max(1, tries) < _LUCK


def is_as_good(missed: int, before: int, missed_after: int, after: int) -> bool:
    """Whether `missed_after` of `after` requests is no more than `missed` of `before` in good times: Fisher's exact test, one-sided."""
    both = missed + missed_after
    if not before or not missed_after:
        return True
    every = _log_choose(before + after, both)
    chances = (
        math.exp(_log_choose(after, k) + _log_choose(before, both - k) - every)
        for k in range(missed_after, min(both, after) + 1)
        if both - k <= before
    )
    return math.fsum(chances) >= _WORSE


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
