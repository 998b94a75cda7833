"""Delete what launches left at a provider past their deadline, and count what remains."""

from __future__ import annotations

import logging

from plumbline.declarations import load_in_force
from plumbline.launch.leftovers import store_leftovers, stored_leftovers
from plumbline.launch.registry import launcher_for

_log = logging.getLogger(__name__)


def cluster_providers() -> list[str]:
    """Those enabled whose trials outlast a task, and those disabled that still had something of ours at the last count."""
    providers = (p for p in load_in_force().providers.values() if p.launcher.outlasts_task)
    return [p.name for p in providers if p.enabled or ((left := stored_leftovers(p.name)) is not None and left.total)]


def sweep_cluster(provider: str) -> list[str]:
    """Delete leftovers of launches at the provider past their deadline, and return them; counts what remains."""
    declared = load_in_force().providers[provider]
    launcher = launcher_for(declared)
    deleted = launcher.sweep(declared)
    left = launcher.leftovers(declared)
    if left is not None:
        store_leftovers(provider, left)
        _log.info("%s has %s", provider, left)
    return deleted
