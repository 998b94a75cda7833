"""The JSON API over the archive's rows, one page of rows a request."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from pydantic import BaseModel

from plumbline.analysis.decisions.decision_record import DecisionDocument, read_decisions
from plumbline.analysis.trial_sample import WorkloadKind
from plumbline.archive.pages import CampaignHead, Slice
from plumbline.archive.records import FindingView, PriceView, SeriesView
from plumbline.dashboard.access import can_see_costs, require_cost_access
from plumbline.dashboard.api import models as out
from plumbline.dashboard.rendering import API_PREFIX, Attempt
from plumbline.dashboard.sources import ArchiveReader
from plumbline.metrics import METRICS, PHASES
from plumbline.results.finding import FindingKind, FindingState, Severity

Limit = Annotated[int, Query(ge=1, le=200, description="rows of a page")]
After = Annotated[str | None, Query(description="the `after` of the page before")]
M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")


def router(reader: ArchiveReader) -> APIRouter:
    """`/api/v1/…`, all of it but decisions that are made on the spot."""
    routes = APIRouter(prefix=API_PREFIX.rstrip("/"))

    @routes.get("/series", tags=["measured"])
    def list_series(
        provider: str | None = None,
        kind: WorkloadKind | None = None,
        workload: str | None = None,
        campaign_id: str | None = None,
        after: After = None,
        limit: Limit = 50,
    ) -> out.Listed[SeriesView]:
        """Series by key."""
        return _listed(reader.archive().series_page(provider, kind, workload, campaign_id, after or "", limit))

    @routes.get("/campaigns", tags=["measured"])
    def list_campaigns(after: After = None, limit: Limit = 50) -> out.Listed[CampaignHead]:
        """Campaigns, those planned last first."""
        with _valid_cursor():
            return _listed(reader.archive().campaigns_page(after, limit))

    @routes.get("/campaigns/{campaign_id}", tags=["measured"])
    def one_campaign(campaign_id: str, after: After = None, limit: Limit = 50) -> out.CampaignDetail:
        """A campaign with the series that took part in it, and how their trials ended."""
        archive = reader.archive()
        head = archive.campaign_head(campaign_id)
        if head is None:
            raise HTTPException(404, f'the archive has no campaign "{campaign_id}"')
        part = archive.campaign_series(campaign_id, (), after, limit)
        rows = tuple(out.SeriesInCampaign(**vars(row.series), outcomes=row.outcomes) for row in part.rows)
        return out.CampaignDetail(**vars(head), series=out.Listed(items=rows, after=part.after))

    @routes.get("/trials", tags=["measured"])
    def list_trials(
        campaign_id: str | None = None, series_key: str | None = None, after: After = None, limit: Limit = 50
    ) -> out.Listed[out.TrialOut]:
        """Attempts in the order in which they were recorded, of one campaign and one series if asked."""
        with _valid_cursor():
            page = reader.archive().trials_page(campaign_id, series_key, after, limit)
        return out.Listed(items=tuple(_to_model(out.TrialOut, row) for row in page.rows), after=page.after)

    @routes.get("/trials/{trial_id}", tags=["measured"])
    def one_trial(trial_id: str, attempt: Attempt = None) -> out.TrialDetail:
        """An attempt with its numbers: without `attempt` the last usable one, else the last."""
        archive = reader.archive()
        document = archive.document(trial_id, attempt)
        if document is None:
            raise HTTPException(404, f'the archive has no trial of ours "{trial_id}"' + (f" with attempt {attempt}" if attempt else ""))
        trial = document.trial
        attempts = archive.trials(trial.campaign_id, trial.series_key)
        view = next(a for a in attempts if (a.trial_id, a.attempt) == (trial_id, trial.attempt))
        return out.TrialDetail(
            **_to_model(out.TrialOut, view).model_dump(),
            metrics=document.metrics,
            evidence=document.evidence,
            facts=dict(document.environment.facts) if document.environment else {},
            replay_command=document.replay,
        )

    @routes.get("/metrics", tags=["measured"])
    def history(
        series_key: str,
        metric: str,
        statistic: str | None = None,
        phase: str = "steady",
        after: After = None,
        limit: Annotated[int, Query(ge=1, le=60, description="campaigns of a page")] = 24,
    ) -> out.History:
        """One number of a series over its campaigns, newest first, with every usable repeat. `statistic`: the metric's leading one if left out."""
        if metric not in METRICS or phase not in PHASES:
            raise HTTPException(422, f'"{metric}" in "{phase}" is not measured; metrics and phases are named in docs/reference/metrics.md')
        definition, archive = METRICS[metric], reader.archive()
        with _valid_cursor():
            campaigns = archive.campaigns_of(series_key, after, limit)
        planned_times = dict(campaigns.rows)
        points: dict[str, list[out.PointOut]] = {}
        for point in archive.metric_history(series_key, metric, statistic or definition.statistic, phase, list(planned_times)):
            points.setdefault(point.campaign_id, []).append(_to_model(out.PointOut, point))
        baseline = archive.baseline(series_key)
        items = tuple(
            out.CampaignPoints(
                campaign_id=campaign_id, planned_at=planned_at, baseline=campaign_id in baseline, points=tuple(points.get(campaign_id, ()))
            )
            for campaign_id, planned_at in planned_times.items()
        )
        return out.History(
            series_key=series_key,
            metric=metric,
            statistic=statistic or definition.statistic,
            phase=phase,
            unit=definition.unit,
            direction=definition.direction,
            campaigns=out.Listed(items=items, after=campaigns.after),
        )

    @routes.get("/findings", tags=["concluded"])
    def list_findings(
        request: Request,
        state: FindingState | None = None,
        kind: FindingKind | None = None,
        severity: Severity | None = None,
        provider: str | None = None,
        after: After = None,
        limit: Limit = 50,
    ) -> out.Listed[FindingView]:
        """Findings, newest first."""
        with _valid_cursor():
            return _listed(reader.archive(can_see_costs(request)).findings_page(state, kind, severity, provider, after, limit))

    @routes.get("/prices", tags=["concluded"], dependencies=[Depends(require_cost_access)])
    def list_prices(provider: str | None = None, after: After = None, limit: Limit = 50) -> out.Listed[PriceView]:
        """Prices that were accepted, by provider, purchase and day."""
        with _valid_cursor():
            return _listed(reader.archive().prices_page(provider, after, limit))

    @routes.get("/decisions", tags=["concluded"], dependencies=[Depends(require_cost_access)])
    def list_decisions(
        team: str | None = None, kind: WorkloadKind | None = None, after: After = None, limit: Limit = 20
    ) -> out.Listed[DecisionDocument]:
        """Stored decisions, newest first, each with all that it was made from; without those that cannot be read."""
        with _valid_cursor():
            page = reader.archive().decisions_page(team, kind, after, limit)
        return out.Listed(items=read_decisions(page.rows), after=page.after)

    return routes


class _valid_cursor:
    """Turns an `after` that nothing has, or that is no key, into an answer that says so."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, LookupError | ValueError):
            raise HTTPException(422, f"after: {error}") from error


def _to_model(model: type[M], row: Any) -> M:
    return model.model_validate(row, from_attributes=True)


def _listed(part: Slice[T]) -> out.Listed[T]:
    return out.Listed(items=part.rows, after=part.after)
