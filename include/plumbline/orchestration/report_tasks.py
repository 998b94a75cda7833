"""The tasks of the drift review and of the report: each hands over to plain code and no more."""

from __future__ import annotations

from datetime import timedelta, timezone
from typing import Any

from airflow.sdk import TriggerRule, task
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from plumbline.orchestration import alerting, digesting, ranking, reporting, review
from plumbline.orchestration.assets import RESULTS

Row = dict[str, Any]


@task
def changed(*, triggering_asset_events: Any = None, params: Any = None) -> list[Row]:
    """What to review: each campaign and provider that an event speaks of, once; by hand, what the form says."""
    events = [event.extra for event in (triggering_asset_events or {}).get(RESULTS, ())]
    asked = [{"campaign_id": params["campaign"], "provider": params["provider"]}] if params["campaign"] else []
    wanted = {(e["campaign_id"], e["provider"]): {"campaign_id": e["campaign_id"], "provider": e["provider"]} for e in events or asked}
    if not wanted:
        raise AirflowSkipException("no results to review: fill in the campaign, or wait for a benchmark")
    return list(wanted.values())


@task(map_index_template="{{ task.op_kwargs['what']['campaign_id'] }} {{ task.op_kwargs['what']['provider'] or 'all providers' }}")
def compare(what: Row) -> list[Row]:
    """Hold every series against its baseline and keep what drifted."""
    return [review.told(one) for one in review.review(what["campaign_id"], what["provider"])]


@task(trigger_rule=TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS)
def alert() -> Row:
    """Tell people what is open: into the log always, into Slack where a connection exists."""
    return dict(alerting.alert())


@task
def report(*, dag_run: Any = None, params: Any = None) -> str:
    """Write the report and its tables, which its page hands out; a scheduled run is about the campaign of its month, if there was one."""
    month = f"{dag_run.run_after.astimezone(timezone.utc):%Y-%m}"
    try:
        return str(reporting.report(month if _scheduled(dag_run) else params["campaign"], ("csv", "parquet")))
    except LookupError as nothing:
        raise (AirflowSkipException if _scheduled(dag_run) else AirflowFailException)(str(nothing)) from None


@task
def decide(*, dag_run: Any = None, params: Any = None) -> list[str]:
    """Make every team's decisions again from the archive; people hear of a first choice that changed."""
    why = "the monthly report" if _scheduled(dag_run) else f"the report of {params['campaign'] or 'the newest campaign'}"
    ranked = ranking.rank_now(why)
    if any(one.findings for one in ranked):
        alerting.alert()
    return [one.text for one in ranked]


@task(retries=6, retry_delay=timedelta(minutes=10), retry_exponential_backoff=True, max_retry_delay=timedelta(hours=6))
def digest(*, dag_run: Any = None) -> str:
    """Tell what is open at the end of the month, ranked by money. Only a scheduled run does: a report by hand tells nobody anything."""
    if not _scheduled(dag_run):
        raise AirflowSkipException("by hand: `plumbline alerts digest` shows it; the scheduled run of the month sends it")
    return digesting.send(digesting.month_before(dag_run.run_after))


def _scheduled(dag_run: Any) -> bool:
    return str(getattr(dag_run.run_type, "value", dag_run.run_type)) == "scheduled"
