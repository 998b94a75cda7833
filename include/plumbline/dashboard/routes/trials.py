"""The page of a trial, ours or imported."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse, Response

from plumbline.dashboard.page import Pages
from plumbline.dashboard.reading import Reader
from plumbline.dashboard.trial import numbers_of, trial_page


def router(pages: Pages, reader: Reader) -> APIRouter:
    """`/trials/{trial_id}`."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/trials/{trial_id}", response_class=HTMLResponse)
    def show_trial(request: Request, trial_id: str, attempt: int | None = None) -> Response:
        archive = reader.archive()
        document = archive.document(trial_id, attempt)
        imported = archive.imported(trial_id) if document is None else None
        if imported is not None:
            return pages.page(request, "imported.html.j2", r=imported, numbers=numbers_of(imported))
        if document is None:
            raise HTTPException(404, f'the archive has no trial "{trial_id}"' + (f" with attempt {attempt}" if attempt else ""))
        trial = document.trial
        attempts = tuple(t for t in archive.trials(trial.campaign_id, trial.series_key) if t.trial_id == trial_id)
        shown = trial_page(document, attempts, archive.expired_files(trial_id, trial.attempt))
        return pages.page(request, "trial.html.j2", t=shown)

    return routes
