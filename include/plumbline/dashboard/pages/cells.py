"""Details of a cell of the heat map: its number, interval and twelve campaigns, as JSON."""

from __future__ import annotations

from typing import Any

from fastapi import HTTPException, Request
from fastapi.responses import Response

from plumbline.analysis.fleet import usual_numbers
from plumbline.analysis.trial_sample import PHASE_ORDER, WorkloadKind
from plumbline.answers.fleet import primary_number
from plumbline.archive import Archive, MetricPoint, SeriesView
from plumbline.dashboard.access import can_see_costs
from plumbline.dashboard.rendering import PageRoutes
from plumbline.dashboard.site import Site
from plumbline.declarations import Declarations
from plumbline.metrics import METRICS, Metric
from plumbline.metrics.formatting import common_scale, format_name
from plumbline.metrics.pooling import pool

CAMPAIGNS = 12


def cell_history(archive: Archive, declared: Declarations, provider: str, workload: str) -> dict[str, Any]:
    """The primary number of a provider on a workload over its newest campaigns, oldest first. LookupError if it never ran there.

    `points`: medians in the unit of `text`; empty if no usable trial measured one of the workload's numbers.
    """
    series = archive.series_of([provider], workload=workload)
    if not series:
        raise LookupError(f"{provider} never ran {workload}")
    current = archive.newest_by_place(series)[provider, workload].series
    campaigns = dict(archive.result_campaigns(current.series_key, CAMPAIGNS))
    known, points = _first_measured(archive, declared, current, list(campaigns))
    values: dict[str, list[float]] = {}
    for point in points:
        values.setdefault(point.campaign_id, []).append(point.value)
    pooled = {campaign: pool(values[campaign]) for campaign in campaigns if campaign in values}
    if known is None or not pooled:
        return {"metric": "", "text": "", "interval": "", "points": []}
    last = list(pooled.values())[-1]
    scale = common_scale(known.unit, [median.value for median in pooled.values()], known.name)
    return {
        "metric": format_name(known.name),
        "text": scale.text(last.value),
        "interval": scale.interval(last.low, last.high),
        "points": [{"campaign": c, "value": median.value / scale.factor, "text": scale.text(median.value)} for c, median in pooled.items()],
    }


def _first_measured(
    archive: Archive, declared: Declarations, series: SeriesView, campaigns: list[str]
) -> tuple[Metric | None, list[MetricPoint]]:
    """The first of the workload's numbers that a trial measured; None without one."""
    first = primary_number(declared, series.workload)
    kind: WorkloadKind = "training" if series.kind == "training" else "inference"
    for metric, statistic, phase in (*((first,) if first is not None else ()), *usual_numbers(kind)):
        for candidate_phase in (phase,) if phase else PHASE_ORDER:
            if points := archive.metric_history(series.series_key, metric, statistic, candidate_phase, campaigns):
                spec = declared.workloads.get(series.workload)
                return (METRICS if spec is None else spec.catalogue)[metric], points
    return None, []


def router(site: Site) -> PageRoutes:
    """`/cells/{provider}/{workload}`."""
    routes = PageRoutes(include_in_schema=False)
    reader, declared = site.reader, site.declared

    @routes.get("/cells/{provider}/{workload}")
    def show_cell(request: Request, provider: str, workload: str) -> Response:
        money = can_see_costs(request)
        try:
            history = cell_history(reader.archive(money), declared.now(money), provider, workload)
        except LookupError as error:
            raise HTTPException(404, str(error)) from error
        return site.pages.json(request, history, headers={"Cache-Control": "private, max-age=60"})

    return routes
