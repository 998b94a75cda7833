"""The page of budgets."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from plumbline.dashboard.budgets import budgets
from plumbline.dashboard.declared import Declared
from plumbline.dashboard.page import Pages
from plumbline.dashboard.reading import Reader


def router(pages: Pages, reader: Reader, declared: Declared) -> APIRouter:
    """`/budgets`."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/budgets", response_class=HTMLResponse)
    def show_budgets(request: Request) -> Response:
        return pages.page(request, "budgets.html.j2", budgets=budgets(reader.archive(), declared.now(), pages.now()))

    return routes
