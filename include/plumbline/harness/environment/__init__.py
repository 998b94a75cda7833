"""Facts that could explain a change and are not the workload, flat, with dotted names.

Stable: probing a machine twice gives the same hash, so no load, time, process id, host name or free memory. None: looked for and absent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from plumbline.declarations import installation_paths
from plumbline.declarations.devices import part_of_card
from plumbline.harness.environment import amd, container, cpu, disk, host, network, nvidia, software
from plumbline.harness.environment.container import locked_memory_shortage
from plumbline.harness.environment.cuda import open_fault, require_driver
from plumbline.harness.environment.nvidia import product_name, serial_numbers
from plumbline.harness.measurement import TrialFailed, TrialJudgement, degraded
from plumbline.results import FailureClass, Scalar

if TYPE_CHECKING:
    from plumbline.declarations import Provider

__all__ = [
    "accelerator_mismatch",
    "collect_facts",
    "locked_memory_shortage",
    "open_fault",
    "product_name",
    "require_driver",
    "serial_numbers",
]


def collect_facts() -> dict[str, Scalar]:
    facts: dict[str, Scalar] = {}
    parts = [
        cpu.cpu_facts(),
        host.host_facts(),
        container.limit_facts(),
        disk.disk_facts(installation_paths().work),
        network.network_facts(),
        network.fabric_facts(),
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
    count_wanted = requested if requested is not None and provider.launcher.runs_pods else declared.count
    if declared.kind == "cpu":
        return None
    expected = f"{provider.name} declares {declared.count} × {declared.product or declared.kind}"
    if count_wanted < declared.count:
        expected += f", of which the trial requests {count_wanted}"
    count, vendor = facts.get("gpu.count"), facts.get("gpu.vendor")
    if not isinstance(count, int):
        return f"{expected}, but they cannot be queried: {facts.get('gpu.unknown_because')}"
    if count < count_wanted:
        why = "; ".join([*lost_gpus(facts), *([str(hidden)] if (hidden := facts.get("gpu.hidden_because")) else [])])
        return f"{expected}, but {count} {'is' if count == 1 else 'are'} visible here{f': {why}' if why else ''}"
    if vendor not in (None, declared.kind):
        return f"{expected}, but the GPUs here are {vendor}'s"
    gpus = described_gpus(facts)[:count_wanted]
    parts = {str(part): facts.get(f"gpu.{i}.product") for i in gpus if (part := facts.get(f"gpu.{i}.slice")) is not None}
    if parts and part_of_card(declared.product) is None:
        part, product = next(iter(parts.items()))
        return (
            f"{expected}, but here is a part of a card: {part}; select nodes with whole cards, or declare accelerator.product: {product} to "
            "measure such parts"
        )
    if declared.product is not None:
        # A driver shows a shared card as a whole one, and what it cannot name is unknown: neither is another product.
        wanted = product_name(declared.product).removesuffix("-SHARED")
        others = sorted({str(name) for i in gpus if (name := facts.get(f"gpu.{i}.product")) not in (None, wanted)})
        if others:
            return f"{expected}, but here is {', '.join(others)}"
    return None


def check_accelerators(provider: Provider, requested: int | None, facts: Mapping[str, Scalar]) -> None:
    """Raises TrialFailed where they differ from the declared ones: `provider_fault` if one is lost, `bad_declaration` if a variable of ours hides
    them, else `wrong_hardware`."""
    wrong = accelerator_mismatch(provider, requested, facts)
    if wrong is not None:
        hidden: FailureClass = "bad_declaration" if facts.get("gpu.hidden_because") else "wrong_hardware"
        raise TrialFailed("provider_fault" if lost_gpus(facts) else hidden, wrong)


def described_gpus(facts: Mapping[str, Scalar]) -> list[int]:
    """Numbers of the GPUs that answered, by the facts of a machine."""
    return sorted(int(name.split(".")[1]) for name in facts if re.fullmatch(r"gpu\.\d+\.product", name))


def lost_gpus(facts: Mapping[str, Scalar]) -> list[str]:
    """Lost GPUs as text, such as `GPU 3 of 8 is lost (GPU is lost; reset or replace the GPU)`."""
    lost = {name.split(".")[1]: why for name, why in facts.items() if re.fullmatch(r"gpu\.\d+\.lost", name)}
    total = len(lost) + len(described_gpus(facts))
    return [f"GPU {number} of {total} is lost ({why})" for number, why in lost.items()]


def hardware_judgements(facts: Mapping[str, Scalar], node: int = 0) -> list[TrialJudgement]:
    """`degraded` for what was wrong with a machine's GPUs before the trial began: a power limit below the card's default, a PCIe link with fewer
    lanes than it can have, NVLinks that are down, a lost card, a product that the driver cannot name. `node`: of a gang."""
    of = f" of node {node}" if node else ""

    def value(gpu: int, name: str) -> float | None:
        found = facts.get(f"gpu.{gpu}.{name}")
        return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None

    judgements = [degraded("gpu_lost", f"{line}{of}") for line in lost_gpus(facts)]
    gpus = described_gpus(facts)
    for gpu in gpus:
        limit, default = value(gpu, "power_limit_w"), value(gpu, "power_limit_default_w")
        width, widest = value(gpu, "pcie_width"), value(gpu, "pcie_width_max")
        links, down = value(gpu, "nvlink_active") or 0.0, value(gpu, "nvlink_down")
        if limit is not None and default is not None and limit < default:
            judgements.append(
                degraded("power_limit_lowered", f"GPU {gpu}{of} has a power limit of {limit:g} W; its default is {default:g} W")
            )
        if width is not None and widest is not None and width < widest:
            judgements.append(degraded("pcie_link_narrow", f"GPU {gpu}{of} has {width:g} PCIe lanes of {widest:g}; reseat or replace it"))
        if down and (links or len(gpus) > 1):  # a virtual machine with one GPU of a board has no use for them
            judgements.append(
                degraded("nvlink_down", f"GPU {gpu}{of} has {links:g} NVLinks up of {links + down:g}; start the fabric manager")
            )
        if facts.get(f"gpu.{gpu}.product") is None:
            judgements.append(
                degraded("gpu_unnamed", f"the driver does not name GPU {gpu}{of}, so nothing compares it with the declaration")
            )
    return judgements
