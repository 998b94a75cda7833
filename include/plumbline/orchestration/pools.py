"""The Airflow pools that keep trials apart: one for each physical machine or provider."""

from __future__ import annotations

from collections.abc import Iterable

from plumbline.declarations import KubernetesLauncher, Provider, SimulatedLauncher
from plumbline.orchestration.airflow_client import AirflowClient

DESCRIPTION = "trials that must not measure each other, or exceed a quota; made by Plumbline"


def create_pools(client: AirflowClient, providers: Iterable[Provider]) -> list[str]:
    """Create the pools of these providers, or mend their size; returns their names. A task without its pool would never start."""
    slots = slots_of(providers)
    for name, number in slots.items():
        client.put_pool(name, number, DESCRIPTION)
    return list(slots)


def slots_of(providers: Iterable[Provider]) -> dict[str, int]:
    """Pool to its number of slots, by name."""
    slots: dict[str, int] = {}
    for provider in providers:
        slots[provider.pool] = max(slots.get(provider.pool, 1), _trials_at_a_time(provider))
    return dict(sorted(slots.items()))


def _trials_at_a_time(provider: Provider) -> int:
    # On one machine two trials measure each other; on a cluster each has its own GPUs, as many as the quota allows; nothing runs for simulated ones.
    return provider.launcher.parallel if isinstance(provider.launcher, KubernetesLauncher | SimulatedLauncher) else 1
