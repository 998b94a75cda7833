"""Who is first and how sure, in the words of every page, message, report and command.

Below one half a ranking has no winner: naming one provider first is wrong more often than right. From there up to the team's bar one leads, and
is no clear winner.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from plumbline.analysis.decisions.decision import Decision, Ranked
from plumbline.declarations.teams import CERTAINTY
from plumbline.metrics.formatting import format_probability

NEEDS_REPEATS = "a probability needs two repeats of each"
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
    return decision.judgement.verdict == "met"


def rivals_of(decision: Decision) -> tuple[Ranked, ...]:
    """Whose repeats would make a choice clear: the fewest providers that are first with the bar's probability together, at least two; all where
    no probability is known."""
    known = [r for r in decision.eligible if r.probability_first is not None]
    if not known:
        return decision.eligible
    reached = accumulate(r.probability_first or 0.0 for r in known)
    return tuple(known[: max(2, next((n for n, p in enumerate(reached, 1) if p >= decision.bar - 1e-9), len(known)))])


def name_first(decision: Decision) -> str:
    """The first choice in the fewest words: a provider, or that there is no clear winner among so many, or no eligible provider."""
    leaders = leaders_of(decision)
    if not leaders:
        return "no eligible provider"
    return leaders[0].provider if len(leaders) == 1 else f"no clear winner among {len(leaders)}"


def certainty_text(decision: Decision) -> str:
    """How sure the first place is: `92 % sure`; without a clear winner who leads with what. Empty where no provider is eligible."""
    first = decision.first
    if first is None:
        return ""
    if len(decision.eligible) == 1:
        return "the only eligible provider"
    if first.probability_first is None:
        return f"{first.provider} scores highest; {NEEDS_REPEATS}"
    chance = format_probability(first.probability_first)
    if is_clear(decision):
        return f"{chance} sure"
    below = f", below the bar of {format_probability(decision.bar)}" if len(leaders_of(decision)) == 1 else ""
    return f"{first.provider} leads with {chance}{below}"


def first_sentence(decision: Decision) -> str:
    """Who is first and how sure, without a full stop: `cirrus, 92 % sure`; where none is, why."""
    if decision.first is not None:
        sure, name = certainty_text(decision), name_first(decision)
        return sure if sure.startswith(f"{name} leads ") else f"{name}, {sure}"
    reasons = next((r.why_not for r in decision.ranking if r.why_not), ())
    return decision.note.removesuffix(".") or ": ".join([name_first(decision), *reasons[:1]])


def today_text(decision: Decision, today: Decision | None) -> str:
    """Today's decision if it differs from a campaign's own; else empty."""
    return (
        "" if today is None or first_sentence(today) == first_sentence(decision) else f"as of this campaign; today {first_sentence(today)}"
    )


def with_certainty(provider: str, probability: float | None, bar: float = CERTAINTY) -> str:
    """A provider with the probability of what is said of it, such as `cirrus (92 % sure)`, below the bar `cirrus (67 %)`; the name alone where
    it is unknown."""
    sure = "" if probability is None or probability < bar else " sure"
    return provider if probability is None else f"{provider} ({format_probability(probability)}{sure})"


def with_probability(ranked: Ranked) -> str:
    """The same in a list of several providers, of which one alone can be first: `cirrus (82 %)`."""
    return ranked.provider if ranked.probability_first is None else f"{ranked.provider} ({format_probability(ranked.probability_first)})"


def cheapest_text(probability: float | None) -> str:
    """The text after the cheapest provider and its cost: `, P(cheapest) 82 %`; empty if it is unknown."""
    return "" if probability is None else f", P(cheapest) {format_probability(probability)}"
