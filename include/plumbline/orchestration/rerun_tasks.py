"""The tasks that start several providers on demand: each hands over to plain code and no more."""

from __future__ import annotations

from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import task

from plumbline.declarations import load
from plumbline.orchestration import triggering
from plumbline.orchestration.asked import Asked, campaign_of

Row = dict[str, Any]


@task
def choose(*, dag_run: Any = None, params: Any = None) -> list[Row]:
    """The runs of the providers' benchmarks that answer the form; fails with what is wrong before any of them starts."""
    asked = Asked(
        campaign_id=params["campaign"] or campaign_of(dag_run.run_after),
        reason=params["reason"],
        workloads=tuple(params["workloads"]) or None,
        kinds=tuple(params["kinds"]) or None,
        repeats=params["repeats"],
    )
    return [
        # The same id when the task that starts it is tried again: what was started is not started twice.
        {"trigger_dag_id": start.dag_id, "conf": start.conf, "trigger_run_id": f"rerun_{dag_run.run_id}"}
        for start in triggering.starts(load(), asked, params["providers"])
    ]


def start(chosen: Any) -> Any:
    """Start the benchmarks, each by itself: a paused one, whose run would wait unseen, is red, and the others go on."""
    return TriggerDagRunOperator.partial(
        task_id="start",
        fail_when_dag_is_paused=True,
        skip_when_already_exists=True,
        map_index_template="{{ task.trigger_dag_id }}",
    ).expand_kwargs(chosen)
