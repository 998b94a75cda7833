"""The list of decisions, and the page of one with adjustable weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlencode

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from plumbline.analysis.decisions.cheapest import Cheapest
from plumbline.analysis.decisions.decision import Gate
from plumbline.analysis.decisions.sensitivity import CHEAPEST, DEAREST, PriceFlip, WeightFlip
from plumbline.dashboard.api.decisions import (
    PROVIDERS_SHOWN,
    SLIDER_PREFIX,
    AdjustedDecision,
    InvalidDecisionQuery,
    compute_decision,
    parse_weights,
    slider_weights,
)
from plumbline.dashboard.rendering import PageRenderer, base_path
from plumbline.dashboard.sources import ArchiveReader, DecisionCache, DeclarationsReader
from plumbline.metrics import METRICS
from plumbline.metrics.formatting import common_scale, format_name, format_percent, format_probability
from plumbline.presentation.charts.chart import Chart
from plumbline.presentation.charts.decisions import price_swings_chart, probability_first_chart, weight_swings_chart
from plumbline.presentation.decisions import RankRow, rank_rows, stored_decision
from plumbline.workflows.current_results import decide_teams


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
    asked: AdjustedDecision
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


def decision_page(asked: AdjustedDecision) -> DecisionPage:
    """Everything about one choice."""
    decided, decision = asked.decided, asked.near.decision
    drawn = (
        weight_swings_chart(decision, decided.weight_swings),
        price_swings_chart(decision, asked.near.price_swings),
    )
    return DecisionPage(
        asked=asked,
        said=decision_sentence(asked),
        sliders=_sliders(asked),
        rows=rank_rows(decision),
        gates=tuple(_gates(asked)),
        likely=probability_first_chart(decision),
        charts=tuple(chart for chart in drawn if chart is not None),
        weights=tuple(_weight_swings(asked)),
        prices=tuple(_price_swings(asked)),
        cheapest=tuple(_cheapest(c) for c in decided.cheapest),
        trials=tuple(_trials(asked)),
    )


def decision_sentence(asked: AdjustedDecision) -> str:
    """The answer in a sentence."""
    decision = asked.decided.decision
    first = decision.first
    if first is None:
        return "No choice: " + (decision.note[:1].lower() + decision.note[1:] if decision.note else "no results.")
    sure = f", P(first) {format_probability(first.probability_first)}" if first.probability_first is not None else ""
    only = "" if decision.winner is not None else ", the only eligible provider"
    return f"{first.provider}{sure}{only}."


def _sliders(asked: AdjustedDecision) -> tuple[Slider, ...]:
    now = asked.decided.preference.weights
    return tuple(
        Slider(
            name=f"{SLIDER_PREFIX}{metric}",
            metric=metric,
            title=format_name(metric),
            meaning=METRICS[metric].description,
            value=round(100 * now.get(metric, 0.0)),
            now=format_percent(now.get(metric, 0.0)),
            declared=format_percent(weight),
        )
        for metric, weight in asked.declared.weights.items()
    )


def _gates(asked: AdjustedDecision) -> list[GateRow]:
    ranking = asked.near.decision.ranking
    if not ranking:
        return []
    rows = []
    for j, gate in enumerate(ranking[0].gates):
        own: Sequence[Gate] = [r.gates[j] for r in ranking]
        shown = common_scale(gate.unit, [g.value for g in own])
        rows.append(GateRow(gate.text, gate.workload, tuple((shown.text(g.value), g.passed) for g in own)))
    return rows


def _weight_swings(asked: AdjustedDecision) -> list[SwingRow]:
    def told(flip: WeightFlip | None) -> str:
        return "none" if flip is None else f"{format_percent(flip.weight)}: {flip.first}"

    return [SwingRow(format_name(s.metric), format_percent(s.weight), told(s.below), told(s.above)) for s in asked.decided.weight_swings]


def _price_swings(asked: AdjustedDecision) -> list[SwingRow]:
    def told(flip: PriceFlip | None, looked: str) -> str:
        if flip is None:
            return f"none {looked} of the current price"
        usd = f"{flip.usd_per_hour:,.4g} USD/h" if flip.usd_per_hour is not None else f"× {flip.factor:.3g}"
        change = f"{100 * (flip.factor - 1):+.0f} %".replace("-", "−")
        return f"{usd} ({change}): {flip.first}"

    rows = asked.near.price_swings
    return [
        SwingRow(
            s.provider,
            f"{s.usd_per_hour:,.4g} USD/h" if s.usd_per_hour is not None else "–",
            told(s.falls, f"down to {format_percent(CHEAPEST)}"),
            told(s.rises, f"up to {format_percent(DEAREST)}"),
        )
        for s in rows
    ]


def _cheapest(found: Cheapest) -> CheapestPart:
    shown = common_scale("USD", [s.cost for s in found.setups], found.metric, significant=4)
    answer = found.answer
    proven = any(j.outcome == "fail" for s in found.setups for j in s.missed)
    sentence = "Nobody meets the requirement." if proven or not found.setups else "Nobody is proven to meet the requirement."
    if answer is not None:
        sure = (
            f" (cheapest with a probability of {format_probability(answer.probability_cheapest)})"
            if answer.probability_cheapest is not None
            else ""
        )
        sentence = f"{answer.provider} at {shown.text(answer.cost)}{sure}."
    rows = tuple(
        SetupRow(
            provider=s.provider,
            meets=s.meets,
            outcome="pass" if s.meets else "insufficient" if s.missed and all(j.outcome == "insufficient" for j in s.missed) else "fail",
            cost=shown.text(s.cost),
            interval=f"{shown.number(s.low)} … {shown.number(s.high)}" if s.low is not None else "",
            n=s.n,
            probability=format_probability(s.probability_cheapest),
            why_not=s.why_not,
        )
        for s in found.setups[:PROVIDERS_SHOWN]
    )
    return CheapestPart(found.workload, format_name(found.metric), found.requirements, sentence, found.note, rows)


def trials_anchor(provider: str, workload: str) -> str:
    """Where on the page the trials behind a provider's numbers on a workload stand."""
    return f"trials.{provider}.{workload}"


