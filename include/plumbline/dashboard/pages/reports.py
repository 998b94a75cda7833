"""Written reports and exported tables, found by name inside the folder of reports."""

from __future__ import annotations

import re
from pathlib import Path

from fastapi import HTTPException
from fastapi.responses import FileResponse

from plumbline.dashboard.rendering import PageRoutes
from plumbline.presentation.tables import TABLE_FORMATS

# Neither has a slash or begins with a dot.
_CAMPAIGN = re.compile(r"[a-z0-9][a-z0-9.-]{0,62}")
_TABLE = re.compile(rf"[a-z][a-z0-9_]*\.({'|'.join(TABLE_FORMATS)})")


def report_file(reports: Path, campaign_id: str) -> Path | None:
    """The file of a campaign's report; None if none was written."""
    return _path_inside(reports, campaign_id, "report.html")


def table_file(reports: Path, campaign_id: str, name: str) -> Path | None:
    """The file of an exported table; None if there is none."""
    return _path_inside(reports, campaign_id, f"tables/{name}") if _TABLE.fullmatch(name) else None


def tables(reports: Path, campaign_id: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Exported tables of a campaign by name, each with the forms that it lies there in."""
    forms_by_name: dict[str, list[str]] = {}
    for path in sorted((reports / campaign_id / "tables").glob("*")) if _CAMPAIGN.fullmatch(campaign_id) else ():
        if _TABLE.fullmatch(path.name):
            forms_by_name.setdefault(path.stem, []).append(path.suffix.removeprefix("."))
    return tuple((name, tuple(forms)) for name, forms in forms_by_name.items())


def _path_inside(reports: Path, campaign_id: str, name: str) -> Path | None:
    file = reports / campaign_id / name
    return file if _CAMPAIGN.fullmatch(campaign_id) and file.is_file() else None


# Its scripts run in an origin of their own: what a campaign's names or logs might smuggle in reaches no login of Airflow's.
_POLICY = (
    "sandbox allow-scripts allow-popups allow-popups-to-escape-sandbox allow-downloads; "
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "frame-ancestors 'self'; base-uri 'none'; form-action 'none'"
)


def router(reports: Path) -> PageRoutes:
    """`/reports/{campaign_id}`, and what lies beside it."""
    routes = PageRoutes(include_in_schema=False)

    def send(file: Path | None, missing: str) -> FileResponse:
        if file is None:
            raise HTTPException(404, missing)
        return FileResponse(file, media_type="text/html", headers={"Content-Security-Policy": _POLICY})

    @routes.get("/reports/{campaign_id}/raw.html")
    def show_raw(campaign_id: str) -> FileResponse:
        missing = f'no list of raw data of campaign "{campaign_id}"; its report has it'
        return send(_path_inside(reports, campaign_id, "raw.html"), missing)

    @routes.get("/reports/{campaign_id}")
    def show_report(campaign_id: str) -> FileResponse:
        return send(report_file(reports, campaign_id), f'no report of campaign "{campaign_id}" yet')

    return routes
