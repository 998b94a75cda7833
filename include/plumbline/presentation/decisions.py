"""A decision as rows and sentences: ranking, sensitivity, cheapest setup, next experiments, why the first choice changed; stored ones as rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from plumbline.analysis.decisions.certainty import is_clear
from plumbline.analysis.decisions.cheapest import Cheapest
from plumbline.analysis.decisions.current_results import TeamDecision
from plumbline.analysis.decisions.decision import Decision
from plumbline.analysis.decisions.decision_record import DecisionDocument
from plumbline.analysis.decisions.experiments import LEAST_GAIN, Experiment
from plumbline.analysis.decisions.savings import cost_answers, savings_of
from plumbline.analysis.decisions.sensitivity import CHEAPEST, DEAREST, PriceFlip, PriceSwing, WeightFlip, WeightSwing
from plumbline.analysis.decisions.winner_change import Cause, StoredChange, WinnerChange
from plumbline.metrics.formatting import (
    common_scale,
    format_change,
    format_count,
    format_money,
    format_name,
    format_percent,
    format_probability,
    format_significant,
    join_words,
)
from plumbline.presentation.acceptances import OpenNodes
from plumbline.presentation.series_summary import format_age
from plumbline.words.decision_record import decision_detail, decision_document
from plumbline.words.decisions import certainty_text, cheapest_text, judge_choice, name_first, note_text, setup_texts, why_not_texts
from plumbline.words.winner_change import points_text, why_sentence


def decision_view(
    decided: TeamDecision,
    experiments: Sequence[Experiment],
    listed: TeamDecision | None = None,
    *,
    nodes: OpenNodes | None = None,
    change: StoredChange | None = None,
) -> dict[str, Any]:
    """A live decision as JSON says it. `listed`: see `decision_document`; `experiments`: what to measure again, the best first; `nodes`: of the
    first choice, those that were not accepted; `change`: the newest one of the first choice."""
    detail = decision_detail(decision_document(decided, listed))
    why = None if change is None else {"since": change.decided_at, **vars(change.change), "why": why_sentence(change.change)}
    return {
        "team": decided.decision.team,
        "kind": decided.decision.kind,
        **detail,
        "judgement": judge_choice(decided.decision),
        "experiments": experiments,
        "nodes": nodes,
        "changed": why,
        "evidence": evidence_texts(decided),
    }


def evidence_texts(decided: TeamDecision) -> dict[str, str]:
    """Of each provider with usable trials how many repeats its numbers rest on, and what `condition_texts` says."""
    conditions = condition_texts(decided)
    repeats = {r.provider: r.n for r in decided.decision.ranking if r.n}
    return {name: ", ".join((format_count(n, "repeat"), conditions[name])) for name, n in repeats.items() if name in conditions}


def condition_texts(decided: TeamDecision) -> dict[str, str]:
    """Of each provider with usable trials: at which hours these ran, and what limited them."""
    found: dict[str, str] = {}
    usable = [t for t in decided.current.trials if t.usable and t.workload in decided.preference.workloads]
    for name in dict.fromkeys(t.provider for t in usable):
        own = [t for t in usable if t.provider == name]
        hours = join_words(sorted({t.slot for t in own}))
        limits = sorted({limit.word for t in own for limit in t.limits})
        found[name] = f"at {hours} UTC, limit: {join_words(limits) if limits else 'not shown'}"
    return found


def what_decides(decision: Decision) -> str:
    """What would decide a choice that is not shown, in a sentence; empty where the answer or its note says it already."""
    decides, winner = judge_choice(decision).decides, decision.winner
    said = not decision.ranking or (winner is not None and winner.probability_first is None)
    return "" if said or not decides else f"What would decide it: {decides}."


def current_place(decided: TeamDecision) -> str:
    """Where the team declares that it runs, and what the cheapest sufficient provider would save of its cost; empty where it declares none."""
    if decided.preference.current is None:
        return ""
    savings = savings_of(cost_answers(decided), ())
    moves = join_words(f"{m.to} costs {format_percent(m.saving)} less on {m.workload}" for m in savings.moves)
    known = savings.placed == savings.of > 0
    saves = moves or ("none that meets the requirements costs less" if known else "its cost there is not known")
    return f"Runs on {decided.preference.current} today, as declared: {saves}."


@dataclass(frozen=True)
class SetupRow:
    """One provider's cost of an outcome. `outcome`: pass, fail, or insufficient where no requirement fails and one is not proven."""

    provider: str
    meets: bool
    outcome: str
    cost: str
    interval: str
    n: int
    probability: str
    why_not: tuple[str, ...]


