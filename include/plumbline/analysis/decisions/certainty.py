"""Who is first and how sure, in the words of every page, message, report and command.

Below one half a ranking has no winner: naming one provider first is wrong more often than right.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from plumbline.analysis.decisions.decision import Decision, Ranked
from plumbline.metrics.formatting import format_probability

CLEAR_FROM = 0.5
"""P(first) from which on a provider is named first."""
SHARED_BY = 0.9
"""Providers that together are first with this probability share the first place."""


def contenders(probabilities: Sequence[float | None]) -> int:
    """How many providers share the first place: 1 with a clear winner or where no probability is known, 0 without a provider.

    `probabilities`: P(first) of each eligible provider. Without a clear winner: the fewest providers whose
    probabilities to be first sum to SHARED_BY.
    """
    known = sorted((p for p in probabilities if p is not None), reverse=True)
    if not known or known[0] >= CLEAR_FROM:
        return min(len(probabilities), 1)
    # A little less than the share: sums of tenths are not exact.
    return next((n for n, reached in enumerate(accumulate(known), 1) if reached >= SHARED_BY - 1e-9), len(known))


def leaders_of(decision: Decision) -> tuple[Ranked, ...]:
    """The providers that share the first place; one with a clear winner, none where nobody is eligible."""
    return decision.eligible[: contenders([r.probability_first for r in decision.eligible])]


def name_first(decision: Decision) -> str:
    """The first choice in the fewest words: a provider, or that there is no clear winner among so many, or no eligible provider."""
    leaders = leaders_of(decision)
    if not leaders:
        return "no eligible provider"
    return leaders[0].provider if len(leaders) == 1 else f"no clear winner among {len(leaders)}"


def certainty_text(decision: Decision) -> str:
    """How sure the first place is: `82 % sure`; without a clear winner who leads with what. Empty where nobody is eligible."""
    first = decision.first
    if first is None:
        return ""
    if len(decision.eligible) == 1:
        return "the only eligible provider"
    if first.probability_first is None:
        return "probability unknown"
    chance = format_probability(first.probability_first)
    return f"{chance} sure" if len(leaders_of(decision)) == 1 else f"{first.provider} leads with {chance}"


def first_sentence(decision: Decision) -> str:
    """Who is first and how sure, without a full stop: `cirrus, 82 % sure`; where nobody is, why."""
    if decision.first is not None:
        return f"{name_first(decision)}, {certainty_text(decision)}"
    reasons = next((r.why_not for r in decision.ranking if r.why_not), ())
    return decision.note.removesuffix(".") or ": ".join([name_first(decision), *reasons[:1]])


def today_text(decision: Decision, today: Decision | None) -> str:
    """Today's decision if it differs from a campaign's own; else empty."""
    return (
        "" if today is None or first_sentence(today) == first_sentence(decision) else f"as of this campaign; today {first_sentence(today)}"
    )


def with_certainty(provider: str, probability: float | None) -> str:
    """A provider with the probability of what is said of it, such as `cirrus (82 % sure)`; the name alone where it is unknown."""
    return provider if probability is None else f"{provider} ({format_probability(probability)} sure)"


def with_probability(ranked: Ranked) -> str:
    """The same in a list of several providers, of which one alone can be first: `cirrus (82 %)`."""
    return ranked.provider if ranked.probability_first is None else f"{ranked.provider} ({format_probability(ranked.probability_first)})"


def cheapest_text(probability: float | None) -> str:
    """The text after the cheapest provider and its cost: `, P(cheapest) 82 %`; empty if it is unknown."""
    return "" if probability is None else f", P(cheapest) {format_probability(probability)}"
