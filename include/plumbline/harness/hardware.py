"""Whether the machine is what the provider's declaration says. Fewer cores than declared are not an error but an environment
fact: drift detection finds them. A missing GPU is: nothing that is measured without it means anything."""

from __future__ import annotations

from collections.abc import Mapping

from plumbline.declarations import EndpointLauncher, KubernetesLauncher, Provider
from plumbline.harness.environment.accelerator import product
from plumbline.results import Scalar


def mismatch(provider: Provider, asked: int | None, facts: Mapping[str, Scalar]) -> str | None:
    """What is wrong with the accelerators of the probed environment, in a sentence; None if they are as declared.

    `asked`: accelerators that the trial holds; None: all of the node's. A pod sees just these, a process on the provider's machine sees all that are declared.
    """
    declared = provider.accelerator
    if isinstance(provider.launcher, EndpointLauncher):
        return None  # nobody but the provider can see what the model runs on
    count_wanted = asked if asked is not None and isinstance(provider.launcher, KubernetesLauncher) else declared.count
    if declared.kind == "cpu":
        return None
    wanted = f"{provider.name} declares {declared.count} × {declared.product or declared.kind}"
    if count_wanted < declared.count:
        wanted += f", of which the trial asked for {count_wanted}"
    count = facts.get("gpu.count")
    if not isinstance(count, int):
        return f"{wanted}, but nobody could look: {facts.get('gpu.unknown_because')}"
    if count < count_wanted:
        return f"{wanted}, but {count} {'is' if count == 1 else 'are'} visible here"
    vendor = facts.get("gpu.vendor")
    if vendor not in (None, declared.kind):
        return f"{wanted}, but the GPUs here are {vendor}'s"
    if declared.product is not None:
        found = [str(facts.get(f"gpu.{i}.product")) for i in range(count_wanted)]
        others = sorted({name for name in found if name != product(declared.product)})
        if others:
            return f"{wanted}, but here is {', '.join(others)}"
    return None
