"""The list of findings, and the page of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal
from urllib.parse import urlencode

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, Response

from plumbline.archive.records import FindingKind, FindingState, Severity
from plumbline.dashboard.access import money
from plumbline.dashboard.declared import Declared
from plumbline.dashboard.finding import finding_page
from plumbline.dashboard.page import Pages
from plumbline.dashboard.reading import Reader

STATES: tuple[FindingState, ...] = ("open", "acknowledged", "accepted", "resolved")
KINDS: tuple[FindingKind, ...] = ("performance", "environment", "price", "reliability", "missing_data", "self")
SEVERITIES: tuple[Severity, ...] = ("page", "warn", "info")
Nothing = Literal[""]
MOST_NAMES = 50
"""Providers that the form offers by name; of more, one is typed."""


def router(pages: Pages, reader: Reader, declared: Declared) -> APIRouter:
    """`/findings` and `/findings/{finding_id}`."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/findings", response_class=HTMLResponse)
    def show_findings(
        request: Request,
        # A form sends what nobody chose as an empty word.
        state: FindingState | Nothing = "",
        kind: FindingKind | Nothing = "",
        severity: Severity | Nothing = "",
        provider: str = Query("", max_length=200),
        after: str = Query("", max_length=200),
    ) -> Response:
        chosen = {"state": state, "kind": kind, "severity": severity, "provider": provider.strip()}
        archive = reader.archive(money(request))
        try:
            found = archive.findings_page(state or None, kind or None, severity or None, provider.strip() or None, after or None)
        except LookupError as error:
            raise HTTPException(404, str(error)) from error
        names = archive.provider_names()
        following = _query({**chosen, "after": found.after}) if found.after else None
        return pages.page(
            request,
            "findings.html.j2",
            findings=found.rows,
            chosen=chosen,
            providers=names if len(names) <= MOST_NAMES else (),
            states=[(s, _query({**chosen, "state": s})) for s in ("", *STATES)],
            kinds=KINDS,
            severities=SEVERITIES,
            following=following,
            begun=bool(after),
            first=_query(chosen),
        )

    @routes.get("/findings/{finding_id}", response_class=HTMLResponse)
    def show_finding(request: Request, finding_id: str) -> Response:
        try:
            found = finding_page(reader.archive(money(request)), declared.now(money(request)), finding_id, pages.now())
        except LookupError as error:
            raise HTTPException(404, str(error)) from error
        return pages.page(request, "finding.html.j2", f=found)

    return routes


def _query(chosen: Mapping[str, str | None]) -> str:
    found = urlencode({name: value for name, value in chosen.items() if value})
    return f"?{found}" if found else ""
