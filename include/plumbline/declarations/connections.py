"""Airflow connections by who reads them."""

from __future__ import annotations

from plumbline.declarations.loader import Declarations
from plumbline.declarations.providers.launcher_base import WatchKind

_KINDS: tuple[WatchKind, ...] = ("uptime", "capacity")


def needed_by_triggerer(declared: Declarations) -> dict[str, list[str]]:
    """Connection → enabled providers whose pods or availability checks the triggerer reaches by it; a store's connection is the worker's."""
    needed: dict[str, list[str]] = {}
    for provider in declared.enabled_providers():
        if provider.launcher.runs_pods or any(provider.watch.of(kind) for kind in _KINDS):
            for name in provider.launcher.connections[:1]:
                needed.setdefault(name, []).append(provider.name)
    return needed
