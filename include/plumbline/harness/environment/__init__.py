"""Everything that could explain a change and is not the workload, as flat facts with dotted names.

Facts are stable: probing the same machine twice gives the same hash. So nothing here tells of load, time, process ids,
host names or free memory. None is a fact too: it was looked for and is not there.
"""

from __future__ import annotations

from plumbline.harness.environment import accelerator, container, cpu, host, limits, software
from plumbline.results import Scalar


def probe() -> dict[str, Scalar]:
    """The facts of this process's surroundings, sorted by name."""
    found: dict[str, Scalar] = {}
    for part in (cpu.facts(), host.facts(), limits.facts(), software.facts(), container.facts(), accelerator.facts()):
        found |= part
    return dict(sorted(found.items()))
