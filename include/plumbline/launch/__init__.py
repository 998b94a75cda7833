"""What a launcher is: how trials reach one provider, and what it reports about that provider."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from plumbline.declarations import KubernetesLauncher, LocalLauncher, Provider, SimulatedLauncher, Trial, installation_paths
from plumbline.harness.launcher_protocol import ProgressLine
from plumbline.results import LaunchRecord, ResultStore, Scalar

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
    from plumbline.launch.local.process_launcher import ProcessLauncher

    return ProcessLauncher()


def _endpoint() -> Launcher:
    from plumbline.launch.endpoint import EndpointClientLauncher

    return EndpointClientLauncher()


def _simulated() -> Launcher:
    from plumbline.launch.simulated.launcher import SimulationLauncher

    return SimulationLauncher()


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


DISCOVERY_PATIENCE_S = 60.0
"""How long a cluster's API may not answer; the next look is a day away at most."""
# Of a process or of the place that it was given, not of the machine; a trial has others.
_PROCESS_FACTS = ("limits.", "container.", "setting.", "torch.threads", "cpu.usable", "numa.usable")


@dataclass(frozen=True)
class ProviderFacts:
    """`nodes`: the flat, sorted facts of each node that a trial could run on (of one machine, one); None or absent: not told. Empty if there
    is none now. `whole`: facts of the cluster as a whole. `notes`: what could not be seen and what to do about it, one line each.
    """

    nodes: tuple[Mapping[str, Scalar], ...]
    whole: Mapping[str, Scalar]
    notes: tuple[str, ...] = ()


def discover(provider: Provider, at: datetime, *, patience_s: float = DISCOVERY_PATIENCE_S) -> ProviderFacts:
    """Look once. `at`: the time for which a simulated provider is asked; any other shows what is now.

    Nothing is started there and nothing computed; on a machine of ours a trial that runs is not disturbed: it has to wait for the next look.
    Unreachable, BadDeclaration and Refused as a launch on the cluster would raise them.
    """
    launcher = provider.launcher
    if isinstance(launcher, KubernetesLauncher):
        from plumbline.launch.cluster.observe import node_inventory

        return node_inventory.discover_nodes(provider, launcher, patience_s=patience_s)
    if isinstance(launcher, SimulatedLauncher):
        from plumbline.launch.simulated.launcher import simulated_facts

        return ProviderFacts(({k: v for k, v in sorted(simulated_facts(provider, at).items()) if v is not None},), {})
    if isinstance(launcher, LocalLauncher):
        return _discover_local(launcher.machine)
    return ProviderFacts(
        (), {}, (f"{provider.name} is hosted behind an URL, which shows nothing of what answers there: only a trial tells",)
    )


def _discover_local(machine: str) -> ProviderFacts:
    from plumbline.harness.environment import collect_facts
    from plumbline.launch.local.machine_access import MachineBusy, machine_lock

    try:
        with machine_lock(machine, "a look at the machine", installation_paths().work, 0.0, lambda _: None):
            seen = collect_facts()
    except MachineBusy as busy:
        return ProviderFacts((), {}, (f"not looked at: {busy}",))
    unknown = seen.get("gpu.unknown_because")
    notes = (f"nobody could look at the GPUs: {unknown}",) if unknown else ()
    return ProviderFacts((machine_facts(seen),), {}, notes)


def machine_facts(seen: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Of what a process saw around it, the facts that are the machine's own and that it was told."""
    return {k: v for k, v in seen.items() if v is not None and not k.startswith(_PROCESS_FACTS) and k != "gpu.unknown_because"}