@dataclass(frozen=True)
class CheapestTable:
    """The setups of one workload, those that meet the requirements first. `metric`: what they cost per; `answer`: a sentence."""

    workload: str
    metric: str
    requirements: tuple[str, ...]
    answer: str
    rows: tuple[SetupRow, ...]
    note: str


@dataclass(frozen=True)
class GateRow:
    """One gate of every provider: `cells` are (value, passed)."""

    text: str
    workload: str
    cells: tuple[tuple[str, bool], ...]


@dataclass(frozen=True)
class SwingRow:
    """The values down to and up to which the first choice stays, each with the next first choice."""

    name: str
    now: str
    down: str
    up: str


@dataclass(frozen=True)
class DecisionTables:
    """One decision. `weights`, `prices`: what another one would change; empty without a choice. `differs`: why the first one is not the
    cheapest. `nearest`: see nearest_change."""

    decision: Decision
    rows: tuple[RankRow, ...]
    gates: tuple[GateRow, ...]
    weights: tuple[SwingRow, ...]
    prices: tuple[SwingRow, ...]
    cheapest: tuple[CheapestTable, ...]
    differs: tuple[str, ...]
    nearest: str


def first_against_cheapest(decided: TeamDecision) -> tuple[str, ...]:
    """Why the first provider is not the cheapest one that meets the requirements: a sentence for each workload where the two differ.

    The score is a weighted geometric mean, so each metric moves its logarithm by weight × log of the ratio of both values.
    """
    decision, first = decided.decision, decided.decision.first
    if first is None or first.ratios is None:
        return ()
    sentences = []
    for cheapest in decided.cheapest:
        other = next((r for r in decision.ranking if cheapest.answer is not None and r.provider == cheapest.answer.provider), None)
        if other is None or other.provider == first.provider:
            continue
        start = f"{cheapest.workload}: {first.provider} is first, {other.provider} is the cheapest that meets the requirements"
        if other.ratios is None:
            sentences.append(f"{start}, and is not eligible: {join_words(why_not_texts(other))}.")
            continue
        moves = [
            (c.weight * (math.log(a) - math.log(b)), f"{format_name(c.metric)} (weight {format_percent(c.weight)})")
            for c, a, b in zip(decision.columns, first.ratios, other.ratios, strict=True)
        ]
        for_first = [text for move, text in sorted(moves, reverse=True) if move > 0]
        for_other = [text for move, text in sorted(moves) if move < 0]
        explanation = f"{first.provider} is better in {join_words(for_first)}" if for_first else "the two score alike"
        sentences.append(f"{start}: {explanation}" + (f"; {other.provider} in {join_words(for_other)}." if for_other else "."))
    return tuple(sentences)


def decision_tables(decided: TeamDecision, listed: TeamDecision | None = None, setups: int | None = None) -> DecisionTables:
    """A decision as rows. `listed`: the same decision among the providers that rank first; `setups`: rows of each cheapest table."""
    excerpt = listed or decided
    return DecisionTables(
        decision=excerpt.decision,
        rows=rank_rows(excerpt.decision),
        gates=tuple(
            _gate_row(excerpt.decision, j) for j in range(len(excerpt.decision.ranking[0].gates) if excerpt.decision.ranking else 0)
        ),
        weights=weight_rows(decided.weight_swings),
        prices=price_rows(excerpt.price_swings),
        cheapest=tuple(cheapest_table(cheapest, setups) for cheapest in decided.cheapest),
        differs=first_against_cheapest(decided),
        nearest=nearest_change(excerpt),
    )


def _gate_row(decision: Decision, j: int) -> GateRow:
    gates = [ranked.gates[j] for ranked in decision.ranking]
    scale = common_scale(gates[0].unit, [g.value for g in gates])
    return GateRow(gates[0].text, gates[0].workload, tuple((scale.text(g.value), g.passed) for g in gates))


def weight_rows(swings: Sequence[WeightSwing]) -> tuple[SwingRow, ...]:
    def text(flip: WeightFlip | None) -> str:
        return "none" if flip is None else f"{_weight(flip.weight)}: {flip.first}"

    return tuple(SwingRow(format_name(s.metric), _weight(s.weight), text(s.below), text(s.above)) for s in swings)


