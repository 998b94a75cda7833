"""Who is first, how sure, and who is cheaper, in the words of every page, message, report and command."""

from __future__ import annotations

from collections.abc import Sequence

from plumbline.analysis.decisions.certainty import is_clear, leaders_of
from plumbline.analysis.decisions.cheapest import Cheapest, Setup
from plumbline.analysis.decisions.contradiction import Contradiction
from plumbline.analysis.decisions.decision import ClosedGate, Decision, Note, Ranked
from plumbline.analysis.decisions.savings import answers_of, relative_switches
from plumbline.declarations.teams import CERTAINTY
from plumbline.judgement import Judgement, broken, judges, met, not_shown
from plumbline.metrics.formatting import format_count, format_name, format_percent, format_probability, join_words
from plumbline.words.criteria import explanation_text

_LEAST_SAVING = 0.005
"""Part of the cost from which on a provider counts as cheaper."""
NEEDS_REPEATS = "a probability needs two repeats of each"


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
    reasons = next((why_not_texts(r) for r in decision.ranking if r.why_not), ())
    return note_text(decision.note).removesuffix(".") or ": ".join([name_first(decision), *reasons[:1]])


def note_text(note: Note) -> str:
    """What a ranking cannot say, in sentences; empty if it says all."""
    return note if isinstance(note, str) else " ".join(each if isinstance(each, str) else _contradiction_text(each) for each in note)


def _contradiction_text(one: Contradiction) -> str:
    probes = " and ".join(format_name(name) for name in one.probes)
    return (
        f"{one.faster} is at least {one.probed:.1f} times as fast as {one.slower} in every probe ({probes}), and its "
        f"{format_name(one.metric)} on {one.workload} is {one.ratio:.2f} times that of {one.slower}: something between the hardware and "
        "the workload decides, so no certainty is given."
    )


def why_not_texts(ranked: Ranked) -> tuple[str, ...]:
    """Why a provider is not eligible, one text a reason, without a full stop."""
    return tuple(
        each if isinstance(each, str) else f'gate "{each.text}" on {each.workload} {_closed_text(each)}' for each in ranked.why_not
    )


def _closed_text(gate: ClosedGate) -> str:
    match gate.why:
        case "not_met":
            return "is not met"
        case "not_measured":
            return "was not measured"
        case "not_known":
            return f"is not shown: {gate.unknown}"
        case "unproven":
            between = f"at least {format_percent(gate.at_least or 0.0, 3)}, at most {format_percent(gate.at_most or 0.0, 3)}"
            return f"is not shown: {between}; the rest is unknown"


def setup_texts(setup: Setup) -> tuple[str, ...]:
    """Why a setup is not sufficient, one text a reason, without a full stop."""
    return tuple(each if isinstance(each, str) else f"{each.text}: {explanation_text(each.explanation)}" for each in setup.why_not)


def today_text(decision: Decision, today: Decision | None) -> str:
    """Today's decision if it differs from a campaign's own; else empty."""
    return (
        "" if today is None or first_sentence(today) == first_sentence(decision) else f"as of this campaign; today {first_sentence(today)}"
    )


def with_certainty(provider: str, probability: float | None, bar: float = CERTAINTY) -> str:
    """A provider with the probability of what is said of it, such as `cirrus (92 % sure)`, below the bar `cirrus (67 %)`; the name alone
    where it is unknown."""
    sure = "" if probability is None or probability < bar else " sure"
    return provider if probability is None else f"{provider} ({format_probability(probability)}{sure})"


def with_probability(ranked: Ranked) -> str:
    """The same in a list of several providers, of which one alone can be first: `cirrus (82 %)`."""
    return ranked.provider if ranked.probability_first is None else f"{ranked.provider} ({format_probability(ranked.probability_first)})"


def cheapest_text(probability: float | None) -> str:
    """The text after the cheapest provider and its cost: `, P(cheapest) 82 %`; empty if it is unknown."""
    return "" if probability is None else f", P(cheapest) {format_probability(probability)}"


def answer_sentence(decision: Decision, cheapest: Sequence[Cheapest]) -> str:
    """Who is first and how sure, and who is cheaper: `cirrus, 82 % sure; aurora is 12 % cheaper`, without a full stop.

    `cheapest`: of each workload the setups that meet the requirements.
    """
    first = decision.first
    answers = answers_of(decision, cheapest, lambda provider, purchase: None, first.provider) if first is not None else ()
    on = {a.workload: f" on {a.workload}" if len(cheapest) > 1 else "" for a in answers}
    cheaper = [s for s in relative_switches(answers) if s.saving >= _LEAST_SAVING]
    return "; ".join([first_sentence(decision), *(f"{s.to} is {format_percent(s.saving)} cheaper{on[s.workload]}" for s in cheaper)])


@judges("decision")
def judge_choice(decision: Decision) -> Judgement:
    """Met if the first of several eligible providers reaches the team's bar, broken if evidence refuses every provider."""
    first, bar = decision.first, format_probability(decision.bar)
    name, chance = (first.provider, format_probability(first.probability_first)) if first is not None else ("", "")
    match decision.evidence:
        case "every_provider_refused":
            return broken(f"none of {format_count(len(decision.ranking), 'provider')} is eligible")
        case "no_sweep":
            return not_shown("no provider is ranked", "no trial searched the highest rate", "a phase sweep in the workload")
        case "nothing_measured":
            return not_shown("no provider ran these workloads", "nothing was measured", "a campaign on two providers")
        case "number_missing":
            waiting = [r.provider for r in decision.ranking if not r.refused]
            missing = f"of {join_words(waiting[:3])} a number is missing"
            return not_shown("no provider is eligible", missing, "a usable trial of each with every number")
        case "no_rival":
            return not_shown(f"{name} is the only eligible provider", "it was compared with none", "a second eligible provider")
        case "no_probability":
            seen = f"{name} scores highest of {len(decision.eligible)}"
            return not_shown(seen, "its probability is unknown", "two repeats of each provider")
        case "below_bar":
            return not_shown(f"{name} is first with {chance}", f"below the bar of {bar}", f"more repeats until one is first with {bar}")
        case "clear":
            return met(f"{name} is first with {chance}, the bar is {bar}")
