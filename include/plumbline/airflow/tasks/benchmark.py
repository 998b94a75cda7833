"""Tasks of the benchmark DAGs and of the rerun. A failed trial fails only its `run` task; a failed step fails the DAG run."""

from __future__ import annotations

from datetime import datetime, timezone
from pkgutil import resolve_name
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import TriggerRule

from plumbline import workflows
from plumbline.airflow.defaults import LANE_LIMIT, PLAN_WEIGHT, found_elsewhere, launch_settings
from plumbline.airflow.retries import request_of, task
from plumbline.airflow.schedules import RESULTS, extras, provider_changed
from plumbline.airflow.signed_requests import for_a_person, require_starter
from plumbline.airflow.versions import UNPAUSED, AirflowSkipException, conf
from plumbline.declarations import Provider, load_in_force
from plumbline.launch.plan import RunRequest
from plumbline.launch.registry import launcher_for
from plumbline.workflows.plan import RERUN_DAG, TRIAL_GROUPS, SlotMissed, TrialGroup, on_demand_campaign_id, plan_runs, run_parameters

Row = dict[str, Any]


@task(priority_weight=PLAN_WEIGHT, weight_rule="absolute")
def plan(
    provider: str, lane: str, *, dag_run: Any = None, params: Any = None, ti: Any = None, triggering_asset_events: Any = None
) -> list[Row]:
    """Plan the trials of one lane. Skipped if the run has none of this lane or the budget permits none."""
    changes = extras(triggering_asset_events, provider_changed(provider))
    watch = load_in_force().providers[provider].watch
    try:
        request = run_parameters(dag_run, params, datetime.now(timezone.utc), ti.bundle_instance.version, changes, watch.workloads)
    except SlotMissed as missed:
        raise AirflowSkipException(str(missed)) from None
    try:
        rows = workflows.plan_trials.plan_trials(provider, TRIAL_GROUPS[lane], request, most=conf.getint("core", "max_map_length"))
    except workflows.budget.BudgetReached as reached:
        raise AirflowSkipException(str(reached)) from None
    if not rows:
        raise AirflowSkipException(f"this run has no {lane} trials on {provider}")
    if watch.enabled:  # only now: a change that the budget does not permit to measure stays pending
        workflows.pending_changes.record_run(provider, request, changes)
    return rows


def trial(provider: Provider, lane: TrialGroup, spec: Any) -> Any:
    """Run one trial in the provider's pool, with its limits and retries."""
    settings = launch_settings(provider)
    operator = launcher_for(provider).operator
    if operator is None:
        return run.override(**settings)(spec=spec)
    # Only for clusters: their client takes seconds to import.
    make = resolve_name(operator)(gang=lane.gang)
    return make(task_id="run", provider=provider, spec=spec, map_index_template="{{ task.spec['title'] }}", **settings)


@task(launches=True, map_index_template="{{ task.op_kwargs['spec']['title'] }}")
@found_elsewhere
def run(spec: Row, *, ti: Any = None) -> Row:
    """Run and collect one trial. A failure raises after everything is stored."""
    with workflows.run.stopped_by_sigterm():
        return workflows.run.run_trial(spec, request_of(ti))


@task(trigger_rule=TriggerRule.ALL_DONE_MIN_ONE_SUCCESS, execution_timeout=LANE_LIMIT)
def collect(specs: list[Row]) -> None:
    """Collect what the lane's own tasks left: of failed trials, and of tasks that were ended. Leftovers on a cluster are deleted first."""
    workflows.collect.collect_group(specs)


@task(trigger_rule=TriggerRule.ALL_DONE_MIN_ONE_SUCCESS)
def validate(provider: str, lane: str, specs: list[Row]) -> list[Row]:
    """Check one lane's results as one table, so that missing ones show."""
    return workflows.validate.validate_group(provider, lane, specs)


@task(execution_timeout=LANE_LIMIT)
def record(checked: list[Row], *, ti: Any = None) -> None:
    """Write the attempts of a lane's trials to the archive."""
    outcome = workflows.record.record_group(checked)
    # Before it fails: `publish` starts the review of the trials that are recorded.
    ti.xcom_push("return_value", outcome.done)
    outcome.require_all()


@task(outlets=[RESULTS], trigger_rule=TriggerRule.ALL_DONE)
def publish(provider: str, recorded: list[list[Row]], *, outlet_events: Any = None) -> None:
    """Publish the results to waiting DAGs, also if one lane failed. Skipped if nothing was recorded."""
    campaigns = {row["campaign_id"] for rows in recorded for row in rows or ()}
    if not campaigns:
        raise AirflowSkipException(f"this run recorded no result of {provider}")
    outlet_events[RESULTS].extra = {"campaign_id": campaigns.pop(), "provider": provider}


def conclude() -> EmptyOperator:
    """The last task, whose state is the DAG run's: failed if one of our own steps failed."""
    return EmptyOperator(task_id="conclude", trigger_rule=TriggerRule.NONE_FAILED)


@task
def choose(*, dag_run: Any = None, params: Any = None) -> list[Row]:
    """Plan the runs of the chosen providers. Fails before any of them starts if the form, or a page's signed request in it, does not fit.

    Another DAG may start this one, as it may start each benchmark; then the reruns are in no person's name.
    """
    by = require_starter(dag_run, RERUN_DAG).name if for_a_person(dag_run) else "Airflow"
    request = RunRequest(
        campaign_id=params["campaign"] or on_demand_campaign_id(dag_run.run_after),
        reason=params["reason"],
        workloads=tuple(params["workloads"]) or None,
        kinds=tuple(params["kinds"]) or None,
        repeats=params["repeats"],
    )
    planned = plan_runs(load_in_force(), request, params["providers"])
    workflows.plan_trials.note_rerun(request, params["providers"], by, dag_run.run_id)
    return [
        # The same id in each try, so that no run starts twice.
        {"trigger_dag_id": start.dag_id, "conf": start.conf, "trigger_run_id": f"rerun_{dag_run.run_id}"}
        for start in planned
    ]


def start(chosen: Any) -> Any:
    """Start each benchmark. A paused one fails, as its run would wait; the others start."""
    return TriggerDagRunOperator.partial(
        task_id="start",
        skip_when_already_exists=True,
        map_index_template="{{ task.trigger_dag_id }}",
        **UNPAUSED,
    ).expand_kwargs(chosen)