def _trials(asked: AdjustedDecision) -> list[TrialsPart]:
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


STORED_PER_PAGE, STORED_OF_ONE = 25, 10


def router(pages: PageRenderer, reader: ArchiveReader, declared: DeclarationsReader, choices: DecisionCache) -> APIRouter:
    """`/decisions` and `/decisions/{team}/{kind}`."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/decisions", response_class=HTMLResponse)
    def show_decisions(request: Request, after: str = Query("", max_length=200)) -> Response:
        archive, known = reader.archive(), declared.now()
        try:
            stored = archive.decisions_page(after=after or None, limit=STORED_PER_PAGE)
        except LookupError as error:
            raise HTTPException(404, str(error)) from error
        today = pages.now().date()
        found = choices.kept(archive, known, today, "all", lambda: decide_teams(archive, known, today)) if known.teams else ()
        rows = [
            {
                "team": d.decision.team,
                "kind": d.decision.kind,
                "workloads": d.preference.workloads,
                "query": urlencode({"workload": d.preference.workloads[0]})
                if len(known.teams[d.decision.team].preferences(d.decision.kind)) > 1
                else "",
                "first": d.decision.first.provider if d.decision.first else None,
                "chance": format_probability(d.decision.first.probability_first) if d.decision.first else "",
                "eligible": sum(r.eligible for r in d.decision.ranking),
                "ranked": len(d.decision.ranking),
                "simulated": bool(d.standing.simulated),
                "note": d.decision.note,
            }
            for d in found
        ]
        history = [stored_decision(view) for view in stored.rows]
        return pages.page(request, "decisions.html.j2", rows=rows, history=history, older=stored.after, begun=bool(after))

    @routes.get("/decisions/{team}/{kind}", response_class=HTMLResponse)
    def show_decision(
        request: Request,
        team: str,
        kind: Literal["training", "inference"],
        workload: str = Query("", max_length=200),
        weights: str = Query("", max_length=2000),
    ) -> Response:
        archive, known = reader.archive(), declared.now()
        offered = [p.workloads for p in known.teams[team].preferences(kind)] if team in known.teams else []
        if not workload and len(offered) > 1:  # the team's main choice, by its address
            main = urlencode({**request.query_params, "workload": offered[0][0]})
            return RedirectResponse(f"{base_path(request)}/decisions/{team}/{kind}?{main}")
        try:
            wanted = slider_weights(request.query_params) or parse_weights(weights)
            today, key = pages.now().date(), ("page", team, kind, workload, tuple(sorted(wanted.items())))
            shown = choices.kept(
                archive,
                known,
                today,
                key,
                lambda: decision_page(compute_decision(archive, known, today, team, kind, workload or None, wanted)),
            )
        except LookupError as error:
            raise HTTPException(404, str(error.args[0])) from error
        except InvalidDecisionQuery as error:
            return pages.message(request, "No such decision", str(error), 422)
        own = [stored_decision(view) for view in archive.decisions_page(team, kind, limit=STORED_OF_ONE).rows]
        return pages.page(request, "decision.html.j2", d=shown, workload=workload, history=own, choices=offered)

    return routes
