"""Launcher for Kubernetes clusters: Airflow's operator and triggerer watch the pods, so that no single process must live for hours."""

from __future__ import annotations

from datetime import datetime

from plumbline.declarations import Declarations, Provider, Trial
from plumbline.launch import DISCOVERY_PATIENCE_S, Launcher, OnProgress, PlanError, ProbeSkipped, ProviderFacts
from plumbline.launch.cluster.names import cluster_declaration
from plumbline.launch.cluster.observe import node_inventory
from plumbline.launch.cluster.operate import hardware_probe
from plumbline.results import LaunchRecord, ResultStore
from plumbline.results.document import ProbeDocument


class ClusterLauncher(Launcher):
    operator = "plumbline.airflow.operators:operator_for"

    def launch(self, trial: Trial, store: ResultStore, on_progress: OnProgress | None = None) -> LaunchRecord:
        provider = trial.provider
        raise PlanError(
            f'Airflow launches the trials of "{provider.name}" ({provider.launcher.kind}): run '
            f"`plumbline run --provider {provider.name}`, or trigger the DAG {provider.dag_id}"
        )

    def discover(self, provider: Provider, at: datetime, *, patience_s: float = DISCOVERY_PATIENCE_S) -> ProviderFacts:
        return node_inventory.discover_nodes(provider, cluster_declaration(provider), patience_s=patience_s)

    def probe(self, declared: Declarations, provider: Provider, now: datetime, limit_s: float) -> ProbeDocument | ProbeSkipped:
        return hardware_probe.probe_cluster(declared, provider, cluster_declaration(provider), now, limit_s)
