"""Launcher of endpoints whose client is a pod at another provider."""

from __future__ import annotations

from plumbline.declarations import Trial
from plumbline.launch.cluster.launcher import ClusterLauncher
from plumbline.launch.endpoint import EndpointClientLauncher
from plumbline.launch.launcher import OnProgress
from plumbline.results import LaunchRecord, ResultStore


class ClientPods(EndpointClientLauncher):
    """Trials are pods that Airflow launches; what is asked without a trial is asked of the endpoint, from here."""

    operator = ClusterLauncher.operator

    def launch(self, trial: Trial, store: ResultStore, on_progress: OnProgress | None = None) -> LaunchRecord:
        return ClusterLauncher().launch(trial, store, on_progress)
