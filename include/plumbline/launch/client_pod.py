"""Launcher of endpoints whose client is a pod at another provider."""

from __future__ import annotations

from datetime import datetime

from plumbline.declarations import Declarations, Provider
from plumbline.launch.cluster.launcher import ClusterLauncher
from plumbline.launch.endpoint import EndpointClientLauncher
from plumbline.launch.launcher import DISCOVERY_PATIENCE_S, ProbeSkipped, ProviderFacts
from plumbline.results.probe_document import ProbeDocument


class ClientPods(ClusterLauncher):
    """Trials are pods of a cluster; what is asked without a trial is asked of the endpoint, from here."""

    _endpoint = EndpointClientLauncher()

    def discover(self, provider: Provider, at: datetime, *, patience_s: float = DISCOVERY_PATIENCE_S) -> ProviderFacts:
        return self._endpoint.discover(provider, at, patience_s=patience_s)

    def probe(self, declared: Declarations, provider: Provider, now: datetime, limit_s: float) -> ProbeDocument | ProbeSkipped:
        return self._endpoint.probe(declared, provider, now, limit_s)

    def check_uptime(self, declared: Declarations, provider: Provider, now: datetime) -> float:
        return self._endpoint.check_uptime(declared, provider, now)

    def ask_capacity(self, declared: Declarations, provider: Provider, now: datetime) -> float | None:
        return self._endpoint.ask_capacity(declared, provider, now)
