"""Written reports, as they are: one file with everything inline, which asks nobody for anything."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, HTTPException
from fastapi.responses import FileResponse

from plumbline.dashboard.folder import report_file

# Its scripts run in an origin of their own: what a campaign's names or logs might smuggle in reaches no login of Airflow's.
_POLICY = (
    "sandbox allow-scripts allow-popups allow-popups-to-escape-sandbox allow-downloads; "
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "frame-ancestors 'self'; base-uri 'none'; form-action 'none'"
)


def router(reports: Path) -> APIRouter:
    """`/reports/{campaign_id}`."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/reports/{campaign_id}")
    def show_report(campaign_id: str) -> FileResponse:
        file = report_file(reports, campaign_id)
        if file is None:
            raise HTTPException(404, f'no report of campaign "{campaign_id}" was written yet')
        return FileResponse(file, media_type="text/html", headers={"Content-Security-Policy": _POLICY})

    return routes
