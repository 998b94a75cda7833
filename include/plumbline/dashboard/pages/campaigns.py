"""The page of a campaign and its exported tables. Reads one page of series and trials, so its cost does not depend on the campaign's size."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from fastapi import Depends, HTTPException, Query, Request
from fastapi.responses import Response

from plumbline.analysis.decisions.decision_record import read_decisions
from plumbline.archive import Archive, FindingView, Outcomes, SeriesView, TrialView
from plumbline.archive.pages import CampaignHead
from plumbline.archive.repository import Slice
from plumbline.archive.shelves import Shelf
from plumbline.dashboard.access import can_see_costs, require_cost_access
from plumbline.dashboard.deliveries import cached_delivery
from plumbline.dashboard.filters import Chosen, filter_bar
from plumbline.dashboard.rendering import PageRoutes
from plumbline.dashboard.shelf_answer import file_answer
from plumbline.dashboard.site import Site
from plumbline.declarations import Declarations
from plumbline.metrics import METRICS
from plumbline.presentation.acceptances import DeliveryView
from plumbline.presentation.decisions import DecisionRow, decision_row
from plumbline.presentation.filters import Filter
from plumbline.presentation.findings_inbox import InboxGroup, group_findings
from plumbline.presentation.series_summary import HEADLINE_NAMES, ShownState, headline_numbers, series_of_shared_causes, state_in_campaign
from plumbline.presentation.written_reports import REPORT, data_docs_of, open_table, tables
from plumbline.words.campaigns import PURPOSES, measured_text
from plumbline.workflows.accept_nodes import sheet_name

FINDINGS_SHOWN, FINDINGS_SEARCHED, DECISIONS_SEARCHED = 20, 500, 50
MAX_SERIES = 10_000
"""Series of a campaign that a filter looks through."""
_DOWNLOAD_POLICY = "default-src 'none'; sandbox"
_METRIC_KEYS = tuple((name, METRICS[name].statistic) for name in HEADLINE_NAMES)


@dataclass(frozen=True)
class SeriesRow:
    """One series' part of the campaign. `state`: as its review said it. `numbers`: see headline_numbers. `unusable`: why no trial is, empty where one is."""

    series: SeriesView
    state: ShownState
    outcomes: Outcomes
    numbers: tuple[tuple[str, str, str], ...]
    unusable: str


@dataclass(frozen=True)
class CampaignPage:
    """`purpose`: what it is for, in words; `about`: what it measured, of one that is no monthly rerun. `whole`: how all trials of the campaign
    ended, whatever the filter. `deliveries`: of an acceptance, the nodes of each provider."""

    head: CampaignHead
    purpose: str
    about: str
    rows: tuple[SeriesRow, ...]
    more_series: str | None
    whole: Outcomes
    trials: Slice[TrialView]
    findings: tuple[InboxGroup, ...]
    decisions: tuple[DecisionRow, ...]
    tables: tuple[tuple[str, tuple[str, ...]], ...]
    deliveries: tuple[DeliveryView, ...] = ()


def campaign_page(
    archive: Archive,
    declared: Declarations,
    reports: Shelf,
    campaign_id: str,
    *,
    chosen: Filter | None = None,
    series_after: str | None = None,
    series_key: str | None = None,
    after: str | None = None,
) -> CampaignPage | None:
    """None for an unknown campaign. `series_after`, `after`: where the lists of series and of trials go on; ValueError for an `after` that
    is no number. `series_key`: trials of this series alone."""
    chosen = chosen or Filter()
    head = archive.campaign_head(campaign_id)
    if head is None:
        return None
    fitting = _fitting_series(archive, declared, head, chosen) if chosen.narrows else None
    keys = None if fitting is None else {s.series_key for s in fitting}
    series = archive.campaign_series(campaign_id, _METRIC_KEYS, series_after, keys=keys)
    reviews = archive.newest_reviews([part.series.series_key for part in series.rows], campaign_id)
    stored = read_decisions(archive.decisions_page(chosen.team or None, chosen.kind or None, limit=DECISIONS_SEARCHED).rows)
    findings = archive.findings_shown_by(campaign_id, FINDINGS_SEARCHED)
    covered = series_of_shared_causes(findings)
    return CampaignPage(
        head=head,
        purpose=PURPOSES[head.purpose],
        about=_about(archive, head),
        rows=tuple(
            SeriesRow(
                part.series,
                state_in_campaign(campaign_id, head.planned_at, part.series.series_key in covered, reviews.get(part.series.series_key)),
                part.outcomes,
                headline_numbers(part.series.kind, part.values.get),
                part.unusable,
            )
            for part in series.rows
        ),
        more_series=series.after,
        whole=archive.campaign_outcomes([campaign_id]).get(campaign_id, Outcomes()),
        trials=archive.trials_page(campaign_id, series_key, after, keys=keys),
        findings=group_findings([f for f in findings if fitting is None or _is_about(f, fitting)][:FINDINGS_SHOWN], {}),
        decisions=tuple(row for row in (decision_row(decision, head.planned_at) for decision in stored) if campaign_id in row.campaigns),
        tables=tables(reports, campaign_id),
    )


