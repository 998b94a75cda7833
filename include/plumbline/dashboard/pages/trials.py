"""The page of a trial, charts of its raw evidence, and downloads of verified evidence files."""

from __future__ import annotations

import base64
import hashlib
import tempfile
import threading
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import IO
from urllib.parse import quote

from fastapi import HTTPException, Request
from fastapi.responses import Response, StreamingResponse

from plumbline.answers.relative_criteria import resolve_criteria
from plumbline.archive import Archive
from plumbline.dashboard.access import can_see_costs
from plumbline.dashboard.rendering import Attempt, PageRoutes
from plumbline.dashboard.site import Site
from plumbline.metrics.formatting import format_bytes
from plumbline.presentation.chart_evidence import MOST_BYTES, Latencies, StepTimes, evidence_of
from plumbline.presentation.charts.chart import Chart
from plumbline.presentation.charts.inference import LATENCIES, latency_distribution_chart
from plumbline.presentation.charts.training import step_time_chart
from plumbline.presentation.costs import trial_cost
from plumbline.presentation.trials import published_metrics, trial_page
from plumbline.results import ResultDocument, ResultStore, evidence_files
from plumbline.results.document import Evidence

_CHARTED_KINDS = ("requests", "steps")


@dataclass(frozen=True)
class EvidenceCharts:
    """Charts of one trial; `notes`: evidence without a chart, with reasons."""

    charts: tuple[Chart, ...]
    notes: tuple[str, ...]


def evidence_charts(document: ResultDocument, folder: str) -> EvidenceCharts:
    """Latency distribution of the requests, time of the steps. `folder`: the attempt's, in its result store, as the archive names it."""
    chartable = _chartable_evidence(document)
    if not chartable:
        return EvidenceCharts((), ("No request or step evidence.",))
    limit = f"more than the chart limit of {format_bytes(MOST_BYTES)}: download it."
    if large := tuple(f"{e.uri} has {format_bytes(e.bytes)}, {limit}" for e in chartable if e.bytes > MOST_BYTES):
        return EvidenceCharts((), large)
    trial = document.trial
    below = f"/{ResultStore.folder(trial)}"
    if not folder.endswith(below):
        return EvidenceCharts((), (f"Unexpected trial folder {folder}; expected an address that ends with {below}.",))
    try:
        store = ResultStore(evidence_files.check_address(folder).removesuffix(below), patience_s=0.0)
        evidence = evidence_of(store, [document])
    except (OSError, ValueError, ImportError) as error:
        return EvidenceCharts((), (f"The result store cannot be read: {error}",))
    return EvidenceCharts(tuple(_charts(document, evidence.latencies, evidence.runs)), evidence.problems)


def _chartable_evidence(document: ResultDocument) -> list[Evidence]:
    return [e for e in document.evidence if e.kind in _CHARTED_KINDS and e.uri.endswith(".parquet")]


def _charts(document: ResultDocument, latencies: Sequence[Latencies], runs: Sequence[StepTimes]) -> list[Chart]:
    names, slo = [document.trial.provider.name], getattr(document.trial.workload, "slo", None)
    charts = [
        *(latency_distribution_chart("raw", "", names, latencies, m, getattr(slo, m, None)) for m in LATENCIES),
        step_time_chart("raw", "", names, runs),
    ]
    captions = {
        "raw-steps": "Every step. Shaded: warm-up, excluded from steady metrics.",
        "": "Share of steady requests answered within a time, measured from the scheduled arrival. Failed requests count as never answered.",
    }
    return [replace(chart, caption=captions.get(chart.name, captions[""])) for chart in charts if chart is not None]


MAX_DOWNLOAD_BYTES = 2**30
MAX_CONCURRENT_DOWNLOADS = 4
"""Downloads of one process at a time; each file is in its temporary folder until the last byte is sent."""
_MEMORY_BYTES = 8 * 2**20
_download_slots = threading.BoundedSemaphore(MAX_CONCURRENT_DOWNLOADS)


