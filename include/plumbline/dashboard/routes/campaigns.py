"""The page of a campaign, and its tables."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from fastapi.responses import FileResponse, HTMLResponse, Response

from plumbline.dashboard.access import money, required
from plumbline.dashboard.campaign import campaign_page
from plumbline.dashboard.folder import report_file, table_file
from plumbline.dashboard.page import Pages
from plumbline.dashboard.reading import Reader


def router(pages: Pages, reader: Reader, reports: Path) -> APIRouter:
    """`/campaigns/{campaign_id}` and the tables that were exported of it."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/campaigns/{campaign_id}", response_class=HTMLResponse)
    def show_campaign(
        request: Request,
        campaign_id: str,
        series: str = Query("", max_length=500, description="trials of this series alone"),
        series_after: str = Query("", max_length=500),
        after: int | None = Query(None, ge=0, le=2**31 - 1),
    ) -> Response:
        known = report_file(reports, campaign_id) is not None
        after_trial = None if after is None else str(after)
        found = campaign_page(reader.archive(money(request)), reports, campaign_id, series_after or None, series or None, after_trial)
        if found is None:
            raise HTTPException(404, f'the archive has no campaign "{campaign_id}"')
        begun = bool(series_after or after is not None)
        return pages.page(request, "campaign.html.j2", c=found, report=known, series=series, series_after=series_after, begun=begun)

    @routes.get("/campaigns/{campaign_id}/tables/{name}", dependencies=[Depends(required)])
    def hand_out_table(campaign_id: str, name: str) -> FileResponse:
        file = table_file(reports, campaign_id, name)
        if file is None:
            raise HTTPException(
                404, f'campaign "{campaign_id}" has no exported table "{name}": `plumbline report {campaign_id} --tables csv`'
            )
        kind = "text/csv; charset=utf-8" if file.suffix == ".csv" else "application/vnd.apache.parquet"
        headers = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; sandbox"}
        return FileResponse(file, media_type=kind, filename=f"{campaign_id}.{name}", headers=headers)

    return routes
