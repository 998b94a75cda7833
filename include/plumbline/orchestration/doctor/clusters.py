"""What of ours is on the clusters of the enabled providers, as the hourly upkeep counted it."""

from __future__ import annotations

from collections.abc import Iterator

from plumbline.declarations import Declarations, KubernetesLauncher
from plumbline.launch.cluster import census
from plumbline.launch.cluster.doctor.line import Line, failed, ok, unknown


def pods(declared: Declarations | None) -> Iterator[Line]:
    """One for each cluster. No cluster is asked: one that does not answer would hold up every other line."""
    providers = list(declared.enabled_providers()) if declared else []
    for provider in (p for p in providers if isinstance(p.launcher, KubernetesLauncher)):
        check, counted = f"pods on {provider.name}", census.kept(provider.name)
        if counted is None:
            yield unknown(check, "not counted yet: `upkeep` counts hourly")
        elif counted.expired:
            yield failed(check, f"{counted}, counted {counted.utc}", f"`plumbline cluster sweep {provider.name}`")
        else:
            yield ok(check, f"{counted}, counted {counted.utc}")