def price_rows(swings: Sequence[PriceSwing]) -> tuple[SwingRow, ...]:
    """Rows of prices; one without a change has the searched range as a share of the current price."""

    def text(flip: PriceFlip | None, limit: str) -> str:
        if flip is None:
            return f"none {limit}"
        price = format_money(flip.usd_per_hour, "USD/h") if flip.usd_per_hour is not None else f"× {flip.factor:.3g}"
        return f"{price} ({format_change(flip.factor - 1, 0)}): {flip.first}"

    ends = f"down to {format_percent(CHEAPEST)}", f"up to {format_percent(DEAREST)}"
    return tuple(
        SwingRow(s.provider, format_money(s.usd_per_hour, "USD/h"), text(s.falls, ends[0]), text(s.rises, ends[1])) for s in swings
    )


def _weight(weight: float) -> str:
    return format_percent(weight, 0 if 0.01 <= weight <= 0.99 else 1)


def nearest_change(decided: TeamDecision) -> str:
    """The smallest change of one weight and of one price that changes the first choice, in a sentence; empty without a choice."""
    winner = decided.decision.winner
    if winner is None:
        return ""
    conditions: list[tuple[str, str]] = []
    weights = [(abs(flip.weight - s.weight), s, flip) for s in decided.weight_swings for flip in (s.below, s.above) if flip is not None]
    if weights:
        _, swing, flip = min(weights, key=lambda w: w[0])
        conditions.append((flip.first, f"{format_name(swing.metric)} has weight {_weight(flip.weight)} instead of {_weight(swing.weight)}"))
    prices = [(max(f.factor, 1 / f.factor), s, f) for s in decided.price_swings for f in (s.falls, s.rises) if f is not None]
    if prices:
        _, price, price_flip = min(prices, key=lambda p: p[0])
        conditions.append((price_flip.first, f"{price.provider} costs {_price_condition(price, price_flip)}"))
    if not conditions:
        return f"No single weight and no single price between 0.1 and 10 times the current price puts another provider ahead of {winner.provider}."
    if len({first for first, _ in conditions}) == 1:
        return f"{conditions[0][0]} is first if {', or if '.join(condition for _, condition in conditions)}."
    return f"{'; '.join(f'{first} is first if {condition}' for first, condition in conditions)}."


def _price_condition(price: PriceSwing, flip: PriceFlip) -> str:
    if price.usd_per_hour is None or flip.usd_per_hour is None:
        return f"{format_percent(flip.factor)} of its current price"
    return f"{format_money(flip.usd_per_hour, 'USD/h')} instead of {format_money(price.usd_per_hour, 'USD/h')}"


def cheapest_table(cheapest: Cheapest, limit: int | None = None) -> CheapestTable:
    scale = common_scale("USD", [s.cost for s in cheapest.setups], cheapest.metric, significant=4)
    best = cheapest.answer
    if best is not None:
        answer = f"{best.provider} at {scale.text(best.cost)}{cheapest_text(best.probability_cheapest)}."
    else:
        failed = any(j.outcome == "fail" for s in cheapest.setups for j in s.missed)
        unproven = "No provider is proven to meet the requirements." if cheapest.setups else "No provider was measured."
        answer = "No provider meets the requirements." if failed else unproven
    rows = tuple(
        SetupRow(
            provider=s.provider,
            meets=s.meets,
            outcome="pass" if s.meets else "insufficient" if s.missed and all(j.outcome == "insufficient" for j in s.missed) else "fail",
            cost=scale.text(s.cost),
            interval=scale.interval(s.low, s.high),
            n=s.n,
            probability=format_probability(s.probability_cheapest),
            why_not=setup_texts(s),
        )
        for s in cheapest.setups[:limit]
    )
    return CheapestTable(cheapest.workload, format_name(cheapest.metric), cheapest.requirements, answer, rows, note_text(cheapest.note))


@dataclass(frozen=True)
class RankRow:
    """`shares`: each column's value function applied to the value, in percent."""

    place: str
    provider: str
    score: str
    chance: str
    values: tuple[str, ...]
    shares: tuple[float, ...]
    why_not: tuple[str, ...]


