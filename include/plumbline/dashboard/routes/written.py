"""Written reports, as they are: one file with everything inline, which asks nobody for anything."""

from __future__ import annotations

import re
from pathlib import Path

from fastapi import APIRouter, HTTPException
from fastapi.responses import FileResponse

from plumbline.dashboard.overview import report_file

_CAMPAIGN = re.compile(r"^[a-z0-9][a-z0-9.-]{0,62}$")
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; frame-ancestors 'self'; base-uri 'none'"


def router(reports: Path) -> APIRouter:
    """`/reports/{campaign_id}`."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/reports/{campaign_id}")
    def show_report(campaign_id: str) -> FileResponse:
        file = written(reports, campaign_id)
        if file is None:
            raise HTTPException(404, f'no report of campaign "{campaign_id}" was written yet')
        return FileResponse(file, media_type="text/html", headers={"Content-Security-Policy": _POLICY})

    return routes


def written(reports: Path, campaign_id: str) -> Path | None:
    """The file of a campaign's report; None if there is none. The pattern has no slash and no leading dot, so no path leaves the folder."""
    file = report_file(reports, campaign_id)
    return file if _CAMPAIGN.match(campaign_id) and file.is_file() else None
