"""The first page."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from plumbline.dashboard.access import money
from plumbline.dashboard.declared import Declared
from plumbline.dashboard.overview import overview
from plumbline.dashboard.page import Pages
from plumbline.dashboard.reading import Reader


def router(pages: Pages, reader: Reader, declared: Declared, reports: Path) -> APIRouter:
    """`/`: every workload on every provider."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/", response_class=HTMLResponse)
    def show_overview(request: Request, after: str = "") -> Response:
        shown = overview(reader.archive(money(request)), declared.now(money(request)), reports, pages.now(), after)
        return pages.page(request, "overview.html.j2", o=shown, after=after)

    return routes
