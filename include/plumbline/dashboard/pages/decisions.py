"""The list of decisions, and the page of one with adjustable weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlencode

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from plumbline.analysis.decisions.experiments import Experiment
from plumbline.dashboard.acting import Acting
from plumbline.dashboard.api.decisions import (
    PROVIDERS_SHOWN,
    SLIDER_PREFIX,
    AdjustedDecision,
    InvalidDecisionQuery,
    compute_decision,
    parse_weights,
    slider_weights,
)
from plumbline.dashboard.filters import Chosen, filter_bar
from plumbline.dashboard.pages.repeats import repeat_form
from plumbline.dashboard.rendering import PageRenderer, base_path
from plumbline.dashboard.sources import AnswerCache, ArchiveReader, DeclarationsReader
from plumbline.declarations import Declarations
from plumbline.metrics import METRICS
from plumbline.metrics.formatting import format_name, format_percent, format_probability
from plumbline.presentation.charts.chart import Chart
from plumbline.presentation.charts.decisions import price_swings_chart, probability_first_chart, weight_swings_chart, winner_change_chart
from plumbline.presentation.decisions import (
    NO_EXPERIMENT,
    DecisionTables,
    ExperimentRow,
    decision_tables,
    experiment_rows,
    name_first,
    stored_decision,
)
from plumbline.workflows.current_results import decide_teams
from plumbline.workflows.experiments import next_experiments
from plumbline.workflows.winner_change import STORED_LOOKED_BACK, last_winner_change


@dataclass(frozen=True)
class Slider:
    """One weight; `value`: 0–100."""

    name: str
    metric: str
    title: str
    meaning: str
    value: int
    now: str
    declared: str


@dataclass(frozen=True)
class TrialsPart:
    """The trials of one provider's results on one workload; `anchor`: their id on the page."""

    anchor: str
    provider: str
    workload: str
    campaign: str
    trials: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class DecisionPage:
    adjusted: AdjustedDecision
    answer: str
    view: DecisionTables
    sliders: tuple[Slider, ...]
    likely: Chart | None
    charts: tuple[Chart, ...]
    trials: tuple[TrialsPart, ...]
    experiments: tuple[Experiment, ...]
    experiment_rows: tuple[ExperimentRow, ...]


def decision_page(declared: Declarations, adjusted: AdjustedDecision) -> DecisionPage:
    """Everything about one choice."""
    decided, near = adjusted.decided, adjusted.near
    drawn = (weight_swings_chart(near.decision, decided.weight_swings), price_swings_chart(near.decision, near.price_swings))
    return DecisionPage(
        adjusted=adjusted,
        answer=decision_sentence(adjusted),
        view=decision_tables(decided, near, PROVIDERS_SHOWN),
        sliders=_sliders(adjusted),
        likely=probability_first_chart(near.decision),
        charts=tuple(chart for chart in drawn if chart is not None),
        trials=tuple(_trials(adjusted)),
        experiments=(found := next_experiments(declared, decided)),
        experiment_rows=experiment_rows(found),
    )


def decision_sentence(adjusted: AdjustedDecision) -> str:
    decision = adjusted.decided.decision
    first = decision.first
    if first is None:
        return "No choice: " + (decision.note[:1].lower() + decision.note[1:] if decision.note else "no results.")
    named = name_first([(r.provider, r.probability_first) for r in decision.ranking if r.eligible])
    if named != first.provider:
        return f"{named[:1].upper()}{named[1:]}; highest score: {first.provider}, P(first) {format_probability(first.probability_first)}."
    sure = f", P(first) {format_probability(first.probability_first)}" if first.probability_first is not None else ""
    only = "" if decision.winner is not None else ", the only eligible provider"
    return f"{first.provider}{sure}{only}."


def _sliders(adjusted: AdjustedDecision) -> tuple[Slider, ...]:
    now = adjusted.decided.preference.weights
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
        for metric, weight in adjusted.declared.weights.items()
    )


def trials_anchor(provider: str, workload: str) -> str:
    """The id of a provider's trials of a workload on the page."""
    return f"trials.{provider}.{workload}"


