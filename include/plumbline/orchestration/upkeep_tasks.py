"""The tasks of the upkeep: each hands over to a step and no more."""

from __future__ import annotations

from airflow.sdk import task

from plumbline.orchestration import steps


@task(map_index_template="{{ task.op_kwargs['provider'] }}")
def sweep(provider: str) -> list[str]:
    """Delete what outlived every deadline on one provider's cluster."""
    return steps.sweep(provider)
