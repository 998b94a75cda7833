"""The list of decisions, and the page of one with adjustable weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from urllib.parse import quote, urlencode

from fastapi import HTTPException, Query, Request
from fastapi.responses import RedirectResponse, Response

from plumbline.analysis.decisions.decision_record import read_decisions
from plumbline.analysis.decisions.experiments import Experiment
from plumbline.answers.current_results import decide_teams
from plumbline.answers.experiments import next_experiments
from plumbline.answers.winner_change import STORED_LOOKED_BACK, last_winner_change
from plumbline.archive import Archive
from plumbline.dashboard.decision_query import (
    PROVIDERS_SHOWN,
    SLIDER_PREFIX,
    AdjustedDecision,
    InvalidDecisionQuery,
    compute_decision,
    find_preference,
    query_weights,
    slider_weights,
)
from plumbline.dashboard.deliveries import cached_delivery
from plumbline.dashboard.filters import Chosen, filter_bar
from plumbline.dashboard.pages.repeats import repeat_form
from plumbline.dashboard.rendering import NavEntry, PageRoutes, Parts, address_with, base_path, waits_for, wants_json
from plumbline.dashboard.site import Site
from plumbline.declarations import Preference
from plumbline.metrics.formatting import format_name, format_percent
from plumbline.presentation.acceptances import open_nodes
from plumbline.presentation.charts.chart import Chart
from plumbline.presentation.charts.decisions import price_swings_chart, probability_first_chart, weight_swings_chart, winner_change_chart
from plumbline.presentation.decisions import (
    NO_EXPERIMENT,
    DecisionRow,
    DecisionTables,
    change_title,
    condition_texts,
    current_place,
    decision_row,
    decision_tables,
    decision_view,
    evidence_texts,
    experiment_rows,
    what_decides,
)
from plumbline.presentation.overview import newest_decisions
from plumbline.words.comparisons import comparison_line
from plumbline.words.decision_record import ranking_document
from plumbline.words.decisions import answer_sentence, note_text
from plumbline.words.winner_change import why_sentence


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
    current: str
    decides: str
    view: DecisionTables
    sliders: tuple[Slider, ...]
    likely: Chart | None
    charts: tuple[Chart, ...]
    trials: tuple[TrialsPart, ...]
    evidence: Mapping[str, str]
    conditions: Mapping[str, str]


def decision_page(adjusted: AdjustedDecision) -> DecisionPage:
    """Everything about one choice but the next best experiments, which take longer than all the rest."""
    decided, listed = adjusted.decided, adjusted.near
    charts = (weight_swings_chart(listed.decision, decided.weight_swings), price_swings_chart(listed.decision, listed.price_swings))
    return DecisionPage(
        adjusted=adjusted,
        answer=f"{answer_sentence(decided.decision, decided.cheapest)}.",
        current=current_place(decided),
        decides=what_decides(decided.decision),
        view=decision_tables(decided, listed, PROVIDERS_SHOWN),
        sliders=_sliders(decided.preference.weights, adjusted.declared),
        likely=probability_first_chart(listed.decision),
        charts=tuple(chart for chart in charts if chart is not None),
        trials=tuple(_trials(adjusted)),
        evidence=evidence_texts(decided),
        conditions=condition_texts(decided),
    )


def _sliders(weights: Mapping[str, float], declared: Preference) -> tuple[Slider, ...]:
    return tuple(
        Slider(
            name=f"{SLIDER_PREFIX}{metric}",
            metric=metric,
            title=format_name(metric),
            meaning=declared.metric(metric).description,
            value=round(100 * weights.get(metric, 0.0)),
            now=format_percent(weights.get(metric, 0.0)),
            declared=format_percent(weight),
        )
        for metric, weight in declared.weights.items()
    )


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
                parts.append(TrialsPart(f"trials.{ranked.provider}.{workload}", ranked.provider, workload, campaign, links))
    return parts


STORED_PER_PAGE = 25


def router(site: Site) -> PageRoutes:
    """`/decisions` and `/decisions/{team}/{kind}`, with the old address of what a price must be to change a choice."""
    routes = PageRoutes(NavEntry(40, "Decisions", "/decisions"), money=True)
    pages, reader, declared, choices, acting = site.pages, site.reader, site.declared, site.choices, site.acting

    @routes.page("/decisions")
    def show_decisions(request: Request, chosen: Chosen, parts: Parts, after: str = Query("", max_length=200)) -> Response:
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
            rows = tuple(DecisionRow(ranking_document(d)) for d in decided)
        else:
            rows = newest_decisions(read_decisions(archive.newest_decisions()), declarations, now)
        history = [decision_row(decision, now) for decision in read_decisions(stored.rows)]
        rows = tuple(r for r in rows if chosen.team in ("", r.decision.team) and chosen.kind in ("", r.decision.kind))
        return pages.page(
            request,
            "decisions.html.j2",
            {"decisions": rows, "history": history, "after": stored.after},
            rows=rows,
            later="" if decided is not None else address_with(request, "all"),
            history=history,
            older=chosen.query(after=stored.after) if stored.after else "",
            begun=bool(after),
            chosen=chosen,
            bar=filter_bar("/decisions", declarations, chosen, money=True),
        )

    @routes.page("/decisions/{team}/{kind}")
    def show_decision(
        request: Request,
        team: str,
        kind: Literal["training", "inference"],
        parts: Parts,
        workload: str = Query("", max_length=200),
        weights: str = Query("", max_length=2000),
    ) -> Response:
        archive, declarations = reader.archive(), declared.now()
        offered = [p.workloads for p in declarations.teams[team].preferences(kind)] if team in declarations.teams else []
        if not workload and len(offered) > 1:  # the team's main choice
            main = urlencode({**request.query_params, "workload": offered[0][0]})
            return RedirectResponse(f"{request.url.path}?{main}")
        try:
            requested_weights = slider_weights(request.query_params) or query_weights(weights)
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
            return pages.refused_query(request, {error.field: str(error)})
        experiments: tuple[Experiment, ...] | None = None
        if page is not None:
            decided = page.adjusted.decided
            experiments = choices.get_if(
                waits == "all", *(archive, declarations, today, ("experiments", *key)), lambda: next_experiments(declarations, decided)
            )
        nodes = None
        if page is not None and (first := page.adjusted.decided.decision.first_name) is not None:
            (winner,) = cached_delivery(site, archive, True, first, True) or (None,)
            nodes = None if winner is None else open_nodes(winner)
        stored = read_decisions(archive.decisions_page(team, kind, limit=STORED_LOOKED_BACK).rows)
        change = last_winner_change(archive, stored, preference.workloads)
        return pages.page(
            request,
            "decision.html.j2",
            decision_view(page.adjusted.decided, experiments or (), page.adjusted.near, nodes=nodes, change=change)
            if page and wants_json(request)
            else None,
            d=page,
            nodes=nodes,
            compared="" if page is None else comparison_line(page.adjusted.near.decision.comparison),
            note="" if page is None else note_text(page.adjusted.near.decision.note),
            team=team,
            kind=kind,
            workloads=preference.workloads,
            answer=_stored_answer(archive, team, kind, preference, pages.now()) if page is None else page.answer,
            sliders=_sliders(preference.weights, preference) if page is None else page.sliders,
            ranking_later="" if page is not None else address_with(request, "main"),
            experiments_later="" if experiments is not None else address_with(request, "all"),
            workload=workload,
            history=[decision_row(decision, pages.now()) for decision in stored],
            choices=offered,
            change=change,
            change_title=change_title,
            why_sentence=why_sentence,
            experiment_rows=experiment_rows(experiments or ()),
            no_experiment=NO_EXPERIMENT,
            repeats=repeat_form(acting, request, declared, team, kind, experiments or ()),
            waterfall=None if change is None else winner_change_chart(change.change),
        )

    @routes.get("/decisions/{team}/{kind}/negotiate")
    def redirect_old_address(
        request: Request, team: str, kind: Literal["training", "inference"], workload: str = Query("", max_length=200)
    ) -> Response:
        query = f"?{urlencode({'workload': workload})}" if workload else ""
        return RedirectResponse(f"{base_path(request)}/decisions/{quote(team, safe='')}/{kind}{query}#sensitivity", 308)

    return routes


def _stored_answer(archive: Archive, team: str, kind: str, preference: Preference, now: datetime) -> str:
    """The newest stored decision of a choice, until the current one is computed; empty without one."""
    newest = next(iter(read_decisions(archive.newest_decisions(team, kind, preference.workloads))), None)
    return f"Stored {decision_row(newest, now).age}: {answer_sentence(newest, newest.cheapest)}." if newest else ""
