"""Ids of Plumbline's DAGs. One prefix, declared in `airflow.yaml`, keeps them apart from other teams' DAGs in an Airflow that several share.

Every component that starts, links or watches a DAG takes its id from here; a process reads the prefix once."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pydantic import Field, ValidationError

from plumbline.declarations.base import Declared
from plumbline.declarations.installation import installation_paths
from plumbline.declarations.yaml_source import UnreadableYaml, read_yaml

FILE = "airflow.yaml"


class AirflowNames(Declared):
    """The file `airflow.yaml`: names in an Airflow that others use too."""

    dag_prefix: str = Field(
        "",
        pattern=r"^([a-z][a-z0-9_]{0,38}_)?$",
        description="start of every DAG id: a letter, letters, digits or _, and _ at the end, such as plumbline_; empty: none",
    )


@cache
def dag_prefix() -> str:
    """The prefix of this process; none if the file cannot be read, which `plumbline check` and the DAG files report."""
    names, problem = read_names(installation_paths().config)
    return "" if problem else names.dag_prefix


def read_names(config: Path) -> tuple[AirflowNames, str | None]:
    """The names that a folder of declarations gives, or why its file cannot be read."""
    file = config / FILE
    if not file.exists():
        return AirflowNames(), None
    try:
        return AirflowNames.model_validate(read_yaml(file)[0]), None
    except (UnreadableYaml, OSError, ValidationError) as error:
        return AirflowNames(), f"{file} cannot be read: {type(error).__name__}; `plumbline check` shows the field and the expected shape"


def in_shared_airflow() -> bool:
    """Whether the DAGs live in an Airflow that a team has already: `plumbline airflow init` writes the file there, our own servers have none."""
    return (installation_paths().config / FILE).exists()


def is_our_dag(of: str) -> bool:
    """Whether an id is of one of our DAGs."""
    return of in OUR_DAGS or of.startswith(dag_id(BENCHMARK))


def dag_id(name: str) -> str:
    """The id of one of our DAGs in this installation's Airflow."""
    return f"{dag_prefix()}{name}"


BENCHMARK = "benchmark_"
"""Of the benchmarks, before the name of their provider."""
ACCEPTANCE_DAG = dag_id("acceptance")
ACTION_DAG = dag_id("finding_action")
AVAILABILITY_DAG = dag_id("availability_watch")
DECISION_DAG = dag_id("baseline_decision")
LOG_DAG = dag_id("operations_log")
REPORT_DAG = dag_id("scorecard_report")
RERUN_DAG = dag_id("rerun")
REVIEW_DAG = dag_id("drift_review")
UPKEEP_DAG = dag_id("upkeep")
UPKEEP_DAILY_DAG = dag_id("upkeep_daily")
WATCH_DAG = dag_id("provider_watch")
OUR_DAGS = frozenset(
    (
        ACCEPTANCE_DAG,
        ACTION_DAG,
        AVAILABILITY_DAG,
        DECISION_DAG,
        LOG_DAG,
        REPORT_DAG,
        RERUN_DAG,
        REVIEW_DAG,
        UPKEEP_DAG,
        UPKEEP_DAILY_DAG,
        WATCH_DAG,
    )
)
"""All but the benchmarks."""
