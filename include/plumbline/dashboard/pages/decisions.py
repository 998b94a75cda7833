"""The list of decisions, and the page of one with adjustable weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from urllib.parse import urlencode

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from plumbline.analysis.decisions.current_results import TeamDecision
from plumbline.analysis.decisions.experiments import Experiment
from plumbline.archive import Archive, DecisionView
from plumbline.dashboard.acting import Acting
from plumbline.dashboard.api.decisions import (
    PROVIDERS_SHOWN,
    SLIDER_PREFIX,
    AdjustedDecision,
    InvalidDecisionQuery,
    compute_decision,
    find_preference,
    parse_weights,
    slider_weights,
)
from plumbline.dashboard.filters import Chosen, filter_bar
from plumbline.dashboard.pages.overview import DECISIONS_SEARCHED, newest_decisions
from plumbline.dashboard.pages.repeats import repeat_form
from plumbline.dashboard.parts import Parts, address_with, waits_for
from plumbline.dashboard.rendering import PageRenderer, base_path
from plumbline.dashboard.sources import AnswerCache, ArchiveReader, DeclarationsReader
from plumbline.declarations import Declarations, Preference
from plumbline.metrics import METRICS
from plumbline.metrics.formatting import format_name, format_percent, format_probability
from plumbline.presentation.charts.chart import Chart
from plumbline.presentation.charts.decisions import price_swings_chart, probability_first_chart, weight_swings_chart, winner_change_chart
from plumbline.presentation.decisions import (
    NO_EXPERIMENT,
    DecisionTables,
    decision_tables,
    experiment_rows,
    name_first,
    name_stored_first,
    stored_decision,
)
from plumbline.presentation.series_summary import format_age
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


def decision_page(adjusted: AdjustedDecision) -> DecisionPage:
    """Everything about one choice but the next best experiments, which take longer than all the rest."""
    decided, listed = adjusted.decided, adjusted.near
    charts = (weight_swings_chart(listed.decision, decided.weight_swings), price_swings_chart(listed.decision, listed.price_swings))
    return DecisionPage(
        adjusted=adjusted,
        answer=decision_sentence(adjusted),
        view=decision_tables(decided, listed, PROVIDERS_SHOWN),
        sliders=_sliders(decided.preference.weights, adjusted.declared.weights),
        likely=probability_first_chart(listed.decision),
        charts=tuple(chart for chart in charts if chart is not None),
        trials=tuple(_trials(adjusted)),
    )


def decision_sentence(adjusted: AdjustedDecision) -> str:
    decision = adjusted.decided.decision
    first = decision.first
    if first is None:
        return "No choice: " + (decision.note[:1].lower() + decision.note[1:] if decision.note else "no results.")
    name = name_first([(r.provider, r.probability_first) for r in decision.ranking if r.eligible])
    if name != first.provider:
        return f"{name[:1].upper()}{name[1:]}; highest score: {first.provider}, P(first) {format_probability(first.probability_first)}."
    certainty = f", P(first) {format_probability(first.probability_first)}" if first.probability_first is not None else ""
    suffix = "" if decision.winner is not None else ", the only eligible provider"
    return f"{first.provider}{certainty}{suffix}."


def _sliders(weights: Mapping[str, float], declared: Mapping[str, float]) -> tuple[Slider, ...]:
    return tuple(
        Slider(
            name=f"{SLIDER_PREFIX}{metric}",
            metric=metric,
            title=format_name(metric),
            meaning=METRICS[metric].description,
            value=round(100 * weights.get(metric, 0.0)),
            now=format_percent(weights.get(metric, 0.0)),
            declared=format_percent(weight),
        )
        for metric, weight in declared.items()
    )


def trials_anchor(provider: str, workload: str) -> str:
    """The id of a provider's trials of a workload on the page."""
    return f"trials.{provider}.{workload}"


def _trials(adjusted: AdjustedDecision) -> list[TrialsPart]:
    current = adjusted.near.current
    parts = []
    for ranked in adjusted.near.decision.ranking:
        trial_ids = set(ranked.trials)
        for workload in adjusted.decided.preference.workloads:
            trials = [
                t
                for t in current.trials
                if (t.provider, t.workload) == (ranked.provider, workload) and t.usable and t.trial_id in trial_ids
            ]
            if trials:
                campaign = current.campaigns.get((ranked.provider, workload), "")
                links = tuple((t.trial_id, t.attempt) for t in trials)
                parts.append(TrialsPart(trials_anchor(ranked.provider, workload), ranked.provider, workload, campaign, links))
    return parts


@dataclass(frozen=True)
class ChoiceRow:
    """One team's choice in the list. `query`: of its page; `stored`: the age of a stored decision that is shown until the current one is
    computed."""

    team: str
    kind: str
    workloads: tuple[str, ...]
    query: str
    first: str | None
    chance: str
    eligible: int = 0
    ranked: int = 0
    simulated: bool = False
    note: str = ""
    stored: str = ""


def _current_row(d: TeamDecision, has_several: bool) -> ChoiceRow:
    decision = d.decision
    return ChoiceRow(
        decision.team,
        decision.kind,
        d.preference.workloads,
        urlencode({"workload": d.preference.workloads[0]}) if has_several else "",
        name_first([(r.provider, r.probability_first) for r in decision.ranking if r.eligible]) if decision.first else None,
        format_probability(decision.first.probability_first) if decision.first else "",
        sum(r.eligible for r in decision.ranking),
        len(decision.ranking),
        bool(d.current.simulated),
        decision.note,
    )


