"""The tasks of the upkeep: each hands over to a step and no more."""

from __future__ import annotations

from airflow.sdk import task
from airflow.sdk.exceptions import AirflowSkipException

from plumbline.orchestration import review, steps
from plumbline.orchestration.silence import look_for_silence


@task
def clusters() -> list[str]:
    """The enabled providers that are clusters; skipped if there is none."""
    # Read when it runs, not when it is parsed: a broken declaration is one import error of the benchmarks, not one of every DAG file.
    found = steps.clusters()
    if not found:
        raise AirflowSkipException("no enabled provider is a cluster")
    return found


@task(map_index_template="{{ task.op_kwargs['provider'] }}")
def sweep(provider: str) -> list[str]:
    """Delete what outlived every deadline on one provider's cluster."""
    return steps.sweep(provider)


@task
def silence() -> list[str]:
    """Findings about series that left nothing in this month's campaign; people are told of new ones at once."""
    found = look_for_silence()
    if found:
        review.alert()
    return found
