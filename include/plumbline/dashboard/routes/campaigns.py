"""The page of a campaign."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse, Response

from plumbline.dashboard.page import Pages
from plumbline.dashboard.reading import Reader
from plumbline.dashboard.routes.written import written


def router(pages: Pages, reader: Reader, reports: Path) -> APIRouter:
    """`/campaigns/{campaign_id}`."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/campaigns/{campaign_id}", response_class=HTMLResponse)
    def show_campaign(request: Request, campaign_id: str) -> Response:
        trials = reader.archive().trials(campaign_id=campaign_id)
        if not trials:
            raise HTTPException(404, f'the archive has no campaign "{campaign_id}"')
        findings = reader.archive().findings(campaign_id=campaign_id)
        report = written(reports, campaign_id) is not None
        return pages.page(request, "campaign.html.j2", campaign_id=campaign_id, trials=trials, findings=findings, report=report)

    return routes