def _stored_rows(archive: Archive, declared: Declarations, now: datetime) -> list[ChoiceRow]:
    """The same choices by their newest stored decisions."""
    newest = newest_decisions(archive.decisions_page(limit=DECISIONS_SEARCHED).rows, declared, now)
    return [
        ChoiceRow(
            *(stored.team, stored.kind, stored.workloads),
            urlencode({"workload": stored.workloads[0]}),
            stored.named if stored.winner else None,
            format_probability(stored.probability) if stored.winner else "",
            simulated=stored.simulated,
            note="no eligible provider" if stored.decided else "",
            stored=stored.decided or "",
        )
        for stored in sorted(newest, key=lambda stored: stored.team)
    ]


STORED_PER_PAGE = 25


def router(
    pages: PageRenderer, reader: ArchiveReader, declared: DeclarationsReader, choices: AnswerCache, acting: Acting | None = None
) -> APIRouter:
    """`/decisions` and `/decisions/{team}/{kind}`."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/decisions", response_class=HTMLResponse)
    def show_decisions(request: Request, chosen: Chosen, after: str = Query("", max_length=200), parts: Parts = "") -> Response:
        archive, declarations = reader.archive(), declared.now()
        try:
            stored = archive.decisions_page(
                chosen.team or None, chosen.kind or None, after or None, STORED_PER_PAGE, between=chosen.span(pages.now())
            )
        except LookupError as error:
            raise HTTPException(404, str(error)) from error
        now = pages.now()
        today = now.date()
        decided = (
            choices.get_if(
                bool(waits_for(archive, parts)), archive, declarations, today, "all", lambda: decide_teams(archive, declarations, today)
            )
            if declarations.teams
            else ()
        )
        if decided is not None:
            rows = [_current_row(d, len(declarations.teams[d.decision.team].preferences(d.decision.kind)) > 1) for d in decided]
        else:
            rows = _stored_rows(archive, declarations, now)
        rows = [r for r in rows if chosen.team in ("", r.team) and chosen.kind in ("", r.kind)]
        history = [stored_decision(view) for view in stored.rows]
        return pages.page(
            request,
            "decisions.html.j2",
            rows=rows,
            later="" if decided is not None else address_with(request, "all"),
            history=history,
            older=chosen.query(after=stored.after) if stored.after else "",
            begun=bool(after),
            chosen=chosen,
            bar=filter_bar("/decisions", declarations, chosen, money=True),
        )

    @routes.get("/decisions/{team}/{kind}", response_class=HTMLResponse)
    def show_decision(
        request: Request,
        team: str,
        kind: Literal["training", "inference"],
        workload: str = Query("", max_length=200),
        weights: str = Query("", max_length=2000),
        parts: Parts = "",
    ) -> Response:
        archive, declarations = reader.archive(), declared.now()
        offered = [p.workloads for p in declarations.teams[team].preferences(kind)] if team in declarations.teams else []
        if not workload and len(offered) > 1:  # the team's main choice
            main = urlencode({**request.query_params, "workload": offered[0][0]})
            return RedirectResponse(f"{base_path(request)}/decisions/{team}/{kind}?{main}")
        try:
            requested_weights = slider_weights(request.query_params) or parse_weights(weights)
            today, key = pages.now().date(), (team, kind, workload, tuple(sorted(requested_weights.items())))
            preference, waits = find_preference(declarations, team, kind, workload or None), waits_for(archive, parts)
            # A page with chosen weights was opened for their ranking: it waits in any case.
            page: DecisionPage | None = choices.get_if(
                bool(waits or requested_weights),
                *(archive, declarations, today, ("page", *key)),
                lambda: decision_page(compute_decision(archive, declarations, today, team, kind, workload or None, requested_weights)),
            )
        except LookupError as error:
            raise HTTPException(404, str(error.args[0])) from error
        except InvalidDecisionQuery as error:
            return pages.message(request, "No such decision", str(error), 422)
        experiments: tuple[Experiment, ...] | None = None
        if page is not None:
            decided = page.adjusted.decided
            experiments = choices.get_if(
                waits == "all", *(archive, declarations, today, ("experiments", *key)), lambda: next_experiments(declarations, decided)
            )
        stored = archive.decisions_page(team, kind, limit=STORED_LOOKED_BACK).rows
        change = last_winner_change(archive, stored, preference.workloads)
        return pages.page(
            request,
            "decision.html.j2",
            d=page,
            team=team,
            kind=kind,
            workloads=preference.workloads,
            answer=_stored_answer(stored, preference, pages.now()) if page is None else page.answer,
            sliders=_sliders(preference.weights, preference.weights) if page is None else page.sliders,
            ranking_later="" if page is not None else address_with(request, "main"),
            experiments_later="" if experiments is not None else address_with(request, "all"),
            workload=workload,
            history=[stored_decision(view) for view in stored],
            choices=offered,
            change=change,
            experiment_rows=experiment_rows(experiments or ()),
            no_experiment=NO_EXPERIMENT,
            repeats=repeat_form(acting, request, declared, team, kind, experiments or ()),
            waterfall=None if change is None else winner_change_chart(change.change),
        )

    return routes


def _stored_answer(stored: Sequence[DecisionView], preference: Preference, now: datetime) -> str:
    """The newest stored decision of a choice, until the current one is computed; empty without one. `stored`: newest first."""
    newest = next((view for view in stored if tuple(view.detail.get("workloads", ())) == preference.workloads), None)
    if newest is None:
        return ""
    certainty = f", P(first) {format_probability(newest.probability)}" if newest.winner == name_stored_first(newest) else ""
    return f"Stored {format_age(newest.decided_at, now)}: {name_stored_first(newest)}{certainty}."
