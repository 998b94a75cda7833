"""The Airflow pools that keep trials apart: one for each physical machine or provider."""

from __future__ import annotations

from collections.abc import Iterable

from plumbline.declarations import DeclarationError, KubernetesLauncher, Provider, SimulatedLauncher, enabled_providers, places
from plumbline.orchestration.airflow_client import AirflowClient

DESCRIPTION = "trials that must not measure each other, or exceed a quota; made by Plumbline"


def create_pools(client: AirflowClient, providers: Iterable[Provider]) -> list[str]:
    """Create the pools of these providers, or mend their size; returns their names. A task without its pool would never start."""
    slots = slots_of(providers)
    for name, number in slots.items():
        client.put_pool(name, number, DESCRIPTION)
    return list(slots)


class PoolKeeper:
    """Makes the pools of providers that are enabled while Airflow runs, as soon as their declarations change."""

    def __init__(self) -> None:
        self._seen = self._state()

    def refresh(self, client: AirflowClient) -> list[str]:
        """The names of the pools that were made again; empty if no declaration changed, or while one cannot be read."""
        if (now := self._state()) == self._seen:
            return []
        try:
            providers = enabled_providers()
        except DeclarationError:
            return []
        new = [name for name in slots_of(providers) if not client.has_pool(name)]
        create_pools(client, providers)
        self._seen = now
        return new

    @staticmethod
    def _state() -> tuple[tuple[str, int], ...]:
        here = places()
        folders = (here.config / "providers", here.generated_providers)
        return tuple(sorted((str(file), file.stat().st_mtime_ns) for folder in folders for file in folder.glob("*.yaml")))


def slots_of(providers: Iterable[Provider]) -> dict[str, int]:
    """Pool to its number of slots, by name."""
    slots: dict[str, int] = {}
    for provider in providers:
        slots[provider.pool] = max(slots.get(provider.pool, 1), _trials_at_a_time(provider))
    return dict(sorted(slots.items()))


def _trials_at_a_time(provider: Provider) -> int:
    # On one machine two trials measure each other; on a cluster each has its own GPUs, as many as the quota allows; nothing runs for simulated ones.
    return provider.launcher.parallel if isinstance(provider.launcher, KubernetesLauncher | SimulatedLauncher) else 1