class EvidenceUnavailable(LookupError):
    """The file cannot be handed out; `status` is what HTTP calls that."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def fetch_evidence(folder: str, item: Evidence, expired: tuple[datetime, str] | None) -> IO[bytes]:
    """The file, at its beginning; the caller closes it. `folder`: the attempt's, as the archive names it. Raises EvidenceUnavailable.

    The whole file is read and its checksum verified first, so a replaced file or a forged row is refused.
    """
    address = f"{folder}/{item.uri}"
    if expired is not None:
        raise EvidenceUnavailable(410, f"{address} expired: {expired[1]}, {expired[0]:%Y-%m-%d}. The archive keeps its checksum.")
    if item.bytes > MAX_DOWNLOAD_BYTES:
        raise EvidenceUnavailable(
            413,
            f"{address} has {format_bytes(item.bytes)}, more than the download limit of {format_bytes(MAX_DOWNLOAD_BYTES)}; read it from the result store.",
        )
    if not _download_slots.acquire(blocking=False):
        raise EvidenceUnavailable(503, f"{MAX_CONCURRENT_DOWNLOADS} downloads are running, the maximum. Try again in a moment.")
    file: IO[bytes] = tempfile.SpooledTemporaryFile(_MEMORY_BYTES)  # noqa: SIM115 (it outlives this function)
    # Released with the file, also if the client disconnects before the first byte.
    weakref.finalize(file, _download_slots.release)
    try:
        digest, count = hashlib.sha256(), 0
        for piece in ResultStore(evidence_files.check_address(folder), patience_s=0.0).pieces(item.uri):
            count += len(piece)
            if count > item.bytes:
                break
            digest.update(piece)
            file.write(piece)
        if (count, digest.hexdigest()) != (item.bytes, item.sha256):
            raise EvidenceUnavailable(
                502, f"{address} differs from the recorded file: expected {item.bytes:,} bytes with SHA-256 {item.sha256}."
            )
    except FileNotFoundError:
        file.close()
        raise EvidenceUnavailable(404, f"{address} is missing. `plumbline archive verify` lists all missing files.") from None
    except (OSError, ValueError, ImportError) as error:
        file.close()
        raise EvidenceUnavailable(502, f"{address} cannot be read: {error}") from error
    except BaseException:
        file.close()
        raise
    file.seek(0)
    return file


def read_chunks(file: IO[bytes]) -> Iterator[bytes]:
    """The file in chunks; closes it at the end or when the client disconnects."""
    with file:
        while piece := file.read(2**18):
            yield piece


def router(site: Site) -> PageRoutes:
    """`/trials/{trial_id}`, its charts and its files."""
    routes = PageRoutes()
    pages, reader, declared = site.pages, site.reader, site.declared

    @routes.page("/trials/{trial_id}")
    def show_trial(request: Request, trial_id: str, attempt: Attempt = None) -> Response:
        archive = reader.archive(can_see_costs(request))
        document = archive.document(trial_id, attempt)
        imported = archive.imported(trial_id) if document is None else None
        if imported is not None:
            return pages.page(request, "imported.html.j2", imported, r=imported, numbers=published_metrics(imported))
        trial_document = _document_or_404(document, trial_id, attempt)
        trial = trial_document.trial
        attempts = tuple(t for t in archive.trials(trial.campaign_id, trial.series_key) if t.trial_id == trial_id)
        keys = archive.signing_keys(trial.campaign_id, trial_id)
        resolved = resolve_criteria(archive, trial.series_key, trial.campaign_id, trial.workload)
        page = trial_page(trial_document, attempts, archive.expired_files(trial_id, trial.attempt), keys, resolved)
        cost = trial_cost(archive, declared.now(can_see_costs(request)), trial_document, attempts)
        return pages.page(
            request, "trial.html.j2", {"trial": page, "cost": cost}, t=page, cost=cost, charted=bool(_chartable_evidence(trial_document))
        )

    @routes.get("/trials/{trial_id}/charts")
    def show_charts(request: Request, trial_id: str, attempt: Attempt = None) -> Response:
        archive = reader.archive(can_see_costs(request))
        document = _document_or_404(archive.document(trial_id, attempt), trial_id, attempt)
        evidence = evidence_charts(document, _attempt_folder(archive, document))
        charts = [
            {name: getattr(c, name) for name in ("name", "title", "caption", "data", "layout", "height", "wide")} for c in evidence.charts
        ]
        return pages.json(request, {"charts": charts, "notes": list(evidence.notes)}, headers={"Cache-Control": "no-store"})

    @routes.get("/trials/{trial_id}/evidence/{number}")
    def hand_out(request: Request, trial_id: str, number: int, attempt: Attempt = None) -> Response:
        archive = reader.archive(can_see_costs(request))
        document = _document_or_404(archive.document(trial_id, attempt), trial_id, attempt)
        if not 0 <= number < len(document.evidence):
            raise HTTPException(
                404, f'trial "{trial_id}" has {len(document.evidence)} files of evidence, counted from 0; none is number {number}'
            )
        item = document.evidence[number]
        expiry = archive.expired_files(trial_id, document.trial.attempt).get(item.uri)
        try:
            file = fetch_evidence(_attempt_folder(archive, document), item, expiry)
        except EvidenceUnavailable as error:
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
        return StreamingResponse(read_chunks(file), media_type="application/octet-stream", headers=headers)

    return routes


def _document_or_404(document: ResultDocument | None, trial_id: str, attempt: int | None) -> ResultDocument:
    if document is None:
        raise HTTPException(404, f'the archive has no trial "{trial_id}"' + (f" with attempt {attempt}" if attempt else ""))
    return document


def _attempt_folder(archive: Archive, document: ResultDocument) -> str:
    """Where the archive says that the attempt's files lie."""
    trial = document.trial
    attempts = archive.trials(trial.campaign_id, trial.series_key)
    return next(t.uri for t in attempts if (t.trial_id, t.attempt) == (trial.trial_id, trial.attempt))
