"""The app itself: routes, and nothing that knows of Airflow. Whoever mounts it says by `dependencies` who may see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from fastapi import Depends as depends
from fastapi import FastAPI, Request
from fastapi.exception_handlers import http_exception_handler
from fastapi.params import Depends
from fastapi.responses import JSONResponse, Response
from sqlalchemy.exc import DataError, OperationalError, ProgrammingError
from starlette.exceptions import HTTPException

from plumbline.archive import SchemaMismatch
from plumbline.dashboard import access
from plumbline.dashboard.choices import Choices
from plumbline.dashboard.declared import Declared
from plumbline.dashboard.headers import Headers
from plumbline.dashboard.page import is_api, make_pages
from plumbline.dashboard.reading import NoArchive, Reader
from plumbline.dashboard.routes import (
    api,
    api_decisions,
    api_page,
    budgets,
    campaigns,
    decisions,
    findings,
    overview,
    prices,
    providers,
    static,
    trials,
    workloads,
    written,
)
from plumbline.declarations import DeclarationError, places
from plumbline.results import BadResult


def create_app(
    dependencies: Sequence[Depends] = (),
    *,
    archive_url: str | None = None,
    reports: Path | None = None,
    may_see_money: Callable[..., bool] = access.everyone,
) -> FastAPI:
    """The dashboard over one archive and one folder of reports (default: the installation's). `may_see_money`: a dependency of FastAPI's.

    Every route is a route of this app and so behind `dependencies`: there is no mounted sub-app and no built-in documentation page,
    which FastAPI would serve to anybody.
    """
    app = FastAPI(
        title="Plumbline", dependencies=[*dependencies, access.noted(may_see_money)], openapi_url=None, docs_url=None, redoc_url=None
    )
    app.add_middleware(Headers)
    reader = Reader(archive_url or places().archive_url)
    folder = reports or places().reports
    pages = make_pages()
    declared = Declared()
    choices = Choices()

    def said(request: Request, title: str, text: str, status: int) -> Response:
        # A page may say "nothing yet" as an answer; a program must not take it for one.
        if is_api(request):
            return JSONResponse({"detail": text}, max(status, 503))
        return pages.message(request, title, text, status)

    @app.exception_handler(NoArchive)
    def _empty(request: Request, error: Exception) -> Response:
        return said(request, "Nothing measured yet", f"There is no archive: {error}. The first campaign makes one.", 200)

    @app.exception_handler(SchemaMismatch)
    def _migrating(request: Request, error: Exception) -> Response:
        text = str(error)
        return said(request, "Archive has another schema", f"{text[0].upper()}{text[1:]}. This page works again afterwards.", 503)

    @app.exception_handler(OperationalError)
    @app.exception_handler(ProgrammingError)
    def _unreadable(request: Request, error: Exception) -> Response:
        text = "The archive cannot be read: its database does not answer, or is damaged. `plumbline archive verify` says more."
        return said(request, "Archive not readable", text, 503)

    @app.exception_handler(DataError)
    def _unaskable(request: Request, error: Exception) -> Response:
        # PostgreSQL knows no text with a zero character, and says so before it looks.
        text = "The archive has nothing of that name: it holds a character that no name has."
        return JSONResponse({"detail": text}, 404) if is_api(request) else pages.message(request, "Not found", text, 404)

    @app.exception_handler(DeclarationError)
    def _undeclared(request: Request, error: Exception) -> Response:
        return said(request, "The declarations cannot be read", str(error), 500)

    @app.exception_handler(BadResult)
    def _damaged(request: Request, error: Exception) -> Response:
        return said(request, "A result cannot be read", f"{error}. `plumbline archive verify` lists every one that is damaged.", 500)

    @app.exception_handler(HTTPException)
    async def _not_found(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        # People get a page of what is not there; who asks for anything but pages, or may not ask, gets the plain answer.
        if error.status_code in (404, 410) and "text/html" in request.headers.get("accept", "") and not is_api(request):
            return pages.message(request, "Not found", str(error.detail), error.status_code)
        return await http_exception_handler(request, error)

    # Reports and their tables hold costs throughout; the pages of what was measured are shown without.
    money = [depends(access.required)]
    app.include_router(overview.router(pages, reader, declared, folder))
    app.include_router(providers.router(pages, reader, declared))
    app.include_router(workloads.router(pages, reader, declared))
    app.include_router(campaigns.router(pages, reader, folder))
    app.include_router(trials.router(pages, reader, declared))
    app.include_router(decisions.router(pages, reader, declared, choices), dependencies=money)
    app.include_router(findings.router(pages, reader, declared))
    app.include_router(prices.router(pages, reader, declared), dependencies=money)
    app.include_router(budgets.router(pages, reader, declared), dependencies=money)
    app.include_router(api.router(reader))
    app.include_router(api_decisions.router(pages, reader, declared, choices), dependencies=money)
    app.include_router(api_page.router(pages))
    app.include_router(written.router(folder), dependencies=money)
    app.include_router(static.router(pages.assets))
    return app
