"""The written report of a campaign and its raw data, each in an origin of its own."""

from __future__ import annotations

from pathlib import Path

from fastapi import HTTPException
from fastapi.responses import FileResponse

from plumbline.dashboard.rendering import PageRoutes
from plumbline.dashboard.site import Site
from plumbline.presentation.written_reports import raw_file, report_file

# Its scripts run in an origin of their own: what a campaign's names or logs might smuggle in reaches no login of Airflow's.
_POLICY = (
    "sandbox allow-scripts allow-popups allow-popups-to-escape-sandbox allow-downloads; "
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "frame-ancestors 'self'; base-uri 'none'; form-action 'none'"
)


def router(site: Site) -> PageRoutes:
    """`/reports/{campaign_id}`, and what lies beside it."""
    routes = PageRoutes(include_in_schema=False, money=True)
    reports = site.reports

    def send(file: Path | None, missing: str) -> FileResponse:
        if file is None:
            raise HTTPException(404, missing)
        return FileResponse(file, media_type="text/html", headers={"Content-Security-Policy": _POLICY})

    @routes.get("/reports/{campaign_id}/raw.html")
    def show_raw(campaign_id: str) -> FileResponse:
        missing = f'no list of raw data of campaign "{campaign_id}"; its report has it'
        return send(raw_file(reports, campaign_id), missing)

    @routes.get("/reports/{campaign_id}")
    def show_report(campaign_id: str) -> FileResponse:
        return send(report_file(reports, campaign_id), f'no report of campaign "{campaign_id}" yet')

    return routes
