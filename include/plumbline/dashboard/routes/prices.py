"""The pages of prices."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, Response

from plumbline.dashboard.declared import Declared
from plumbline.dashboard.page import Pages
from plumbline.dashboard.prices import prices_page, provider_prices
from plumbline.dashboard.reading import Reader


def router(pages: Pages, reader: Reader, declared: Declared) -> APIRouter:
    """`/prices` and `/prices/{provider}`."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/prices", response_class=HTMLResponse)
    def show_prices(request: Request, after: str = Query("", max_length=200)) -> Response:
        found = prices_page(reader.archive(), declared.now(), pages.now().date(), after)
        return pages.page(request, "prices.html.j2", p=found, begun=bool(after))

    @routes.get("/prices/{provider}", response_class=HTMLResponse)
    def show_provider_prices(request: Request, provider: str) -> Response:
        known = declared.now().providers
        if provider not in known:
            raise HTTPException(404, f'no provider is declared as "{provider}"; expected one of {", ".join(sorted(known))}')
        return pages.page(request, "price_history.html.j2", p=provider_prices(reader.archive(), known[provider], pages.now()))

    return routes
