"""A decision as rows and sentences: ranking, sensitivity, cheapest setup; stored decisions as rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from plumbline.analysis.decisions.cheapest import Cheapest, Setup
from plumbline.analysis.decisions.current_results import TeamDecision
from plumbline.analysis.decisions.decision import Decision
from plumbline.analysis.decisions.sensitivity import PriceFlip, PriceSwing, WeightSwing
from plumbline.analysis.drift import comparison
from plumbline.archive import DecisionView
from plumbline.findings.price import format_usd
from plumbline.metrics import METRICS
from plumbline.metrics.formatting import common_scale, format_name, format_percent, format_probability, join_words


@dataclass(frozen=True)
class SetupRow:
    """One provider of the question who is the cheapest that meets the requirement; `missed` is empty if it does."""

    provider: str
    meets: bool
    cost: str
    interval: str
    chance: str
    missed: tuple[str, ...]


@dataclass(frozen=True)
class CheapestTable:
    """The setups of one workload, those that meet the requirement first. `cost_of`: what they cost per."""

    workload: str
    cost_of: str
    requirements: tuple[str, ...]
    rows: tuple[SetupRow, ...]
    note: str


@dataclass(frozen=True)
class DecisionSection:
    """One decision. `by_weight`, `by_price`: full sentences; empty where there is no choice to change."""

    decision: Decision
    rows: tuple[RankRow, ...]
    by_weight: tuple[str, ...]
    by_price: tuple[str, ...]
    cheapest: tuple[CheapestTable, ...]


def decision_sections(decided: Iterable[TeamDecision]) -> tuple[DecisionSection, ...]:
    """Every decision of a campaign, in the order in which they were made."""
    return tuple(
        DecisionSection(
            d.decision,
            rank_rows(d.decision),
            weight_sentences(d.weight_swings),
            price_sentences(d.price_swings),
            tuple(_cheapest(each) for each in d.cheapest),
        )
        for d in decided
    )


def weight_sentences(swings: Sequence[WeightSwing]) -> tuple[str, ...]:
    """One sentence for each weight that can change the first place, and one for those that cannot."""
    said, fixed = [], []
    for swing in swings:
        ends = [(end, flip) for end, flip in (("below", swing.below), ("above", swing.above)) if flip is not None]
        if ends:
            then = join_words(f"{end} {_weight(flip.weight)} {flip.first} is first" for end, flip in ends)
            said.append(f"{format_name(swing.metric)}, weight {_weight(swing.weight)}: {then}.")
        else:
            fixed.append(format_name(swing.metric))
    if fixed:
        said.append(f"No weight of {join_words(fixed)} changes the first choice by itself.")
    return tuple(said)


def price_sentences(swings: Sequence[PriceSwing]) -> tuple[str, ...]:
    """One sentence for each provider whose price can change the first place, and one for those whose price cannot."""
    said, fixed = [], []
    for swing in swings:
        flips = [flip for flip in (swing.falls, swing.rises) if flip is not None]
        if flips:
            today = "" if swing.usd_per_hour is None else f" (now {_hourly_price(swing.usd_per_hour)})"
            said.append(f"{swing.provider}{today}: {join_words(_flipped(flip) for flip in flips)}.")
        else:
            fixed.append(swing.provider)
    if fixed:
        said.append(f"No price of {join_words(fixed)} between 0.1 and 10 times the current price changes the first choice.")
    return tuple(said)


def _flipped(flip: PriceFlip) -> str:
    at = (
        f"{format_percent(flip.factor)} of the current price"
        if flip.usd_per_hour is None
        else f"{_rounded_price(flip.usd_per_hour)} ({comparison.format_relative_change(flip.factor - 1)})"
    )
    return f"at {at} or {'less' if flip.factor < 1 else 'more'} {flip.first} is first"


def _hourly_price(price: float) -> str:
    return f"{format_usd(price)} USD/h"


def _rounded_price(price: float) -> str:
    """Where the first place changes: known to four digits, and not written with more."""
    return _hourly_price(float(f"{price:.4g}"))


def _weight(weight: float) -> str:
    """A share of the score; near its ends with a decimal, so that none reads as all or nothing."""
    return format_percent(weight, 0 if 0.01 <= weight <= 0.99 else 1)


def nearest_change(decided: TeamDecision) -> str:
    """The smallest move of one weight and of one price that changes the first place, in a sentence; empty where there was no choice."""
    winner = decided.decision.winner
    if winner is None:
        return ""
    found: list[tuple[str, str]] = []
    weights = [(abs(flip.weight - s.weight), s, flip) for s in decided.weight_swings for flip in (s.below, s.above) if flip is not None]
    if weights:
        _, swing, flip = min(weights, key=lambda w: w[0])
        found.append((flip.first, f"{format_name(swing.metric)} has weight {_weight(flip.weight)} instead of {_weight(swing.weight)}"))
    prices = [(max(f.factor, 1 / f.factor), s, f) for s in decided.price_swings for f in (s.falls, s.rises) if f is not None]
    if prices:
        _, price, moved = min(prices, key=lambda p: p[0])
        found.append((moved.first, f"{price.provider} costs {_price_condition(price, moved)}"))
    if not found:
        return f"No single weight and no single price between 0.1 and 10 times the current price puts another provider ahead of {winner.provider}."
    if len({first for first, _ in found}) == 1:
        return f"{found[0][0]} is first if {', or if '.join(condition for _, condition in found)}."
    return f"{'; '.join(f'{first} is first if {condition}' for first, condition in found)}."


def _price_condition(price: PriceSwing, flip: PriceFlip) -> str:
    if price.usd_per_hour is None or flip.usd_per_hour is None:
        return f"{format_percent(flip.factor)} of its current price"
    return f"{_rounded_price(flip.usd_per_hour)} instead of {_hourly_price(price.usd_per_hour)}"


def _cheapest(found: Cheapest) -> CheapestTable:
    unit = METRICS[found.metric].unit
    shown = common_scale(unit, [s.cost for s in found.setups], found.metric)

    def row(setup: Setup) -> SetupRow:
        known = setup.low is not None and setup.high is not None
        interval = f"{shown.number(setup.low)} … {shown.number(setup.high)}" if known else f"n {setup.n}" if setup.n else ""
        return SetupRow(
            setup.provider, setup.meets, shown.text(setup.cost), interval, format_probability(setup.probability_cheapest), setup.why_not
        )

    return CheapestTable(found.workload, format_name(found.metric), found.requirements, tuple(row(s) for s in found.setups), found.note)


def cheapest_sentences(decided: Iterable[TeamDecision]) -> tuple[str, ...]:
    """Who is the cheapest that keeps what is asked, a sentence for each workload and answer, with the teams that ask so."""
    asking: dict[tuple[str, str], list[str]] = {}
    for d in decided:
        for found in d.cheapest:
            if found.requirements and found.setups:
                asking.setdefault((found.workload, _answer_text(found)), []).append(d.decision.team)
    return tuple(f"{workload}, requirements of {join_words(teams)}: {answer}." for (workload, answer), teams in asking.items())


def _plural_ask(teams: Sequence[str]) -> str:
    return "asks" if len(teams) == 1 else "ask"


def _answer_text(found: Cheapest) -> str:
    answer = found.answer
    if answer is None:
        missed = dict.fromkeys(j.text for s in found.setups for j in s.missed)
        unknown = [] if missed else [format_name(found.metric)]
        return f"no provider is shown to meet all requirements; missing: {join_words([*missed, *unknown])}"
    cost = common_scale(METRICS[found.metric].unit, [answer.cost], found.metric).text(answer.cost)
    sure = "" if answer.probability_cheapest is None else f", P(cheapest) {format_probability(answer.probability_cheapest)}"
    return f"{answer.provider} at {cost} ({format_name(found.metric)}){sure}"


@dataclass(frozen=True)
class RankRow:
    place: str
    provider: str
    score: str
    chance: str
    values: tuple[str, ...]
    shares: tuple[float, ...]
    why_not: tuple[str, ...]


def rank_rows(decision: Decision) -> tuple[RankRow, ...]:
    """A decision's ranking as rows; `shares`: what each column's value function makes of the value, in percent."""
    scales = [common_scale(c.unit, [r.values[j] for r in decision.ranking], c.metric) for j, c in enumerate(decision.columns)]
    rows = []
    for i, r in enumerate(decision.ranking, start=1):
        rows.append(
            RankRow(
                place=str(i) if r.eligible else "–",
                provider=r.provider,
                score="–" if r.score is None else f"{r.score:.2f}",
                chance=format_probability(r.probability_first),
                values=tuple(s.text(v) for s, v in zip(scales, r.values, strict=True)),
                shares=tuple(round(100 * v, 1) for v in r.ratios or ()),
                why_not=r.why_not,
            )
        )
    return tuple(rows)


@dataclass(frozen=True)
class StoredDecision:
    """A decision as it was stored."""

    decision_id: str
    when: str
    team: str
    kind: str
    workloads: str
    first: str
    chance: str
    instead_of: str
    why: str
    campaigns: tuple[str, ...]


def stored_decision(view: DecisionView) -> StoredDecision:
    """A stored decision as a row; older ones say less of themselves."""
    detail = view.detail
    return StoredDecision(
        decision_id=view.decision_id,
        when=f"{view.decided_at:%Y-%m-%d %H:%M}",
        team=view.team,
        kind=view.kind,
        workloads=" + ".join(detail.get("workloads", ())),
        first=view.winner or "none",
        chance=format_probability(view.probability),
        instead_of=str(detail.get("instead_of") or ""),
        why=str(detail.get("why") or ""),
        campaigns=tuple(sorted({c for own in (detail.get("campaigns") or {}).values() for c in own})),
    )
