"""The written report of a campaign, its raw data, and the Data Docs of its checks, each in an origin of its own."""

from __future__ import annotations

from fastapi.responses import Response

from plumbline.dashboard.rendering import PageRoutes
from plumbline.dashboard.shelf_answer import file_answer
from plumbline.dashboard.site import Site
from plumbline.presentation.written_reports import RAW, REPORT, docs_name

# Its scripts run in an origin of their own: what a campaign's names or logs might smuggle in reaches no login of Airflow's.
_POLICY = (
    "sandbox allow-scripts allow-popups allow-popups-to-escape-sandbox allow-downloads; "
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "frame-ancestors 'self'; base-uri 'none'; form-action 'none'"
)
# Data Docs have no scripts.
_DOCS_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'; base-uri 'none'; form-action 'none'"


def router(site: Site) -> PageRoutes:
    """`/reports/{campaign_id}` and what lies beside it, and `/campaigns/{campaign_id}/data-docs/{checked}/{suite}`."""
    routes = PageRoutes(include_in_schema=False, money=True)

    @routes.get("/reports/{campaign_id}/raw.html")
    def show_raw(campaign_id: str) -> Response:
        missing = f'no list of raw data of campaign "{campaign_id}"; its report has it'
        return file_answer(site.reports.open(campaign_id, RAW), missing, "text/html", _POLICY)

    @routes.get("/reports/{campaign_id}")
    def show_report(campaign_id: str) -> Response:
        return file_answer(site.reports.open(campaign_id, REPORT), f'no report of campaign "{campaign_id}" yet', "text/html", _POLICY)

    @routes.get("/campaigns/{campaign_id}/data-docs/{checked}/{suite}")
    def show_data_docs(campaign_id: str, checked: str, suite: str) -> Response:
        file = site.data_docs.open(docs_name(campaign_id, checked), suite) if suite.endswith(".html") else None
        missing = f'no Data Docs of "{checked}" in campaign "{campaign_id}"; clearing its `validate` writes them'
        return file_answer(file, missing, "text/html", _DOCS_POLICY)

    return routes
