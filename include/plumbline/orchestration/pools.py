"""The Airflow pools that keep trials apart: one for each physical machine or provider."""

from __future__ import annotations

from collections.abc import Iterable

from plumbline.declarations import Provider
from plumbline.orchestration.airflow_client import AirflowClient


def create_pools(client: AirflowClient, providers: Iterable[Provider]) -> list[str]:
    """Create the pools of these providers, or mend their size; returns their names. A task without its pool would never start."""
    names = sorted({provider.pool for provider in providers})
    for name in names:
        # One slot: two trials on one machine measure each other.
        client.put_pool(name, 1, "trials that must not overlap; made by Plumbline")
    return names