def _trials(adjusted: AdjustedDecision) -> list[TrialsPart]:
    standing = adjusted.near.standing
    parts = []
    for ranked in adjusted.near.decision.ranking:
        counted = set(ranked.trials)
        for workload in adjusted.decided.preference.workloads:
            own = [
                t for t in standing.trials if (t.provider, t.workload) == (ranked.provider, workload) and t.usable and t.trial_id in counted
            ]
            if own:
                campaign = standing.campaigns.get((ranked.provider, workload), "")
                links = tuple((t.trial_id, t.attempt) for t in own)
                parts.append(TrialsPart(trials_anchor(ranked.provider, workload), ranked.provider, workload, campaign, links))
    return parts


STORED_PER_PAGE = 25


def router(
    pages: PageRenderer, reader: ArchiveReader, declared: DeclarationsReader, choices: AnswerCache, acting: Acting | None = None
) -> APIRouter:
    """`/decisions` and `/decisions/{team}/{kind}`."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/decisions", response_class=HTMLResponse)
    def show_decisions(request: Request, chosen: Chosen, after: str = Query("", max_length=200)) -> Response:
        archive, known = reader.archive(), declared.now()
        try:
            stored = archive.decisions_page(
                chosen.team or None, chosen.kind or None, after or None, STORED_PER_PAGE, between=chosen.span(pages.now())
            )
        except LookupError as error:
            raise HTTPException(404, str(error)) from error
        today = pages.now().date()
        found = choices.get(archive, known, today, "all", lambda: decide_teams(archive, known, today)) if known.teams else ()
        rows = [
            {
                "team": d.decision.team,
                "kind": d.decision.kind,
                "workloads": d.preference.workloads,
                "query": urlencode({"workload": d.preference.workloads[0]})
                if len(known.teams[d.decision.team].preferences(d.decision.kind)) > 1
                else "",
                "first": name_first([(r.provider, r.probability_first) for r in d.decision.ranking if r.eligible])
                if d.decision.first
                else None,
                "chance": format_probability(d.decision.first.probability_first) if d.decision.first else "",
                "eligible": sum(r.eligible for r in d.decision.ranking),
                "ranked": len(d.decision.ranking),
                "simulated": bool(d.standing.simulated),
                "note": d.decision.note,
            }
            for d in found
            if chosen.team in ("", d.decision.team) and chosen.kind in ("", d.decision.kind)
        ]
        history = [stored_decision(view) for view in stored.rows]
        return pages.page(
            request,
            "decisions.html.j2",
            rows=rows,
            history=history,
            older=chosen.query(after=stored.after) if stored.after else "",
            begun=bool(after),
            chosen=chosen,
            bar=filter_bar("/decisions", known, chosen, money=True),
        )

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
        if not workload and len(offered) > 1:  # the team's main choice
            main = urlencode({**request.query_params, "workload": offered[0][0]})
            return RedirectResponse(f"{base_path(request)}/decisions/{team}/{kind}?{main}")
        try:
            wanted = slider_weights(request.query_params) or parse_weights(weights)
            today, key = pages.now().date(), ("page", team, kind, workload, tuple(sorted(wanted.items())))
            shown = choices.get(
                archive,
                known,
                today,
                key,
                lambda: decision_page(known, compute_decision(archive, known, today, team, kind, workload or None, wanted)),
            )
        except LookupError as error:
            raise HTTPException(404, str(error.args[0])) from error
        except InvalidDecisionQuery as error:
            return pages.message(request, "No such decision", str(error), 422)
        stored = archive.decisions_page(team, kind, limit=STORED_LOOKED_BACK).rows
        change = last_winner_change(archive, stored, shown.adjusted.decided.preference.workloads)
        return pages.page(
            request,
            "decision.html.j2",
            d=shown,
            workload=workload,
            history=[stored_decision(view) for view in stored],
            choices=offered,
            change=change,
            no_experiment=NO_EXPERIMENT,
            repeats=repeat_form(acting, request, declared, team, kind, shown.experiments),
            waterfall=None if change is None else winner_change_chart(change.change),
        )

    return routes
