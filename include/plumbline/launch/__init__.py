"""What a launcher is: how trials reach one provider, and what it reports about that provider."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from plumbline.declarations import Declarations, Provider, Trial
from plumbline.harness.launcher_protocol import ProgressLine
from plumbline.results import LaunchRecord, ResultStore, Scalar
from plumbline.results.document import ProbeDocument

OnProgress = Callable[[ProgressLine], None]
DISCOVERY_PATIENCE_S = 60.0
"""How long a cluster's API may not answer a daily check."""
# Of a process or of the place that it was given, not of the machine; a trial has others.
_PROCESS_FACTS = ("limits.", "container.", "setting.", "torch.threads", "cpu.usable", "numa.usable")


class PlanError(ValueError):
    """The request cannot be run. The message names what was requested and what there is."""


@dataclass(frozen=True)
class ProviderFacts:
    """A provider's facts without a trial.

    `nodes`: the flat, sorted facts of each node that a trial could run on (of one machine, one); None or absent: unknown. Empty if there
    is none now. `whole`: facts of the cluster as a whole. `notes`: what could not be observed and what to do about it, one line each.
    """

    nodes: tuple[Mapping[str, Scalar], ...]
    whole: Mapping[str, Scalar]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProbeSkipped:
    """No probe was made now, and why."""

    why: str


class Launcher(ABC):
    """How trials reach the providers of one kind of launcher; `launch.registry` knows the kinds."""

    operator: ClassVar[str | None] = None
    """`module:function` that makes the Airflow operator of a trial; None: `launch` runs inside a task."""

    @abstractmethod
    def launch(self, trial: Trial, store: ResultStore, on_progress: OnProgress | None = None) -> LaunchRecord:
        """Run one trial to its end and return what was seen of it from outside.

        Never raises for a trial that failed: its class is in the record. The first file stored is trial.json, the last is launch.json. An
        attempt in the store is never overwritten: the trial then runs as the next attempt. OSError if the store cannot be written; a trial
        that was running is ended all the same. PlanError where only Airflow's operator can run it.
        """

    def discover(self, provider: Provider, at: datetime, *, patience_s: float = DISCOVERY_PATIENCE_S) -> ProviderFacts:
        """The provider's facts now, without starting or computing anything there. `at`: the time for which a simulated provider is asked.

        Unreachable, BadDeclaration and ApiRefused as a launch on the cluster raises them.
        """
        return ProviderFacts((), {}, (f"{provider.name} cannot be observed without a trial",))

    def probe(self, declared: Declarations, provider: Provider, now: datetime, limit_s: float) -> ProbeDocument | ProbeSkipped:
        """Measure the provider's arithmetic and memory without a trial. `limit_s`: what does not fit into it is left out.

        A TrialFailure as a launch there raises it, ApiRefused if its cluster refuses; OSError if its result store does not answer.
        """
        return ProbeSkipped(f"{provider.name} has no hardware probe")


def machine_facts(seen: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The machine's own known facts among those that a process sees."""
    return {k: v for k, v in seen.items() if v is not None and not k.startswith(_PROCESS_FACTS) and k != "gpu.unknown_because"}
