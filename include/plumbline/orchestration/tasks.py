"""The tasks that the benchmark DAGs are wired from: each hands a step to Airflow and no more.

A trial that fails makes its `run` red and nothing else: that is data, and `collect` records it. A step of ours that fails makes the
DAG run fail.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import TriggerRule, task
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowSkipException

from plumbline.declarations import KubernetesLauncher, Provider, load
from plumbline.orchestration import steps, watched
from plumbline.orchestration.asked import SlotMissed, asked_of
from plumbline.orchestration.assets import RESULTS, provider_changed
from plumbline.orchestration.budget import BudgetReached
from plumbline.orchestration.defaults import PLAN_WEIGHT, collect_settings, launch_settings, record_settings
from plumbline.orchestration.interrupt import stopped_by_sigterm
from plumbline.orchestration.lanes import LANES, Lane

Row = dict[str, Any]
_TITLE = "{{ task.op_kwargs['spec']['title'] }}"


@task(priority_weight=PLAN_WEIGHT, weight_rule="absolute")
def plan(
    provider: str, lane: str, *, dag_run: Any = None, params: Any = None, ti: Any = None, triggering_asset_events: Any = None
) -> list[Row]:
    """Plan the trials of one lane; skipped if this run asks for none, or if the budget carries none."""
    changes = [event.extra for event in (triggering_asset_events or {}).get(provider_changed(provider), ())]
    watch = load().providers[provider].watch
    try:
        asked = asked_of(dag_run, params, datetime.now(timezone.utc), ti.bundle_instance.version, changes, watch.workloads)
    except SlotMissed as missed:
        raise AirflowSkipException(str(missed)) from None
    try:
        rows = steps.plan(provider, LANES[lane], asked, most=conf.getint("core", "max_map_length"))
    except BudgetReached as reached:
        raise AirflowSkipException(str(reached)) from None
    if not rows:
        raise AirflowSkipException(f"nothing of {lane} is asked of {provider} in this run")
    if watch.enabled:  # only now: a change that nobody measures, because the budget does not carry it, goes on waiting
        watched.planned(provider, asked, changes)
    return rows


def trial(provider: Provider, lane: Lane, spec: Any) -> None:
    """One trial: run it in the provider's pool, with the provider's limits, again if its failure is worth it; then collect it."""
    _launched(provider, lane, spec) >> collect.override(**collect_settings(provider))(spec=spec)


def _launched(provider: Provider, lane: Lane, spec: Any) -> Any:
    settings = launch_settings(provider)
    if not isinstance(provider.launcher, KubernetesLauncher):
        return run.override(**settings)(spec=spec)
    # The cluster's client takes seconds to import: only where a cluster is declared.
    if lane.gang:
        from plumbline.launch.cluster.gang_operator import TrialGangOperator as Operator
    else:
        from plumbline.launch.cluster.pod_operator import TrialPodOperator as Operator
    return Operator(task_id="run", provider=provider, spec=spec, map_index_template="{{ task.spec['title'] }}", **settings)


@task(map_index_template=_TITLE)
def run(spec: Row) -> Row:
    """Run one trial; its failure raises after everything is stored."""
    with stopped_by_sigterm():
        return steps.run(spec)


@task(map_index_template=_TITLE, trigger_rule=TriggerRule.ALL_DONE)
def collect(spec: Row) -> Row:
    """A document for every attempt, also of a trial that failed. What its task left on a cluster is ended first."""
    return steps.collect(spec, settle=True)


@task(trigger_rule=TriggerRule.ALL_DONE_MIN_ONE_SUCCESS)
def validate(provider: str, lane: str, specs: list[Row]) -> list[Row]:
    """Verdicts on one lane's results as one table: only there can anyone see that one is missing."""
    return steps.validate(provider, lane, specs)


@task(map_index_template="{{ task.op_kwargs['checked']['title'] }}", **record_settings())
def record(checked: Row) -> Row:
    """Write one trial's attempts to the archive."""
    return steps.record(checked)


@task(outlets=[RESULTS], trigger_rule=TriggerRule.ALL_DONE)
def publish(provider: str, recorded: list[list[Row]], *, outlet_events: Any = None) -> None:
    """Tell the DAGs that wait for results what is there, also when one kind failed; skipped if nothing was recorded."""
    campaigns = {row["campaign_id"] for rows in recorded for row in rows or ()}
    if not campaigns:
        raise AirflowSkipException(f"nothing of {provider} was recorded in this run")
    outlet_events[RESULTS].extra = {"campaign_id": campaigns.pop(), "provider": provider}


def conclude() -> EmptyOperator:
    """The last task, whose state is the DAG run's: failed if one of our own steps failed, whatever was published."""
    return EmptyOperator(task_id="conclude", trigger_rule=TriggerRule.NONE_FAILED)