def _about(archive: Archive, head: CampaignHead) -> str:
    own = archive.series(campaign_id=head.campaign_id, limit=MAX_SERIES) if head.purpose != "monthly" else ()
    return measured_text(head.purpose, {s.workload for s in own}, {s.provider for s in own})


def _fitting_series(archive: Archive, declared: Declarations, head: CampaignHead, chosen: Filter) -> list[SeriesView]:
    """Series of the campaign that the filter leaves."""
    all_series = archive.series(kind=chosen.kind or None, campaign_id=head.campaign_id, limit=MAX_SERIES)
    fitting = [s for s in all_series if chosen.fits_place(declared, s.provider) and chosen.fits_workload(declared, s.kind, s.workload)]
    if not chosen.state:
        return fitting
    reviews = archive.newest_reviews([s.series_key for s in fitting], head.campaign_id)
    covered = series_of_shared_causes(archive.findings_shown_by(head.campaign_id, FINDINGS_SEARCHED))
    states = {
        s.series_key: state_in_campaign(head.campaign_id, head.planned_at, s.series_key in covered, reviews.get(s.series_key)).name
        for s in fitting
    }
    return [s for s in fitting if states[s.series_key] == chosen.state]


def _is_about(finding: FindingView, series: Collection[SeriesView]) -> bool:
    """Whether a finding names one of the series, or as a finding of a whole provider that of one."""
    series_keys = {finding.series_key, *(finding.detail.get("series") or ())} - {"", None}
    return any(s.series_key in series_keys if series_keys else s.provider == finding.provider for s in series)


def router(site: Site) -> PageRoutes:
    """`/campaigns/{campaign_id}`, the tables that were exported of it, and the sheet of an acceptance."""
    routes = PageRoutes()
    pages, reader, declared, reports = site.pages, site.reader, site.declared, site.reports

    @routes.page("/campaigns/{campaign_id}")
    def show_campaign(
        request: Request,
        campaign_id: str,
        chosen: Chosen,
        series: str = Query("", max_length=500, description="trials of this series alone"),
        series_after: str = Query("", max_length=500),
        after: int | None = Query(None, ge=0, le=2**31 - 1),
    ) -> Response:
        money = can_see_costs(request)
        campaign = campaign_page(
            reader.archive(money),
            declared.now(),
            reports,
            campaign_id,
            chosen=chosen,
            series_after=series_after or None,
            series_key=series or None,
            after=None if after is None else str(after),
        )
        if campaign is None:
            raise HTTPException(404, f'the archive has no campaign "{campaign_id}"')
        if campaign.head.purpose == "acceptance":
            archive = reader.archive(money)
            named = [name for name, heads in archive.acceptances().items() if any(h.campaign_id == campaign_id for h in heads)]
            judged = (cached_delivery(site, archive, money, name, True, campaign_id) for name in named)
            campaign = replace(campaign, deliveries=tuple(each[0] for each in judged if each is not None and each[0] is not None))
        return pages.page(
            request,
            "campaign.html.j2",
            campaign,
            c=campaign,
            report=REPORT in reports.files(campaign_id),
            sheet=bool(site.sheets.files(campaign_id)) if campaign.deliveries else False,
            docs=data_docs_of(
                site.data_docs, campaign_id, reader.archive(money).providers_of_campaigns([campaign_id]).get(campaign_id, ())
            ),
            chosen=chosen,
            bar=filter_bar(f"/campaigns/{campaign_id}", declared.now(), chosen, money, series=series),
            series=series,
            series_after=series_after,
            begun=bool(series_after or after is not None),
        )

    @routes.get("/campaigns/{campaign_id}/tables/{name}", dependencies=[Depends(require_cost_access)])
    def hand_out_table(campaign_id: str, name: str) -> Response:
        missing = f'campaign "{campaign_id}" has no exported table "{name}": `plumbline report {campaign_id} --tables csv`'
        kind = "text/csv; charset=utf-8" if name.endswith(".csv") else "application/vnd.apache.parquet"
        return file_answer(open_table(reports, campaign_id, name), missing, kind, _DOWNLOAD_POLICY, f"{campaign_id}.{name}")

    # A pack holds documents, with the terms of their providers.
    @routes.get("/campaigns/{campaign_id}/sheet.zip", include_in_schema=False, dependencies=[Depends(require_cost_access)])
    def hand_out_sheet(campaign_id: str) -> Response:
        file, missing = (
            sheet_name(campaign_id),
            f'no acceptance sheet of campaign "{campaign_id}"; `plumbline accept` writes one with --sheet',
        )
        return file_answer(site.sheets.open(campaign_id, file), missing, "application/zip", _DOWNLOAD_POLICY, file)

    return routes
