"""The launcher interface: how trials reach a provider and what they leave there; its facts, probe and checks without a trial."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from plumbline.declarations import Declarations, Provider, Trial
from plumbline.harness.launcher_protocol import ProgressLine
from plumbline.launch.doctor_check import DoctorCheck, skipped
from plumbline.launch.failures import BadDeclaration
from plumbline.launch.leftovers import Leftovers
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


@dataclass(frozen=True)
class PatchedField:
    """A field of what a launch creates that the provider's own patch sets. `known`: the place has such a field, else it would be dropped."""

    provider: str
    field: str
    before: Any
    after: Any
    known: bool


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

    def settle(self, spec: Mapping[str, str]) -> list[str]:
        """End and record the launches that a trial's ended task left unrecorded; their names. `spec`: the trial's {campaign_id, trial_id}.

        None by default: what `launch` starts ends with its task. OSError if a store cannot be reached.
        """
        return []

    def sweep(self, provider: Provider, campaign_id: str | None = None) -> list[str]:
        """Delete what outlived its launch at the provider, or all launches of a campaign; what was deleted.

        Unreachable and BadDeclaration as of a launch; ApiRefused after everything else was swept. LookupError without such a campaign.
        """
        return []

    def leftovers(self, provider: Provider) -> Leftovers | None:
        """What is at the provider now; None where nothing outlasts its task. Unreachable, BadDeclaration, ApiRefused."""
        return None

    def fresh_node(self, trial: Trial, used: Collection[str]) -> Trial:
        """The trial as one that keeps off the nodes `used`. BadDeclaration where a provider has one place only."""
        if not trial.provider.launcher.chooses_nodes and not trial.provider.simulated:
            raise BadDeclaration(f"{trial.provider.name} has one place only; expected a provider that can choose among nodes")
        return trial.model_copy(update={"placement": "fresh_node", "avoid_nodes": tuple(used)})

    def doctor(
        self, declared: Declarations, provider: Provider, now: datetime, *, start: bool = True, accelerators: bool = True
    ) -> Iterator[DoctorCheck]:
        """Check the provider as a launch would use it, one check at a time; leaves nothing behind. `start`: also start what a trial starts, with
        its `accelerators`."""
        yield skipped(
            "launcher", f"no checks of its own for launcher.kind {provider.launcher.kind}: `plumbline doctor` checks this machine"
        )

    def patched_fields(self, declared: Declarations, provider: Provider, now: datetime) -> list[PatchedField]:
        """What the declaration's own patch changes of a typical trial; none where a declaration has no patch."""
        return []

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
