"""The FastAPI app: routes, error pages and security headers. It imports no Airflow: the caller's `dependencies` decide who has access."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exception_handlers import http_exception_handler, request_validation_exception_handler
from fastapi.exceptions import RequestValidationError
from fastapi.params import Depends
from fastapi.responses import JSONResponse, Response
from sqlalchemy.exc import DataError, OperationalError, ProgrammingError
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from plumbline.answers.active_runs import ReadActiveRuns
from plumbline.archive import Archive, SchemaMismatch
from plumbline.archive.shelves import FolderShelf, shelf
from plumbline.dashboard import access
from plumbline.dashboard import assets as static_files
from plumbline.dashboard.acting import Acting
from plumbline.dashboard.pages import all_routes
from plumbline.dashboard.rendering import base_path, make_renderer, wants_json
from plumbline.dashboard.site import Site
from plumbline.dashboard.sources import AnswerCache, ArchiveReader, DeclarationsReader, MissingArchive
from plumbline.declarations import DeclarationError
from plumbline.declarations.archive_address import WrongAddress
from plumbline.results import InvalidResult


def create_app(
    dependencies: Sequence[Depends] = (),
    *,
    archive_url: str | None = None,
    reports: Path | None = None,
    may_see_money: Callable[..., bool] = access.allow_everyone,
    acting: Acting | None = None,
    active_runs: ReadActiveRuns | None = None,
) -> FastAPI:
    """The dashboard over one archive and one folder of reports (default: the installation's shelf). `may_see_money`: a dependency of FastAPI's.
    `acting`: how users act on findings; without it the pages have no buttons. `active_runs`: what Airflow runs now; without it the overview
    shows the newest campaign instead.

    Every route is behind `dependencies`. There is no mounted sub-app and no built-in description or documentation page: FastAPI serves
    those without them.
    """
    app = FastAPI(
        title="Plumbline",
        dependencies=[*dependencies, access.note_cost_access(may_see_money), *([acting.note_actor()] if acting else [])],
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
    )
    app.add_middleware(DefaultHeaders)
    reader = ArchiveReader(archive_url)
    declared = DeclarationsReader()

    def rows() -> AbstractContextManager[Archive]:
        return nullcontext(reader.archive())  # which stays open

    pages = make_renderer(all_simulated=reader.all_simulated, broken=declared.broken)

    @app.exception_handler(MissingArchive)
    def _empty(request: Request, error: Exception) -> Response:
        return pages.message(request, "No results yet", f"No archive: {error}. The first campaign creates it.")

    @app.exception_handler(SchemaMismatch)
    def _migrating(request: Request, error: Exception) -> Response:
        text = str(error)
        return pages.message(request, "Archive schema differs", f"{text[0].upper()}{text[1:]}. This page works again afterwards.", 503)

    @app.exception_handler(WrongAddress)
    def _unknown(request: Request, error: Exception) -> Response:
        return pages.message(request, "The archive's address is wrong", f"{str(error)[0].upper()}{str(error)[1:]}.", 503)

    @app.exception_handler(OperationalError)
    @app.exception_handler(ProgrammingError)
    def _unreadable(request: Request, error: Exception) -> Response:
        text = "The archive cannot be read: its database does not respond or is damaged. `plumbline archive verify` shows details."
        return pages.message(request, "Archive not readable", text, 503)

    @app.exception_handler(DataError)
    def _unaskable(request: Request, error: Exception) -> Response:
        # PostgreSQL refuses text with a zero character.
        return pages.message(request, "Not found", "Not in the archive: the name contains an invalid character.", 404)

    @app.exception_handler(DeclarationError)
    def _undeclared(request: Request, error: Exception) -> Response:
        return pages.message(request, "The declarations cannot be read", str(error), 500)

    @app.exception_handler(InvalidResult)
    def _damaged(request: Request, error: Exception) -> Response:
        return pages.message(request, "A result cannot be read", f"{error}. `plumbline archive verify` lists all damaged results.", 500)

    @app.exception_handler(HTTPException)
    async def _not_found(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        # Browsers get a page for what does not exist; other clients and refused requests get the plain answer.
        if error.status_code in (404, 410) and _is_browser(request):
            return pages.message(request, "Not found", str(error.detail), error.status_code)
        return await http_exception_handler(request, error)

    @app.exception_handler(RequestValidationError)
    async def _mistyped(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        errors = {str(e["loc"][1]): e["msg"] for e in reversed(error.errors()) if e["loc"][0] == "query"}
        if errors and _is_browser(request):
            return pages.refused_query(request, errors)
        return await request_validation_exception_handler(request, error)

    written = FolderShelf(reports) if reports is not None else shelf("reports", rows)
    site = Site(
        pages,
        reader,
        declared,
        written,
        shelf("data_docs", rows),
        shelf("acceptance", rows),
        AnswerCache(),
        AnswerCache(),
        acting,
        active_runs,
    )
    for routes in all_routes(site):
        routes.add_to(app)
        if routes.entry is not None:
            pages.navigation.append((routes.entry, routes.money))
    app.include_router(static_files.router(pages.assets))

    @app.get("/openapi.json", include_in_schema=False)
    def show_description(request: Request) -> JSONResponse:
        return JSONResponse({**app.openapi(), "servers": [{"url": base_path(request) or "/"}]})

    return app


def _is_browser(request: Request) -> bool:
    return "text/html" in request.headers.get("accept", "") and not wants_json(request)


DEFAULT_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'self'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}
"""Headers of every answer of a route, refusals and errors included; a route may set its own."""


class DefaultHeaders:
    """ASGI middleware that adds DEFAULT_HEADERS."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in DEFAULT_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers if scope["type"] == "http" else send)
