"""Style sheets and scripts."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import Response

from plumbline.dashboard.assets import Assets


def router(assets: Assets) -> APIRouter:
    """`/static/{name}`."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/static/{name}")
    def show_asset(request: Request, name: str, v: str | None = None) -> Response:
        try:
            return assets.response(request, name, v)
        except LookupError as error:
            raise HTTPException(404, str(error)) from error

    return routes
