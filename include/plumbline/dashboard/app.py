"""The app itself: routes, and nothing that knows of Airflow. Whoever mounts it says by `dependencies` who may see it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timezone
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from fastapi import FastAPI, HTTPException, Request
from fastapi.params import Depends
from fastapi.responses import FileResponse, HTMLResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from sqlalchemy.exc import OperationalError, ProgrammingError

from plumbline.archive import Archive
from plumbline.dashboard.budgets import budgets
from plumbline.dashboard.overview import MOST_FINDINGS, explanation, overview, report_file
from plumbline.dashboard.reading import NoArchive, Reader
from plumbline.dashboard.trial import numbers_of, trial_page
from plumbline.declarations import DeclarationError, load, places
from plumbline.reports.figures import size, words

State = Literal["open", "acknowledged", "accepted", "resolved"]
_CAMPAIGN = re.compile(r"^[a-z0-9][a-z0-9.-]{0,62}$")
_STYLES = {"report.css": "plumbline.reports/templates", "dashboard.css": "plumbline.dashboard/static"}
# Pages load their own style sheet and nothing else. A report is one file with everything inline and asks nobody for anything.
_PAGE_POLICY = "default-src 'none'; style-src 'self'; img-src data:; frame-ancestors 'self'; base-uri 'none'; form-action 'self'"
_REPORT_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; frame-ancestors 'self'; base-uri 'none'"


def create_app(dependencies: Sequence[Depends] = (), *, archive_url: str | None = None, reports: Path | None = None) -> FastAPI:
    """The dashboard over one archive and one folder of reports (default: the installation's).

    Every route is a route of this app and so behind `dependencies`: there is no mounted sub-app and no built-in documentation page,
    which FastAPI would serve to anybody.
    """
    app = FastAPI(title="Plumbline", dependencies=list(dependencies), openapi_url=None, docs_url=None, redoc_url=None)
    reader = Reader(archive_url or places().archive_url)
    folder = reports or places().reports
    templates = _templates()

    def page(request: Request, name: str, status: int = 200, **context: Any) -> HTMLResponse:
        base = request.scope.get("root_path", "").rstrip("/")
        html = templates.get_template(name).render(base=base, now=_now(), **context)
        return HTMLResponse(html, status, {"Content-Security-Policy": _PAGE_POLICY, "Cache-Control": "no-store"})

    @app.exception_handler(NoArchive)
    def _empty(request: Request, error: Exception) -> HTMLResponse:
        return page(
            request, "message.html.j2", title="Nothing measured yet", text=f"There is no archive: {error}. The first campaign makes one."
        )

    @app.exception_handler(OperationalError)
    @app.exception_handler(ProgrammingError)
    def _unreadable(request: Request, error: Exception) -> HTMLResponse:
        text = "The archive cannot be read; it may be of another version. Any plumbline command that writes to it migrates it."
        return page(request, "message.html.j2", 503, title="Archive not readable", text=text)

    @app.get("/", response_class=HTMLResponse)
    def show_overview(request: Request) -> Response:
        return page(request, "overview.html.j2", o=overview(reader.archive(), folder, _now()))

    @app.get("/campaigns/{campaign_id}", response_class=HTMLResponse)
    def show_campaign(request: Request, campaign_id: str) -> Response:
        trials = reader.archive().trials(campaign_id=campaign_id)
        if not trials:
            raise HTTPException(404, f'the archive has no campaign "{campaign_id}"')
        findings = reader.archive().findings(campaign_id=campaign_id)
        written = bool(_CAMPAIGN.match(campaign_id)) and report_file(folder, campaign_id).is_file()
        return page(request, "campaign.html.j2", campaign_id=campaign_id, trials=trials, findings=findings, report=written)

    @app.get("/trials/{trial_id}", response_class=HTMLResponse)
    def show_trial(request: Request, trial_id: str, attempt: int | None = None) -> Response:
        archive = reader.archive()
        document = archive.document(trial_id, attempt)
        imported = archive.imported(trial_id) if document is None else None
        if imported is not None:
            return page(request, "imported.html.j2", r=imported, numbers=numbers_of(imported))
        if document is None:
            raise HTTPException(404, f'the archive has no trial "{trial_id}"' + (f" with attempt {attempt}" if attempt else ""))
        trial = document.trial
        attempts = tuple(t for t in archive.trials(trial.campaign_id, trial.series_key) if t.trial_id == trial_id)
        return page(request, "trial.html.j2", t=trial_page(document, attempts, archive.expired_files(trial_id, trial.attempt)))

    @app.get("/findings", response_class=HTMLResponse)
    def show_findings(request: Request, state: State | None = None) -> Response:
        archive: Archive = reader.archive()
        found = archive.findings(state=state, latest=MOST_FINDINGS)
        return page(request, "findings.html.j2", findings=found, state=state, most=MOST_FINDINGS)

    @app.get("/budgets", response_class=HTMLResponse)
    def show_budgets(request: Request) -> Response:
        try:
            declared = load()
        except DeclarationError as error:
            return page(request, "message.html.j2", 500, title="The declarations cannot be read", text=str(error))
        return page(request, "budgets.html.j2", budgets=budgets(reader.archive(), declared, _now()))

    @app.get("/reports/{campaign_id}")
    def show_report(campaign_id: str) -> Response:
        file = report_file(folder, campaign_id)
        # The pattern has no slash and no leading dot, so the path cannot leave the folder.
        if not _CAMPAIGN.match(campaign_id) or not file.is_file():
            raise HTTPException(404, f'no report of campaign "{campaign_id}" was written yet')
        return FileResponse(file, media_type="text/html", headers={"Content-Security-Policy": _REPORT_POLICY})

    @app.get("/static/{name}")
    def show_style(name: str) -> Response:
        if name not in _STYLES:
            raise HTTPException(404, f'no style sheet is called "{name}"')
        package, _, inside = _STYLES[name].partition("/")
        return Response((files(package) / inside / name).read_text(), media_type="text/css", headers={"Cache-Control": "max-age=300"})

    return app


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("plumbline.dashboard", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"words": words, "size": size, "explanation": explanation}
    return environment
