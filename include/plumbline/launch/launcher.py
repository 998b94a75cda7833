"""The launcher interface: how trials reach a provider, and its facts and probe without a trial."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from plumbline.declarations import Declarations, Provider, Trial
from plumbline.harness.launcher_protocol import ProgressLine
from plumbline.launch.failures import BadDeclaration
from plumbline.results import LaunchRecord, ResultStore, Scalar
from plumbline.results.probe_document import ProbeDocument

OnProgress = Callable[[ProgressLine], None]
DISCOVERY_PATIENCE_S = 60.0
"""Seconds that a daily check waits for a cluster's API."""
# Facts of a process and its limits, not of the machine; a trial has others.
_PROCESS_FACTS = ("limits.", "container.", "setting.", "torch.threads", "cpu.usable", "numa.usable")


@dataclass(frozen=True)
class ProviderFacts:
    """A provider's facts without a trial.

    `nodes`: the flat, sorted facts of each node that a trial could use now; an unknown fact is None or absent. `whole`: facts of the whole
    cluster. `notes`: what could not be observed, and the remedy, one line each. `names`: of the nodes that a trial could be placed on.
    """

    nodes: tuple[Mapping[str, Scalar], ...]
    whole: Mapping[str, Scalar]
    notes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProbeSkipped:
    """The reason why no probe ran now."""

    why: str


class Launcher(ABC):
    """How trials reach the providers of one kind of launcher; `launch.registry` knows the kinds."""

    operator: ClassVar[str | None] = None
    """`module:function` that makes the Airflow operator of a trial; None: `launch` runs inside a task."""

    @abstractmethod
    def launch(self, trial: Trial, store: ResultStore, on_progress: OnProgress | None = None) -> LaunchRecord:
        """Run one trial to its end; the record of what was observed from outside.

        A failed trial raises nothing: its class is in the record. The first file stored is trial.json, the last is launch.json. An attempt
        in the store is never overwritten: the trial then runs as the next attempt. OSError if the store cannot be written, after a running
        trial was ended. PlanError where only Airflow's operator can run it.
        """

    def discover(self, provider: Provider, at: datetime, *, patience_s: float = DISCOVERY_PATIENCE_S) -> ProviderFacts:
        """The provider's facts, without starting anything there. `at`: the time, for a simulated provider.

        Unreachable, BadDeclaration and ApiRefused as a launch on the cluster raises them.
        """
        return ProviderFacts((), {}, (f"{provider.name} cannot be observed without a trial",))

    def probe(self, declared: Declarations, provider: Provider, now: datetime, limit_s: float) -> ProbeDocument | ProbeSkipped:
        """Measure the provider's arithmetic and memory without a trial; skip what `limit_s` leaves no time for.

        TrialFailure as of a launch; ApiRefused if its cluster refuses; OSError if its result store does not answer.
        """
        return ProbeSkipped(f"{provider.name} has no hardware probe")

    def check_uptime(self, declared: Declarations, provider: Provider, now: datetime) -> float:
        """Seconds to an answer: to the first byte of a model's, or to the list of a cluster's nodes. TrialFailure of the class of a miss;
        InMaintenance where it is neither an answer nor a miss."""
        raise BadDeclaration(f"the uptime of {provider.name} cannot be watched: launcher.kind is {provider.launcher.kind}")

    def ask_capacity(self, declared: Declarations, provider: Provider, now: datetime) -> float | None:
        """Seconds to a running node with the accelerators of `watch.capacity`, which are left at once; None where only the API is asked.

        TrialFailure of the class of a miss; ApiRefused if the cluster refuses.
        """
        raise BadDeclaration(f"the capacity of {provider.name} cannot be watched: launcher.kind is {provider.launcher.kind}")


def machine_facts(facts: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The machine's own facts among those that a process sees."""
    return {k: v for k, v in facts.items() if v is not None and not k.startswith(_PROCESS_FACTS) and k != "gpu.unknown_because"}
