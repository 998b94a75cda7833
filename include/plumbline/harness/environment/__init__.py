"""Facts that could explain a change and are not the workload, flat, with dotted names.

Stable: probing a machine twice gives the same hash, so no load, time, process id, host name or free memory. None: looked for and absent."""

from __future__ import annotations

from collections.abc import Mapping

from plumbline.declarations import Provider, installation_paths
from plumbline.harness.environment import amd, container, cpu, host, nvidia, software
from plumbline.harness.environment.nvidia import product_name
from plumbline.results import Scalar


def collect_facts() -> dict[str, Scalar]:
    facts: dict[str, Scalar] = {}
    parts = [
        cpu.cpu_facts(),
        host.host_facts(),
        container.limit_facts(),
        host.disk_facts(installation_paths().work),
        host.network_facts(),
        host.fabric_facts(),
        software.software_facts(),
        container.container_facts(),
    ]
    gpus = nvidia.nvidia_facts()
    for part in [*parts, gpus, {} if gpus["gpu.count"] else amd.amd_facts()]:
        facts |= part
    return dict(sorted(facts.items()))


def accelerator_mismatch(provider: Provider, requested: int | None, facts: Mapping[str, Scalar]) -> str | None:
    """Why the accelerators differ from the declared ones; None if they do not.

    `requested`: accelerators of the trial; None: all of the node's. Fewer cores than declared are an environment fact; a missing GPU is an error,
    because no figure means anything without it."""
    declared = provider.accelerator
    if provider.launcher.hosted:
        return None
    count_wanted = requested if requested is not None and provider.launcher.runs_pods else declared.count
    if declared.kind == "cpu":
        return None
    expected = f"{provider.name} declares {declared.count} × {declared.product or declared.kind}"
    if count_wanted < declared.count:
        expected += f", of which the trial requests {count_wanted}"
    count = facts.get("gpu.count")
    if not isinstance(count, int):
        return f"{expected}, but they cannot be queried: {facts.get('gpu.unknown_because')}"
    if count < count_wanted:
        return f"{expected}, but {count} {'is' if count == 1 else 'are'} visible here"
    vendor = facts.get("gpu.vendor")
    if vendor not in (None, declared.kind):
        return f"{expected}, but the GPUs here are {vendor}'s"
    if declared.product is not None:
        products = [str(facts.get(f"gpu.{i}.product")) for i in range(count_wanted)]
        others = sorted({name for name in products if name != product_name(declared.product)})
        if others:
            return f"{expected}, but here is {', '.join(others)}"
    return None
