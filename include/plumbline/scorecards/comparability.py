"""What of several scorecards cannot be put side by side, and why. A number that cannot be compared is shown as such, never ranked away."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from plumbline.declarations.differences import ALWAYS, SOURCE, reason_of
from plumbline.scorecards.inputs import Conditions, Kind
from plumbline.scorecards.scorecard import Scorecard

MONTHS_APART_D = 31
"""Days between two measurements from which on software, neighbours and prices had time to move."""

SAME_LENGTH = 0.05
"""Relative difference in tokens of an answer up to which latencies and rates of requests are still of the same work."""

_OF_THE_SERIES = ("kind", "name", "version")


@dataclass(frozen=True)
class Incomparable:
    """One reason not to compare. `weight` refused: the numbers answer different questions; caution: they may be read with this in mind.

    `providers`: the columns that it concerns. `reason` names them, with what each has.
    """

    kind: Kind
    workload: str
    providers: tuple[str, ...]
    reason: str
    weight: Literal["refused", "caution"]


def incomparable(cards: Iterable[Scorecard]) -> tuple[Incomparable, ...]:
    """Every reason not to compare cards of one workload with each other, refusals first; empty if all may be compared. Pure."""

    def identity(card: Scorecard) -> tuple[str, str]:
        return (card.kind, card.workload)

    found: list[Incomparable] = []
    for _, group in groupby(sorted(cards, key=identity), key=identity):
        side_by_side = sorted(group, key=lambda c: (c.provider, c.version))
        found += [
            *_versions(side_by_side),
            *_conditions(side_by_side),
            *_lengths(side_by_side),
            *_degraded(side_by_side),
            *_apart(side_by_side),
        ]
    return tuple(sorted(found, key=lambda i: i.weight != "refused"))


def _versions(cards: Sequence[Scorecard]) -> list[Incomparable]:
    values = {f"version {v}": [c.provider for c in cards if c.version == v] for v in sorted({c.version for c in cards})}
    return [_refused(cards, values, ALWAYS["version"])] if len(values) > 1 else []


def _conditions(cards: Sequence[Scorecard]) -> list[Incomparable]:
    """What was asked and how it was measured, field by field; of cards of one version, since another version differs anyway."""
    found = []
    for _, group in groupby(sorted(cards, key=lambda c: c.version), key=lambda c: c.version):
        known = [c for c in group if c.conditions]
        for name, why in (("source", SOURCE), ("protocol", ALWAYS["protocol"]), ("engine", ALWAYS["engine"])):
            values = _by_value(known, name)
            if len(values) > 1:
                found.append(_refused(known, values if name == "source" else {f"{name} {v}": p for v, p in values.items()}, why))
        for field in sorted({field for c in known for told in c.conditions for field, _ in told.asked} - set(_OF_THE_SERIES)):
            values = _by_value(known, field)
            if len(values) > 1:
                found.append(_refused(known, {f"{field} {v}": p for v, p in values.items()}, reason_of(field)))
    return found


def _by_value(cards: Sequence[Scorecard], field: str) -> dict[str, list[str]]:
    """Providers by the value of a field; one provider stands at several where its own trials differ."""
    values: dict[str, list[str]] = {}
    for card in cards:
        for told in card.conditions:
            value = _of(told, field)
            if card.provider not in values.setdefault(str(value), []):
                values[str(value)].append(card.provider)
    return values


def _of(told: Conditions, field: str) -> Hashable:
    return getattr(told, field) if field in ("source", "protocol", "engine") else dict(told.asked).get(field, "absent")


def _refused(cards: Sequence[Scorecard], values: dict[str, list[str]], why: str) -> Incomparable:
    told = "; ".join(f"{value} on {', '.join(providers)}" for value, providers in values.items())
    providers = tuple(dict.fromkeys(p for several in values.values() for p in several))
    return Incomparable(cards[0].kind, cards[0].workload, providers, f"{told}: {why}", "refused")


def _lengths(cards: Sequence[Scorecard]) -> list[Incomparable]:
    """Answers that came out of different lengths: an endpoint may end them earlier than it was asked to."""
    found = {c.provider: tokens for c in cards if (tokens := _tokens_an_answer(c)) is not None}
    if len(found) < 2 or max(found.values()) <= min(found.values()) * (1 + SAME_LENGTH):
        return []
    told = "; ".join(f"answers of {tokens:.0f} tokens on {provider}" for provider, tokens in found.items())
    return [Incomparable(cards[0].kind, cards[0].workload, tuple(found), f"{told}: {reason_of('requests.output_tokens')}", "refused")]


def _tokens_an_answer(card: Scorecard) -> float | None:
    tokens, requests = (card.row(name, "value", "steady") for name in ("output_token_throughput", "request_throughput"))
    if tokens is None or requests is None or not tokens.value or not requests.value:
        return None
    return tokens.value / requests.value


def _degraded(cards: Sequence[Scorecard]) -> list[Incomparable]:
    return [
        Incomparable(
            c.kind,
            c.workload,
            (c.provider,),
            f"{c.counts['degraded']} of {c.usable} usable trials on {c.provider} are degraded: {'; '.join(c.reasons) or 'no reason was kept'}",
            "caution",
        )
        for c in cards
        if c.counts["degraded"]
    ]


def _apart(cards: Sequence[Scorecard]) -> list[Incomparable]:
    dated = sorted(((c.first, c) for c in cards if c.first is not None), key=lambda pair: (pair[0], pair[1].provider))
    if len({c.provider for _, c in dated}) < 2 or (days := (dated[-1][0] - dated[0][0]).days) <= MONTHS_APART_D:
        return []
    told = ", ".join(f"{c.provider} from {first}" for first, c in dated)
    why = f"measured {days} days apart ({told}): software, neighbours and prices had time to move"
    return [Incomparable(cards[0].kind, cards[0].workload, tuple(dict.fromkeys(c.provider for _, c in dated)), why, "caution")]
