"""Everything that could explain a change and is not the workload, as flat facts with dotted names.

Facts are stable: probing the same machine twice gives the same hash. So nothing here tells of load, time, process ids,
host names or free memory. None is a fact too: it was looked for and is not there.
"""

from __future__ import annotations

from plumbline.declarations import places
from plumbline.harness.environment import accelerator, amd, container, cpu, disk, fabric, host, limits, network, software
from plumbline.results import Scalar


def probe() -> dict[str, Scalar]:
    """The facts of this process's surroundings, sorted by name."""
    found: dict[str, Scalar] = {}
    parts = [
        cpu.facts(),
        host.facts(),
        limits.facts(),
        disk.facts(places().work),
        network.facts(),
        fabric.facts(),
        software.facts(),
        container.facts(),
    ]
    gpus = accelerator.facts()
    for part in [*parts, gpus, {} if gpus["gpu.count"] else amd.facts()]:
        found |= part
    return dict(sorted(found.items()))
