"""Tasks of the DAG `acceptance`."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator

from plumbline import workflows
from plumbline.airflow.retries import task
from plumbline.airflow.versions import UNPAUSED
from plumbline.declarations import load_in_force
from plumbline.workflows.plan import plan_runs

Row = dict[str, Any]
_POLL_S, _LIMIT = 30, timedelta(days=1)


@task
def choose(*, dag_run: Any = None, params: Any = None) -> list[Row]:
    """Plan the run of the provider's benchmark: one training on each node."""
    campaign = params["campaign"] or f"{dag_run.run_after.astimezone(timezone.utc):accept-%Y%m%d-%H%M%S}"
    declared = load_in_force()
    request = workflows.accept_nodes.plan_acceptance(
        declared,
        params["provider"],
        nodes=params["nodes"],
        workload=params["workload"],
        rounds=params["rounds"],
        campaign=campaign,
        now=datetime.now(timezone.utc),
    )
    return [
        {"trigger_dag_id": run.dag_id, "conf": run.conf, "trigger_run_id": f"acceptance_{dag_run.run_id}"}
        for run in plan_runs(declared, request, [params["provider"]])
    ]


def start(chosen: Any) -> Any:
    """Start the benchmark and wait for its end in the triggerer."""
    return TriggerDagRunOperator.partial(
        task_id="start",
        skip_when_already_exists=False,
        wait_for_completion=True,
        deferrable=True,
        poke_interval=_POLL_S,
        execution_timeout=_LIMIT,
        map_index_template="{{ task.trigger_dag_id }}",
        **UNPAUSED,
    ).expand_kwargs(chosen)


@task
def sheet(chosen: list[Row], *, params: Any = None) -> Row:
    """Judge the nodes and write the signed sheet; its file, and with the reasons the nodes to send back and those not measured. Repeating
    replaces the file."""
    campaign = chosen[0]["conf"]["campaign"]
    declared = load_in_force()
    place = declared.providers[params["provider"]]
    done, file = workflows.accept_nodes.write_kept_sheet(campaign, place, declared.references)
    return {"file": file, "send_back": done.why_returned, "not_measured": done.why_not_measured}