def rank_rows(decision: Decision) -> tuple[RankRow, ...]:
    scales = [common_scale(c.unit, [r.values[j] for r in decision.ranking], c.metric) for j, c in enumerate(decision.columns)]
    return tuple(
        RankRow(
            place=str(i) if r.eligible else "–",
            provider=r.provider,
            score="–" if r.score is None else f"{r.score:.2f}",
            chance=format_probability(r.probability_first),
            values=tuple(s.text(v) for s, v in zip(scales, r.values, strict=True)),
            shares=tuple(round(100 * v, 1) for v in r.ratios or ()),
            why_not=why_not_texts(r),
        )
        for i, r in enumerate(decision.ranking, start=1)
    )


@dataclass(frozen=True)
class DecisionRow:
    """One decision in a list, stored or live. `first`: the first choice in the fewest words; `certainty`: how sure, in words; `chance`: its
    probability; `when`, `age`: of a stored one; `decided`: whether there is one at all."""

    decision: DecisionDocument
    decided: bool = True
    when: str = ""
    age: str = ""

    @property
    def first(self) -> str:
        return name_first(self.decision)

    @property
    def certainty(self) -> str:
        return certainty_text(self.decision)

    @property
    def clear(self) -> bool:
        return is_clear(self.decision)

    @property
    def chance(self) -> str:
        return format_probability(self.decision.probability)

    @property
    def campaigns(self) -> list[str]:
        """All that it rests on."""
        return sorted({c for campaign_ids in self.decision.campaigns.values() for c in campaign_ids})


def decision_row(decision: DecisionDocument, now: datetime) -> DecisionRow:
    at = decision.decided_at
    return DecisionRow(decision, True, f"{at:%Y-%m-%d %H:%M}" if at else "", format_age(at, now) if at else "")


NO_EXPERIMENT = (
    f"Nothing to measure again: no repeats of one series add {100 * LEAST_GAIN:.1f} points or more to the chance of choosing right. "
    "A provider's repeats add at most its P(first), those of the first one at most what the others have."
)


@dataclass(frozen=True)
class ExperimentRow:
    """`share`: of the largest gain, 0–100."""

    provider: str
    workload: str
    repeats: str
    gain: str
    share: int
    cost: str
    per_usd: str
    unpriced: str


def experiment_rows(experiments: Sequence[Experiment]) -> tuple[ExperimentRow, ...]:
    """In their order."""
    largest_gain = max((e.gain for e in experiments), default=1.0)
    return tuple(
        ExperimentRow(
            provider=e.provider,
            workload=e.workload,
            repeats=f"{e.n} → {e.trials}",
            gain=f"+{100 * e.gain:.1f} points",
            share=round(100 * e.gain / largest_gain),
            cost="unknown" if e.usd is None else format_money(e.usd),
            per_usd="–" if e.gain_per_usd is None else f"{format_significant(100 * e.gain_per_usd)} points",
            unpriced=e.unpriced or "",
        )
        for e in experiments
    )


_CAUSES: tuple[tuple[Cause, str], ...] = (
    ("price", "price"),
    ("speed", ""),
    ("cost", ""),
    ("weights", "weights and gates"),
    ("noise", "noise"),
)
"""Cause and its step; empty: one step for each metric."""


@dataclass(frozen=True)
class DecisionStep:
    """`points`: the lead, or a part of its move from `base`, in logarithms of the score. `cause`: None of a lead."""

    name: str
    base: float
    points: float
    cause: Cause | None

    @property
    def text(self) -> str:
        """About percent."""
        return points_text(self.points)


def change_title(change: WinnerChange) -> str:
    return f"Why {change.new} is first instead of {change.old}"


def change_steps(change: WinnerChange) -> tuple[DecisionStep, ...]:
    """The lead before, the parts, the lead now; empty where the lead is not known."""
    if change.before is None or change.after is None:
        return ()
    steps = [DecisionStep(f"{change.new}, before", 0.0, change.before, None)]
    level, has_several_workloads = change.before, len({p.workload for p in change.parts}) > 1
    for cause, title in _CAUSES:
        rows: dict[str, float] = {}
        for part in (p for p in change.parts if p.cause == cause):
            name = title or format_name(part.metric) + (f", {part.workload}" if has_several_workloads else "")
            rows[name] = rows.get(name, 0.0) + part.points
        for name, points in rows.items():
            steps.append(DecisionStep(name, level, points, cause))
            level += points
    return (*steps, DecisionStep(f"{change.new}, now", 0.0, change.after, None))
