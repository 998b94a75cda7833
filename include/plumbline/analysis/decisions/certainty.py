"""Whether a ranking has a winner: below one half, naming one provider first is wrong more often than right."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

CLEAR_FROM = 0.5
"""P(first) from which on a provider is named first."""
SHARED_BY = 0.9
"""Providers that together are first with this probability share the first place."""


def contenders(probabilities: Sequence[float | None]) -> int:
    """How many providers share the first place: 1 with a clear winner or where no probability is known, 0 without a provider.

    `probabilities`: P(first) of each eligible provider. Of a ranking without a clear winner it is the fewest providers that are first with a
    probability of SHARED_BY together.
    """
    known = sorted((p for p in probabilities if p is not None), reverse=True)
    if not known or known[0] >= CLEAR_FROM:
        return min(len(probabilities), 1)
    # A little less than the share: sums of tenths are not exact.
    return next((n for n, reached in enumerate(accumulate(known), 1) if reached >= SHARED_BY - 1e-9), len(known))
