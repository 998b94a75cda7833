"""The pages of providers."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, Response

from plumbline.dashboard.access import money
from plumbline.dashboard.declared import Declared
from plumbline.dashboard.launch_charts import launch_chart, lead_time_chart
from plumbline.dashboard.launches import launch_lines
from plumbline.dashboard.page import Pages
from plumbline.dashboard.provider import WINDOWS, name_of, provider_lines, provider_page
from plumbline.dashboard.reading import Reader
from plumbline.dashboard.trend_charts import trend_chart


def router(pages: Pages, reader: Reader, declared: Declared) -> APIRouter:
    """`/providers` and `/providers/{provider}`."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/providers", response_class=HTMLResponse)
    def show_providers(request: Request, after: str = "") -> Response:
        lines, more = provider_lines(reader.archive(money(request)), declared.now(money(request)), pages.now(), after)
        return pages.page(request, "providers.html.j2", lines=lines, after=after, more=more)

    @routes.get("/providers/{provider}", response_class=HTMLResponse)
    def show_provider(
        request: Request,
        provider: str,
        series: str | None = None,
        metric: str | None = None,
        campaigns: Annotated[int, Query(ge=2, le=max(WINDOWS))] = 24,
    ) -> Response:
        p = provider_page(
            reader.archive(money(request)),
            declared.now(money(request)),
            pages.now(),
            provider,
            series_key=series,
            quantity=metric,
            latest=campaigns,
        )
        if p is None:
            raise HTTPException(404, f'no provider is called "{provider}": none is declared, and the archive has nothing of it')
        charts = {
            "trend": trend_chart(p.trend) if p.trend is not None and p.trend.points else None,
            "launches": [
                c for c in (launch_chart(p.launches, p.promised_launches), lead_time_chart(p.launches, p.promised_lead_s)) if c is not None
            ],
        }
        return pages.page(
            request,
            "provider.html.j2",
            p=p,
            charts=charts,
            launches=launch_lines(p.launches),
            name_of=name_of,
            windows=WINDOWS,
            campaigns=campaigns,
        )

    return routes
