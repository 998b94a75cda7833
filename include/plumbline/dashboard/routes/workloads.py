"""The pages of workloads."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse, Response

from plumbline.dashboard.access import money
from plumbline.dashboard.declared import Declared
from plumbline.dashboard.page import Pages
from plumbline.dashboard.reading import Reader
from plumbline.dashboard.workload import workload_lines, workload_page


def router(pages: Pages, reader: Reader, declared: Declared) -> APIRouter:
    """`/workloads` and `/workloads/{workload}`."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/workloads", response_class=HTMLResponse)
    def show_workloads(request: Request) -> Response:
        return pages.page(request, "workloads.html.j2", lines=workload_lines(reader.archive(money(request)), declared.now(money(request))))

    @routes.get("/workloads/{workload}", response_class=HTMLResponse)
    def show_workload(request: Request, workload: str, after: str = "") -> Response:
        w = workload_page(reader.archive(money(request)), declared.now(money(request)), pages.now(), workload, after)
        if w is None:
            raise HTTPException(404, f'no workload is called "{workload}": none is declared, and the archive has nothing of it')
        return pages.page(request, "workload.html.j2", w=w, after=after)

    return routes
