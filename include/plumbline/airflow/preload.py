"""Imports what tasks need before Airflow's services fork: without it each task and each parse of a DAG file imports it again."""

from __future__ import annotations

import sys
from importlib import import_module
from pkgutil import resolve_name
from typing import Any

from airflow.configuration import conf
from airflow.listeners import hookimpl

MODULES = (
    "airflow.sdk.definitions.connection",
    "airflow.sdk.execution_time.cache",
    "airflow.sdk.execution_time.supervisor",
    "airflow.sdk.execution_time.task_runner",
    "plumbline.archive.declarations_keeper",
    "plumbline.airflow.every_format",
    "plumbline.airflow.dags.benchmark",
    "plumbline.airflow.params",
    "plumbline.airflow.tasks.benchmark",
    "plumbline.launch.archive_connection",
    "plumbline.workflows.plan_trials",
    "plumbline.workflows.run",
    "plumbline.workflows.record",
)
LOCAL = ("plumbline.quality.data_docs", "plumbline.workflows.report")
"""Of a scheduler that runs the tasks itself: Great Expectations takes 4 s of CPU and 170 MiB."""


@hookimpl  # type: ignore[untyped-decorator]
def on_starting(component: Any) -> None:
    """A scheduler, DAG processor or triggerer begins. Celery's workers have a list of their own: `imports` in k8s/airflow/values.yaml."""
    # Here, not above: each command of Airflow imports this module.
    runs_tasks = "scheduler" in sys.argv and conf.get("core", "executor") == "LocalExecutor"
    for name in (*MODULES, *(LOCAL if runs_tasks else ())):
        import_module(name)
    from plumbline.declarations import load_in_force
    from plumbline.launch.registry import launcher_for

    for provider in load_in_force().enabled_providers():
        if operator := launcher_for(provider).operator:
            resolve_name(operator)
