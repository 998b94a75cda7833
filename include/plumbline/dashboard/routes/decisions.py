"""The pages of decisions: all of them, and one with its sliders."""

from __future__ import annotations

from typing import Literal
from urllib.parse import urlencode

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from plumbline.dashboard.choices import Choices
from plumbline.dashboard.decision import Unanswerable, ask, slid, weights_of
from plumbline.dashboard.decision_history import kept
from plumbline.dashboard.decision_page import decision_page
from plumbline.dashboard.declared import Declared
from plumbline.dashboard.page import Pages, base_of
from plumbline.dashboard.reading import Reader
from plumbline.reports.figures import chance
from plumbline.reports.standing import decide_from

KEPT, KEPT_OF_ONE = 25, 10


def router(pages: Pages, reader: Reader, declared: Declared, choices: Choices) -> APIRouter:
    """`/decisions` and `/decisions/{team}/{kind}`."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/decisions", response_class=HTMLResponse)
    def show_decisions(request: Request, after: str = Query("", max_length=200)) -> Response:
        archive, known = reader.archive(), declared.now()
        try:
            stored = archive.decisions_page(after=after or None, limit=KEPT)
        except LookupError as error:
            raise HTTPException(404, str(error)) from error
        today = pages.now().date()
        found = choices.kept(archive, known, today, "all", lambda: decide_from(archive, known, today)) if known.teams else ()
        rows = [
            {
                "team": d.decision.team,
                "kind": d.decision.kind,
                "workloads": d.preference.workloads,
                "query": urlencode({"workload": d.preference.workloads[0]})
                if len(known.teams[d.decision.team].preferences(d.decision.kind)) > 1
                else "",
                "first": d.decision.first.provider if d.decision.first else None,
                "chance": chance(d.decision.first.probability_first) if d.decision.first else "",
                "eligible": sum(r.eligible for r in d.decision.ranking),
                "ranked": len(d.decision.ranking),
                "simulated": bool(d.standing.simulated),
                "note": d.decision.note,
            }
            for d in found
        ]
        history = [kept(view) for view in stored.rows]
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
            return RedirectResponse(f"{base_of(request)}/decisions/{team}/{kind}?{main}")
        try:
            wanted = slid(request.query_params) or weights_of(weights)
            today, key = pages.now().date(), ("page", team, kind, workload, tuple(sorted(wanted.items())))
            shown = choices.kept(
                archive, known, today, key, lambda: decision_page(ask(archive, known, today, team, kind, workload or None, wanted))
            )
        except LookupError as error:
            raise HTTPException(404, str(error.args[0])) from error
        except Unanswerable as error:
            return pages.message(request, "No such decision", str(error), 422)
        own = [kept(view) for view in archive.decisions_page(team, kind, limit=KEPT_OF_ONE).rows]
        return pages.page(request, "decision.html.j2", d=shown, workload=workload, history=own, choices=offered)

    return routes
