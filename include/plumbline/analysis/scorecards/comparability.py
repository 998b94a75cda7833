"""Differences that forbid a comparison of scorecards, with reasons. A number that cannot be compared is shown as such, never ranked away."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from plumbline.analysis.scorecards.comparison_class import ComparedTrial, CostIncludes, classify_comparison
from plumbline.analysis.scorecards.scorecard import Scorecard, scorecards
from plumbline.analysis.trial_sample import Conditions, TrialSample, WorkloadKind
from plumbline.declarations.trials import REQUIRED_EQUAL, SOURCES_NEVER_MIX, difference_reason
from plumbline.metrics.names import names_by_text

MONTHS_APART_D = 31
"""Days between two measurements from which on software, neighbours and prices had time to move."""

SAME_LENGTH = 0.05
"""Relative difference in tokens of an answer up to which latencies and rates of requests are still of the same work."""

_OF_LENGTHS = ("output_token_throughput", "request_throughput")
"""Metrics that depend on the length of answers: tokens over requests."""

_OF_THE_SERIES = ("kind", "name", "version")
_HOW = {"source": SOURCES_NEVER_MIX, "protocol": REQUIRED_EQUAL["protocol"], "engine": REQUIRED_EQUAL["engine"]}
"""How a number was measured, and why another way forbids a comparison; the other fields are what was asked."""


@dataclass(frozen=True)
class Incomparable:
    """One reason not to compare. `weight` refused: the numbers answer different questions; caution: they may be read with this in mind.

    `providers`: the columns that it concerns. `reason` names them, with what each has. `code`: of what limits a comparison that is made,
    `native_stack` or one of `Limitation`; else empty. `sides`: of a refusal, the providers by what they have.
    """

    kind: WorkloadKind
    workload: str
    providers: tuple[str, ...]
    reason: str
    weight: Literal["refused", "caution"]
    code: str = ""
    sides: tuple[tuple[str, ...], ...] = ()

    @property
    def refused_side(self) -> tuple[str, ...]:
        """Providers that a ranking leaves out: all but the largest side; all if no side is the largest. One on several sides is on none."""
        whole = [tuple(p for p in side if sum(p in other for other in self.sides) == 1) for side in self.sides]
        largest = max(map(len, whole), default=0)
        kept = [side for side in whole if len(side) == largest]
        return tuple(p for p in self.providers if len(kept) != 1 or p not in kept[0])


def incomparable(cards: Iterable[Scorecard]) -> tuple[Incomparable, ...]:
    """Every reason not to compare cards of one workload with each other, refusals first; empty if all may be compared. Pure."""

    def identity(card: Scorecard) -> tuple[str, str]:
        return (card.kind, card.workload)

    findings: list[Incomparable] = []
    for _, group in groupby(sorted(cards, key=identity), key=identity):
        side_by_side = sorted(group, key=lambda c: (c.provider, c.version))
        findings += [
            *_versions(side_by_side),
            *_conditions(side_by_side),
            *_lengths(side_by_side),
            *_degraded(side_by_side),
            *_measured_apart(side_by_side),
            *_limited(side_by_side),
        ]
    return tuple(sorted(findings, key=lambda i: i.weight != "refused"))


def refusals(trials: Iterable[TrialSample]) -> dict[str, str]:
    """The providers that may not be ranked, since their usable numbers answer another question than the most others', and why. Pure."""
    # A card of all their metrics would cost many times as much and say the same.
    slim = [replace(t, metrics=tuple(m for m in t.metrics if m.metric in _OF_LENGTHS)) for t in trials if t.usable]
    refused = [each for each in incomparable(scorecards(slim)) if each.weight == "refused"]
    return {provider: f"not comparable on {each.workload}: {each.reason}" for each in reversed(refused) for provider in each.refused_side}


def _versions(cards: Sequence[Scorecard]) -> list[Incomparable]:
    values = {f"version {v}": [c.provider for c in cards if c.version == v] for v in sorted({c.version for c in cards})}
    return [_refused(cards, values, REQUIRED_EQUAL["version"])] if len(values) > 1 else []


