"""The API's description, for people and for programs."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from plumbline.dashboard.api_page import calls_of
from plumbline.dashboard.page import Pages, base_of


def router(pages: Pages) -> APIRouter:
    """`/api` and `/api/openapi.json`."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/api", response_class=HTMLResponse)
    def show_api(request: Request) -> Response:
        return pages.page(request, "api.html.j2", calls=calls_of(request.app.openapi()), origin=str(request.base_url).rstrip("/"))

    @routes.get("/api/openapi.json")
    def show_description(request: Request) -> Response:
        described: dict[str, Any] = {**request.app.openapi(), "servers": [{"url": base_of(request) or "/"}]}
        return JSONResponse(described)

    return routes
