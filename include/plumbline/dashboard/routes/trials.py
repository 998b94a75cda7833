"""The page of a trial, ours or imported; what its raw evidence shows, and that evidence itself."""

from __future__ import annotations

import base64
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response, StreamingResponse

from plumbline.archive import Archive
from plumbline.dashboard.access import money
from plumbline.dashboard.declared import Declared
from plumbline.dashboard.download import Unavailable, fetched, pieces
from plumbline.dashboard.page import Pages
from plumbline.dashboard.raw import raw_charts
from plumbline.dashboard.reading import Reader
from plumbline.dashboard.trial import numbers_of, trial_page
from plumbline.dashboard.trial_cost import trial_cost
from plumbline.results import ResultDocument

Attempt = Annotated[int | None, Query(ge=1, le=2**31 - 1, description="the last usable one, else the last, if left out")]
"""No larger than what the archive's column holds."""


def router(pages: Pages, reader: Reader, declared: Declared) -> APIRouter:
    """`/trials/{trial_id}`, its charts and its files."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/trials/{trial_id}", response_class=HTMLResponse)
    def show_trial(request: Request, trial_id: str, attempt: Attempt = None) -> Response:
        archive = reader.archive(money(request))
        document = archive.document(trial_id, attempt)
        imported = archive.imported(trial_id) if document is None else None
        if imported is not None:
            return pages.page(request, "imported.html.j2", r=imported, numbers=numbers_of(imported))
        found = _known(document, trial_id, attempt)
        trial = found.trial
        attempts = tuple(t for t in archive.trials(trial.campaign_id, trial.series_key) if t.trial_id == trial_id)
        keys = archive.signing_keys(trial.campaign_id, trial_id)
        shown = trial_page(found, attempts, archive.expired_files(trial_id, trial.attempt), keys)
        return pages.page(request, "trial.html.j2", t=shown, cost=trial_cost(archive, declared.now(money(request)), found, attempts))

    @routes.get("/trials/{trial_id}/charts")
    def show_charts(request: Request, trial_id: str, attempt: Attempt = None) -> Response:
        archive = reader.archive(money(request))
        document = _known(archive.document(trial_id, attempt), trial_id, attempt)
        drawn = raw_charts(document, _folder(archive, document))
        charts = [
            {name: getattr(c, name) for name in ("name", "title", "caption", "data", "layout", "height", "wide")} for c in drawn.charts
        ]
        return JSONResponse({"charts": charts, "said": list(drawn.said)}, headers={"Cache-Control": "no-store"})

    @routes.get("/trials/{trial_id}/evidence/{number}")
    def hand_out(request: Request, trial_id: str, number: int, attempt: Attempt = None) -> Response:
        archive = reader.archive(money(request))
        document = _known(archive.document(trial_id, attempt), trial_id, attempt)
        if not 0 <= number < len(document.evidence):
            raise HTTPException(
                404, f'trial "{trial_id}" has {len(document.evidence)} files of evidence, counted from 0; none is number {number}'
            )
        item = document.evidence[number]
        gone = archive.expired_files(trial_id, document.trial.attempt).get(item.uri)
        try:
            file = fetched(_folder(archive, document), item, gone)
        except Unavailable as error:
            return pages.message(request, "Evidence not available", str(error), error.status)
        name = f"{trial_id}.attempt-{document.trial.attempt}.{item.uri.rsplit('/', 1)[-1]}"
        headers = {
            "Content-Length": str(item.bytes),
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}",
            "X-Checksum-Sha256": item.sha256,
            "Repr-Digest": f"sha-256=:{base64.b64encode(bytes.fromhex(item.sha256)).decode()}:",  # RFC 9530
            "Content-Security-Policy": "default-src 'none'; sandbox",
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store",
        }
        return StreamingResponse(pieces(file), media_type="application/octet-stream", headers=headers)

    return routes


def _known(document: ResultDocument | None, trial_id: str, attempt: int | None) -> ResultDocument:
    if document is None:
        raise HTTPException(404, f'the archive has no trial "{trial_id}"' + (f" with attempt {attempt}" if attempt else ""))
    return document


def _folder(archive: Archive, document: ResultDocument) -> str:
    """Where the archive says that the attempt's files lie."""
    trial = document.trial
    own = archive.trials(trial.campaign_id, trial.series_key)
    return next(t.uri for t in own if (t.trial_id, t.attempt) == (trial.trial_id, trial.attempt))
