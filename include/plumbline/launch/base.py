"""What a launcher is, and which one drives a provider."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from plumbline.declarations import Provider, Trial
from plumbline.harness.progress import ProgressLine
from plumbline.results import LaunchRecord, ResultStore

OnProgress = Callable[[ProgressLine], None]


class PlanError(ValueError):
    """What was asked for cannot be run. The message names what was asked and what there is."""


class Launcher(Protocol):
    """How a trial gets to a provider."""

    def launch(self, trial: Trial, store: ResultStore, on_progress: OnProgress | None = None) -> LaunchRecord:
        """Run one trial to its end and return what the outside saw of it.

        Never raises for a trial that failed: its class is in the record. The first thing stored is trial.json, the last is
        launch.json. An attempt that the store already holds is never overwritten: the trial then runs as the next attempt.
        """
        ...


def _local() -> Launcher:
    from plumbline.launch.local import LocalLauncher

    return LocalLauncher()


def _endpoint() -> Launcher:
    from plumbline.launch.endpoint import EndpointLauncher

    return EndpointLauncher()


def _simulated() -> Launcher:
    from plumbline.launch.simulated import SimulatedLauncher

    return SimulatedLauncher()


_LAUNCHERS: dict[str, Callable[[], Launcher]] = {"local": _local, "endpoint": _endpoint, "simulated": _simulated}
# These wait in Airflow's triggerer instead (launch.cluster): a pod's hours must not hang on one process.
_BY_AIRFLOW = frozenset({"kubernetes"})


def launcher_for(provider: Provider) -> Launcher:
    """The launcher that runs a trial of the provider within this process; PlanError if Airflow must do it."""
    kind = provider.launcher.kind
    if kind in _BY_AIRFLOW:
        raise PlanError(
            f'trials on "{provider.name}" ({kind}) are launched and watched by Airflow: run `plumbline run --provider {provider.name}`, '
            f"or trigger the DAG {provider.dag_id}"
        )
    return _LAUNCHERS[kind]()
