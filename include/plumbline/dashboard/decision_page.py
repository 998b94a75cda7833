"""What the page of a decision shows, as rows of text; everything is chosen and worded here, the template lays it out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plumbline.dashboard.decision import SHOWN, SLIDER, Asked
from plumbline.dashboard.decision_charts import first_chart, price_swings_chart, weight_chart
from plumbline.declarations import METRICS
from plumbline.reports.chart import Chart
from plumbline.reports.figures import chance, percent, scale, words
from plumbline.reports.tables import RankRow, rank_rows
from plumbline.scorecards.cheapest import Cheapest
from plumbline.scorecards.decision import Gate
from plumbline.scorecards.price_sensitivity import CHEAPEST, DEAREST, PriceFlip
from plumbline.scorecards.weights import WeightFlip


@dataclass(frozen=True)
class Slider:
    """One weight: `value` 0–100 as it is now, `declared` in words."""

    name: str
    metric: str
    title: str
    meaning: str
    value: int
    now: str
    declared: str


@dataclass(frozen=True)
class GateRow:
    """One gate of every provider: `cells` are (value, passed)."""

    text: str
    workload: str
    cells: tuple[tuple[str, bool], ...]


@dataclass(frozen=True)
class SwingRow:
    """How far one thing may go down and up before the first changes; where no change was found, how far was looked."""

    name: str
    now: str
    down: str
    up: str


@dataclass(frozen=True)
class SetupRow:
    """`outcome`: pass, fail, or insufficient where nothing speaks against it and something is not proven."""

    provider: str
    meets: bool
    outcome: str
    cost: str
    interval: str
    n: int
    probability: str
    why_not: tuple[str, ...]


@dataclass(frozen=True)
class CheapestPart:
    """The cheapest setup of one workload that meets the requirement, in a sentence, and everybody's cost."""

    workload: str
    metric: str
    requirements: tuple[str, ...]
    said: str
    note: str
    rows: tuple[SetupRow, ...]


@dataclass(frozen=True)
class TrialsPart:
    """The trials behind one provider's numbers on one workload; `anchor` is where numbers lead."""

    anchor: str
    provider: str
    workload: str
    campaign: str
    trials: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class DecisionPage:
    asked: Asked
    said: str
    sliders: tuple[Slider, ...]
    rows: tuple[RankRow, ...]
    gates: tuple[GateRow, ...]
    likely: Chart | None
    charts: tuple[Chart, ...]
    weights: tuple[SwingRow, ...]
    prices: tuple[SwingRow, ...]
    cheapest: tuple[CheapestPart, ...]
    trials: tuple[TrialsPart, ...]


def decision_page(asked: Asked) -> DecisionPage:
    """Everything about one choice."""
    decided, decision = asked.decided, asked.near.decision
    drawn = (
        weight_chart(decision, decided.weight_swings),
        price_swings_chart(decision, asked.near.price_swings),
    )
    return DecisionPage(
        asked=asked,
        said=said(asked),
        sliders=_sliders(asked),
        rows=rank_rows(decision),
        gates=tuple(_gates(asked)),
        likely=first_chart(decision),
        charts=tuple(chart for chart in drawn if chart is not None),
        weights=tuple(_weight_swings(asked)),
        prices=tuple(_price_swings(asked)),
        cheapest=tuple(_cheapest(c) for c in decided.cheapest),
        trials=tuple(_trials(asked)),
    )


def said(asked: Asked) -> str:
    """The answer in a sentence."""
    decision = asked.decided.decision
    first = decision.first
    if first is None:
        return "Nobody can be chosen: " + (decision.note[:1].lower() + decision.note[1:] if decision.note else "nothing was measured.")
    sure = f", first with a probability of {chance(first.probability_first)}" if first.probability_first is not None else ""
    only = "" if decision.winner is not None else ", the only one that is eligible"
    return f"{first.provider}{sure}{only}."


