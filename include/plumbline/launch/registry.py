"""The launcher that a provider's declaration names; other packages add kinds by the entry point group `plumbline.launchers`."""

from __future__ import annotations

from pkgutil import resolve_name

from plumbline.declarations import Provider
from plumbline.launch.launcher import Launcher


def launcher_for(provider: Provider) -> Launcher:
    """The launcher of the provider's kind, imported when it is first needed."""
    launcher: Launcher = resolve_name(provider.launcher.implementation)()
    return launcher
