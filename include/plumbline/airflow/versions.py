"""Airflow 3.1 to 3.3: every name that not all of them have, and what happens without it.

| since | name | before |
|---|---|---|
| 3.3 | `RetryPolicy` | Airflow's own retries; `retries.task` and `LaunchOperator` raise `AirflowFailException` for what a retry would meet again |
| 3.3 | on_kill of a trigger is called | a launch whose task a person ended goes on until `collect`, or until `upkeep` sweeps it past its deadline |
| 3.2 | `ti.get_dag` | `dag_state` answers None: a task cannot know whether a DAG is paused; the doctor and the pages can |
| 3.2 | `fail_when_dag_is_paused` | a run of a paused DAG waits until the DAG is unpaused |
| 3.2 | the run type of a run that the API server starts | its type is manual |
| 3.2 | `airflow.sdk.configuration`, exceptions and timetables in `airflow.sdk`, the bag of a bundle | the same object at its earlier place |

The human-in-the-loop operator and external views of plugins came with 3.1, which is why nothing older is supported.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import airflow

OLDEST, NEWEST = (3, 1), (3, 3)
"""First and last release line that the tests run (`make test-airflow`)."""
INSTALLED = tuple(int(part) for part in re.findall(r"\d+", airflow.__version__)[:2])

if INSTALLED < OLDEST:
    raise ImportError(
        f"Airflow {airflow.__version__} is installed; expected Airflow {'.'.join(map(str, OLDEST))} to {'.'.join(map(str, NEWEST))}, "
        "whose human-in-the-loop operator Plumbline's DAGs use"
    )

if TYPE_CHECKING or INSTALLED >= (3, 2):
    from airflow.sdk import AssetOrTimeSchedule, CronTriggerTimetable, MultipleCronTriggerTimetable
    from airflow.sdk.configuration import conf
    from airflow.sdk.exceptions import (
        AirflowFailException,
        AirflowNotFoundException,
        AirflowSkipException,
        AirflowTaskTimeout,
        TaskDeferralError,
        TaskDeferralTimeout,
    )
else:
    from airflow.configuration import conf
    from airflow.exceptions import (
        AirflowFailException,
        AirflowNotFoundException,
        AirflowSkipException,
        AirflowTaskTimeout,
        TaskDeferralError,
        TaskDeferralTimeout,
    )
    from airflow.timetables.assets import AssetOrTimeSchedule
    from airflow.timetables.trigger import CronTriggerTimetable, MultipleCronTriggerTimetable

if TYPE_CHECKING or INSTALLED >= (3, 3):
    from airflow.sdk import RetryDecision, RetryPolicy
else:
    RetryDecision, RetryPolicy = None, object

__all__ = [
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowSkipException",
    "AirflowTaskTimeout",
    "AssetOrTimeSchedule",
    "CronTriggerTimetable",
    "MultipleCronTriggerTimetable",
    "RetryDecision",
    "RetryPolicy",
    "TaskDeferralError",
    "TaskDeferralTimeout",
    "conf",
]

RETRY_POLICIES = INSTALLED >= (3, 3)
"""Whether Airflow asks a task's policy which errors to retry."""
TASKS_READ_DAGS = INSTALLED >= (3, 2)
"""Whether a task can read the state of a DAG."""
UNPAUSED: dict[str, Any] = {"fail_when_dag_is_paused": True} if TASKS_READ_DAGS else {}
"""Arguments with which a task that starts a run fails if the DAG is paused."""


def dag_state(ti: Any, dag_id: str) -> Any | None:
    """The DAG as the API answers a task, with is_paused and next_dagrun; None if this Airflow answers no such question.

    AirflowRuntimeError as of `ti.get_dag`."""
    return ti.get_dag(dag_id) if TASKS_READ_DAGS else None


def start_run(dag_id: str, *, run_type: Any, **arguments: Any) -> Any:
    """Start a run from within the API server, and return it; `arguments`: of `airflow.api.common.trigger_dag.trigger_dag`.

    The SDK starts runs from within a task only, and the REST API would need a login of the user's, so there is no public name."""
    from airflow.api.common.trigger_dag import trigger_dag

    return trigger_dag(dag_id, **({"run_type": run_type} if TASKS_READ_DAGS else {}), **arguments)


def parse_bundle(folder: Path, name: str) -> Any:
    """The bag of a bundle's DAG files, read as the DAG processor reads them; Airflow has no public name for that."""
    if INSTALLED >= (3, 2):
        from airflow.dag_processing.dagbag import BundleDagBag

        return BundleDagBag(dag_folder=str(folder), bundle_path=folder, bundle_name=name)
    from airflow.models.dagbag import BundleDagBag  # noqa: TID251 (parses files, opens no database)

    return BundleDagBag(dag_folder=str(folder), bundle_path=folder)


def as_scheduled(dag: Any) -> Any:
    """The DAG as the scheduler reads it, with the times of its clock."""
    if INSTALLED >= (3, 2):
        from airflow.serialization.serialized_objects import DagSerialization as Serialization
    else:
        from airflow.serialization.serialized_objects import SerializedDAG as Serialization
    return Serialization.from_dict(Serialization.to_dict(dag))
