"""Who is first and how sure.

Below one half a ranking has no winner: naming one provider first is wrong more often than right. From there up to the team's bar one leads, and
is no clear winner.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from plumbline.analysis.decisions.decision import Decision, Ranked

CLEAR_FROM = 0.5
"""P(first) from which on a provider is named first."""
SHARED_BY = 0.9
"""Providers that together are first with this probability share the first place."""


def contenders(probabilities: Sequence[float | None]) -> int:
    """How many providers share the first place: 1 where one leads, all where no probability is known, 0 without a provider.

    `probabilities`: P(first) of each eligible provider. Where none leads: the fewest providers whose probabilities to be first sum to
    SHARED_BY.
    """
    known = sorted((p for p in probabilities if p is not None), reverse=True)
    if not known:
        return len(probabilities)
    if known[0] >= CLEAR_FROM:
        return 1
    # A little less than the share: sums of tenths are not exact.
    return next((n for n, reached in enumerate(accumulate(known), 1) if reached >= SHARED_BY - 1e-9), len(known))


def leaders_of(decision: Decision) -> tuple[Ranked, ...]:
    """The providers that share the first place; one where it leads, none where no provider is eligible."""
    return decision.eligible[: contenders([r.probability_first for r in decision.eligible])]


def is_clear(decision: Decision) -> bool:
    """Whether there was a choice, and its first reaches the team's bar. The only eligible provider had no rival."""
    return decision.evidence == "clear"


def rivals_of(decision: Decision) -> tuple[Ranked, ...]:
    """Whose repeats would make a choice clear: the fewest providers that are first with the bar's probability together, at least two; all where
    no probability is known."""
    known = [r for r in decision.eligible if r.probability_first is not None]
    if not known:
        return decision.eligible
    reached = accumulate(r.probability_first or 0.0 for r in known)
    return tuple(known[: max(2, next((n for n, p in enumerate(reached, 1) if p >= decision.bar - 1e-9), len(known)))])