def _sliders(asked: Asked) -> tuple[Slider, ...]:
    now = asked.decided.preference.weights
    return tuple(
        Slider(
            name=f"{SLIDER}{metric}",
            metric=metric,
            title=words(metric),
            meaning=METRICS[metric].meaning,
            value=round(100 * now.get(metric, 0.0)),
            now=percent(now.get(metric, 0.0)),
            declared=percent(weight),
        )
        for metric, weight in asked.declared.weights.items()
    )


def _gates(asked: Asked) -> list[GateRow]:
    ranking = asked.near.decision.ranking
    if not ranking:
        return []
    rows = []
    for j, gate in enumerate(ranking[0].gates):
        own: Sequence[Gate] = [r.gates[j] for r in ranking]
        shown = scale(gate.unit, [g.value for g in own])
        rows.append(GateRow(gate.text, gate.workload, tuple((shown.text(g.value), g.passed) for g in own)))
    return rows


def _weight_swings(asked: Asked) -> list[SwingRow]:
    def told(flip: WeightFlip | None) -> str:
        return "at no weight" if flip is None else f"{percent(flip.weight)}: {flip.first}"

    return [SwingRow(words(s.metric), percent(s.weight), told(s.below), told(s.above)) for s in asked.decided.weight_swings]


def _price_swings(asked: Asked) -> list[SwingRow]:
    def told(flip: PriceFlip | None, looked: str) -> str:
        if flip is None:
            return f"not {looked} of today's"
        usd = f"{flip.usd_per_hour:,.4g} USD/h" if flip.usd_per_hour is not None else f"× {flip.factor:.3g}"
        change = f"{100 * (flip.factor - 1):+.0f} %".replace("-", "−")
        return f"{usd} ({change}): {flip.first}"

    rows = asked.near.price_swings
    return [
        SwingRow(
            s.provider,
            f"{s.usd_per_hour:,.4g} USD/h" if s.usd_per_hour is not None else "–",
            told(s.falls, f"down to {percent(CHEAPEST)}"),
            told(s.rises, f"up to {percent(DEAREST)}"),
        )
        for s in rows
    ]


def _cheapest(found: Cheapest) -> CheapestPart:
    shown = scale("USD", [s.cost for s in found.setups], found.metric, significant=4)
    answer = found.answer
    proven = any(j.outcome == "fail" for s in found.setups for j in s.missed)
    sentence = "Nobody meets the requirement." if proven or not found.setups else "Nobody is proven to meet the requirement."
    if answer is not None:
        sure = f" (cheapest with a probability of {chance(answer.probability_cheapest)})" if answer.probability_cheapest is not None else ""
        sentence = f"{answer.provider} at {shown.text(answer.cost)}{sure}."
    rows = tuple(
        SetupRow(
            provider=s.provider,
            meets=s.meets,
            outcome="pass" if s.meets else "insufficient" if s.missed and all(j.outcome == "insufficient" for j in s.missed) else "fail",
            cost=shown.text(s.cost),
            interval=f"{shown.number(s.low)} … {shown.number(s.high)}" if s.low is not None else "",
            n=s.n,
            probability=chance(s.probability_cheapest),
            why_not=s.why_not,
        )
        for s in found.setups[:SHOWN]
    )
    return CheapestPart(found.workload, words(found.metric), found.requirements, sentence, found.note, rows)


def trials_anchor(provider: str, workload: str) -> str:
    """Where on the page the trials behind a provider's numbers on a workload stand."""
    return f"trials.{provider}.{workload}"


def _trials(asked: Asked) -> list[TrialsPart]:
    standing = asked.near.standing
    parts = []
    for ranked in asked.near.decision.ranking:
        counted = set(ranked.trials)
        for workload in asked.decided.preference.workloads:
            own = [
                t for t in standing.trials if (t.provider, t.workload) == (ranked.provider, workload) and t.usable and t.trial_id in counted
            ]
            if own:
                campaign = standing.campaigns.get((ranked.provider, workload), "")
                links = tuple((t.trial_id, t.attempt) for t in own)
                parts.append(TrialsPart(trials_anchor(ranked.provider, workload), ranked.provider, workload, campaign, links))
    return parts
