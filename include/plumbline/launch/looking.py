"""What a provider shows without a trial, whatever launches there: facts named as those of a trial's environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from plumbline.declarations import KubernetesLauncher, LocalLauncher, Provider, SimulatedLauncher, places
from plumbline.results import Scalar

PATIENCE_S = 60.0
"""How long a cluster's API may not answer; the next look is a day away at most."""
# Of a process or of the place that it was given, not of the machine; a trial has others.
_OF_A_PROCESS = ("limits.", "container.", "setting.", "torch.threads", "cpu.usable", "numa.usable")


@dataclass(frozen=True)
class Look:
    """`nodes`: the flat, sorted facts of each node that a trial could run on (of one machine, one); None or absent: not told. Empty if there
    is none now. `whole`: facts of the cluster as a whole. `notes`: what could not be seen and what to do about it, one line each.
    """

    nodes: tuple[Mapping[str, Scalar], ...]
    whole: Mapping[str, Scalar]
    notes: tuple[str, ...] = ()


def look(provider: Provider, at: datetime, *, patience_s: float = PATIENCE_S) -> Look:
    """Look once. `at`: the time for which a simulated provider is asked; any other shows what is now.

    Nothing is started there and nothing computed; on a machine of ours a trial that runs is not disturbed: it has to wait for the next look.
    Unreachable, BadDeclaration and Refused as a launch on the cluster would raise them.
    """
    launcher = provider.launcher
    if isinstance(launcher, KubernetesLauncher):
        from plumbline.launch.cluster import facts

        return facts.look(provider, launcher, patience_s=patience_s)
    if isinstance(launcher, SimulatedLauncher):
        from plumbline.launch.simulated.surroundings import facts_at

        return Look(({k: v for k, v in sorted(facts_at(provider, at).items()) if v is not None},), {})
    if isinstance(launcher, LocalLauncher):
        return _this_machine(launcher.machine)
    return Look((), {}, (f"{provider.name} is hosted behind an URL, which shows nothing of what answers there: only a trial tells",))


def _this_machine(machine: str) -> Look:
    from plumbline.harness.environment import probe
    from plumbline.launch.machine_lock import MachineBusy, machine_lock

    try:
        with machine_lock(machine, "a look at the machine", places().work, 0.0, lambda _: None):
            seen = probe()
    except MachineBusy as busy:
        return Look((), {}, (f"not looked at: {busy}",))
    unknown = seen.get("gpu.unknown_because")
    notes = (f"nobody could look at the GPUs: {unknown}",) if unknown else ()
    return Look((of_the_machine(seen),), {}, notes)


def of_the_machine(seen: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Of what a process saw around it, the facts that are the machine's own and that it was told."""
    return {k: v for k, v in seen.items() if v is not None and not k.startswith(_OF_A_PROCESS) and k != "gpu.unknown_because"}