def _conditions(cards: Sequence[Scorecard]) -> list[Incomparable]:
    """What was asked and how it was measured, field by field; of cards of one version, since another version differs anyway."""
    differences = []
    for _, group in groupby(sorted(cards, key=lambda c: c.version), key=lambda c: c.version):
        measured = [(card.provider, fields) for card in group for fields in map(_fields, card.conditions)]
        for field in (*_HOW, *sorted({name for _, fields in measured for name in fields} - {*_HOW, *_OF_THE_SERIES})):
            values = names_by_text((provider, fields.get(field, "absent")) for provider, fields in measured)
            if len(values) > 1:
                named = values if field == "source" else {f"{field} {value}": providers for value, providers in values.items()}
                differences.append(_refused(cards, named, _HOW.get(field) or difference_reason(field)))
    return differences


def _fields(conditions: Conditions) -> dict[str, str]:
    """Everything that must be the same, as text by field."""
    requested = {name: str(value) for name, value in conditions.asked}
    return {**requested, "source": conditions.source, "protocol": conditions.protocol, "engine": conditions.engine}


def _refused(cards: Sequence[Scorecard], values: dict[str, list[str]], why: str) -> Incomparable:
    named = "; ".join(f"{value} on {', '.join(providers)}" for value, providers in values.items())
    providers = tuple(dict.fromkeys(p for several in values.values() for p in several))
    sides = tuple(map(tuple, values.values()))
    return Incomparable(cards[0].kind, cards[0].workload, providers, f"{named}: {why}", "refused", sides=sides)


def _lengths(cards: Sequence[Scorecard]) -> list[Incomparable]:
    """Answers that came out of different lengths: an endpoint may end them earlier than it was asked to."""
    by_provider = {c.provider: tokens for c in cards if (tokens := _tokens_an_answer(c)) is not None}
    if len(by_provider) < 2 or max(by_provider.values()) <= min(by_provider.values()) * (1 + SAME_LENGTH):
        return []
    lengths = "; ".join(f"answers of {tokens:.0f} tokens on {provider}" for provider, tokens in by_provider.items())
    why = f"{lengths}: {difference_reason('requests.output_tokens')}"
    sides: list[list[str]] = []
    for provider in sorted(by_provider, key=lambda name: by_provider[name]):
        if sides and by_provider[provider] <= by_provider[sides[-1][0]] * (1 + SAME_LENGTH):
            sides[-1].append(provider)
        else:
            sides.append([provider])
    return [Incomparable(cards[0].kind, cards[0].workload, tuple(by_provider), why, "refused", sides=tuple(map(tuple, sides)))]


def _tokens_an_answer(card: Scorecard) -> float | None:
    tokens, requests = (card.row(name, "value", "steady") for name in _OF_LENGTHS)
    if tokens is None or requests is None or not tokens.value or not requests.value:
        return None
    return tokens.value / requests.value


def _degraded(cards: Sequence[Scorecard]) -> list[Incomparable]:
    return [
        Incomparable(
            c.kind,
            c.workload,
            (c.provider,),
            f"{c.counts['degraded']} of {c.usable} usable trials on {c.provider} are degraded: {'; '.join(c.degraded_by) or 'no reason recorded'}",
            "caution",
        )
        for c in cards
        if c.counts["degraded"]
    ]


def _measured_apart(cards: Sequence[Scorecard]) -> list[Incomparable]:
    dated = sorted(((c.first, c) for c in cards if c.first is not None), key=lambda pair: (pair[0], pair[1].provider))
    if len({c.provider for _, c in dated}) < 2 or (days := (dated[-1][0] - dated[0][0]).days) <= MONTHS_APART_D:
        return []
    starts = ", ".join(f"{c.provider} from {first}" for first, c in dated)
    why = f"measured {days} days apart ({starts}): software, neighbours and prices had time to move"
    return [Incomparable(cards[0].kind, cards[0].workload, tuple(dict.fromkeys(c.provider for _, c in dated)), why, "caution")]


def _limited(cards: Sequence[Scorecard]) -> list[Incomparable]:
    """Stacks and accelerators that differ, costs that charge a part of an instance that is sold whole, and what costs include and are without."""
    classified = classify_comparison(
        ComparedTrial(c.provider, conditions, c.charged, None, c.includes, c.without) for c in cards for conditions in c.conditions
    )
    names = tuple(dict.fromkeys(c.provider for c in cards))
    cautions = [("native_stack", f"each provider's own stack: {', '.join(classified.differences)}")] if classified.differences else []
    # Cards carry no restarts.
    cautions += [
        (each.code, each.text if isinstance(each.text, str) else each.text.sentence)
        for each in classified.limitations
        if isinstance(each.text, str | CostIncludes)
    ]
    return [Incomparable(cards[0].kind, cards[0].workload, names, text, "caution", code) for code, text in cautions]
