"""The page of a campaign and its exported tables. Reads one page of series and trials, so its cost does not depend on the campaign's size."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from fastapi.responses import FileResponse, HTMLResponse, Response

from plumbline.archive import Archive, FindingView, Outcomes, SeriesView, TrialView
from plumbline.archive.pages import CampaignHead, SeriesOutcome, Slice
from plumbline.dashboard.access import can_see_costs, require_cost_access
from plumbline.dashboard.pages.reports import report_file, table_file, tables
from plumbline.dashboard.rendering import PageRenderer
from plumbline.dashboard.sources import ArchiveReader
from plumbline.metrics import METRICS
from plumbline.presentation.decisions import StoredDecision, stored_decision
from plumbline.presentation.series_summary import HEADLINE_METRICS, WHOLE_ANSWER_METRICS, headline_numbers

FINDINGS_SHOWN, DECISIONS_SEARCHED = 20, 50
_GROUPS = (*HEADLINE_METRICS["training"], *HEADLINE_METRICS["inference"], *WHOLE_ANSWER_METRICS)
_LEADING = dict.fromkeys((*(name for group in _GROUPS for name in group), "inter_token_latency"))
_ASKED = tuple((name, METRICS[name].statistic) for name in _LEADING)


@dataclass(frozen=True)
class SeriesRow:
    """One series' part of the campaign. `numbers`: see headline_numbers."""

    series: SeriesView
    outcomes: Outcomes
    numbers: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class CampaignPage:
    """`whole`: how all trials ended, None where the campaign has more series than one page of them."""

    head: CampaignHead
    rows: tuple[SeriesRow, ...]
    more_series: str | None
    whole: Outcomes | None
    trials: Slice[TrialView]
    findings: tuple[FindingView, ...]
    decisions: tuple[StoredDecision, ...]
    tables: tuple[tuple[str, tuple[str, ...]], ...]


def campaign_page(
    archive: Archive, reports: Path, campaign_id: str, series_after: str | None, series_key: str | None, after: str | None
) -> CampaignPage | None:
    """None for an unknown campaign. `series_after`, `after`: where the lists of series and of trials go on; ValueError for an `after` that
    is no number. `series_key`: trials of this series alone."""
    head = archive.campaign_head(campaign_id)
    if head is None:
        return None
    series = archive.campaign_series(campaign_id, _ASKED, series_after)
    stored = archive.decisions_page(limit=DECISIONS_SEARCHED).rows
    own = (stored_decision(view) for view in stored)
    return CampaignPage(
        head=head,
        rows=tuple(SeriesRow(part.series, part.outcomes, headline_numbers(part.series.kind, part.values.get)) for part in series.rows),
        more_series=series.after,
        whole=_total_outcomes(series.rows) if series.after is None and series_after is None else None,
        trials=archive.trials_page(campaign_id, series_key, after),
        findings=archive.findings_shown_by(campaign_id, FINDINGS_SHOWN),
        decisions=tuple(k for k in own if campaign_id in k.campaigns),
        tables=tables(reports, campaign_id),
    )


def _total_outcomes(parts: tuple[SeriesOutcome, ...]) -> Outcomes:
    return Outcomes(**{name: sum(getattr(p.outcomes, name) for p in parts) for name in Outcomes.__dataclass_fields__})


def router(pages: PageRenderer, reader: ArchiveReader, reports: Path) -> APIRouter:
    """`/campaigns/{campaign_id}` and the tables that were exported of it."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/campaigns/{campaign_id}", response_class=HTMLResponse)
    def show_campaign(
        request: Request,
        campaign_id: str,
        series: str = Query("", max_length=500, description="trials of this series alone"),
        series_after: str = Query("", max_length=500),
        after: int | None = Query(None, ge=0, le=2**31 - 1),
    ) -> Response:
        known = report_file(reports, campaign_id) is not None
        after_trial = None if after is None else str(after)
        found = campaign_page(
            reader.archive(can_see_costs(request)), reports, campaign_id, series_after or None, series or None, after_trial
        )
        if found is None:
            raise HTTPException(404, f'the archive has no campaign "{campaign_id}"')
        begun = bool(series_after or after is not None)
        return pages.page(request, "campaign.html.j2", c=found, report=known, series=series, series_after=series_after, begun=begun)

    @routes.get("/campaigns/{campaign_id}/tables/{name}", dependencies=[Depends(require_cost_access)])
    def hand_out_table(campaign_id: str, name: str) -> FileResponse:
        file = table_file(reports, campaign_id, name)
        if file is None:
            raise HTTPException(
                404, f'campaign "{campaign_id}" has no exported table "{name}": `plumbline report {campaign_id} --tables csv`'
            )
        kind = "text/csv; charset=utf-8" if file.suffix == ".csv" else "application/vnd.apache.parquet"
        headers = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; sandbox"}
        return FileResponse(file, media_type=kind, filename=f"{campaign_id}.{name}", headers=headers)

    return routes
