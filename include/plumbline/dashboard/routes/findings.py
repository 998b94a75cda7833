"""The page of findings."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from plumbline.dashboard.overview import MOST_FINDINGS
from plumbline.dashboard.page import Pages
from plumbline.dashboard.reading import Reader

State = Literal["open", "acknowledged", "accepted", "resolved"]


def router(pages: Pages, reader: Reader) -> APIRouter:
    """`/findings`."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/findings", response_class=HTMLResponse)
    def show_findings(request: Request, state: State | None = None) -> Response:
        found = reader.archive().findings(state=state, latest=MOST_FINDINGS)
        return pages.page(request, "findings.html.j2", findings=found, state=state, most=MOST_FINDINGS)

    return routes
