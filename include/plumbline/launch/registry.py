"""The launcher of each kind that a provider can declare; other packages add kinds by the entry point group `plumbline.launchers`."""

from __future__ import annotations

from pkgutil import resolve_name

from plumbline.declarations import Provider
from plumbline.launch.launcher import Launcher

_LAUNCHERS = {
    "local": "plumbline.launch.local.process_launcher:ProcessLauncher",
    "endpoint": "plumbline.launch.endpoint:EndpointClientLauncher",
    "client_pod": "plumbline.launch.client_pod:ClientPods",
    "simulated": "plumbline.launch.simulated.launcher:SimulationLauncher",
    "kubernetes": "plumbline.launch.cluster.launcher:ClusterLauncher",
}


def launcher_for(provider: Provider) -> Launcher:
    """The launcher of the provider's kind, imported when it is first needed."""
    launcher: Launcher = resolve_name(_LAUNCHERS.get(provider.launcher.kind, provider.launcher.implementation))()
    return launcher
