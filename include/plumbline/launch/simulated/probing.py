"""What a probe of a simulated provider shows on a day: the level of its hardware, a little noise, and the drift that moves its probes."""

from __future__ import annotations

import math
import random
from datetime import datetime, timezone
from typing import get_args

from plumbline.declarations import Provider
from plumbline.declarations.simulation import Moving, Probe, SimulatedLauncher
from plumbline.launch.failures import BadDeclaration
from plumbline.launch.simulated.documents import VERSION
from plumbline.launch.simulated.hardware import UnknownHardware, hardware_of
from plumbline.launch.simulated.surroundings import facts_at
from plumbline.results import Environment, row
from plumbline.results.probe import ProbeDocument

_N = 30


def probed(provider: Provider, at: datetime) -> ProbeDocument:
    """The same declaration and the same time give the same figures. BadDeclaration for hardware that nothing is known of."""
    launcher = provider.launcher
    assert isinstance(launcher, SimulatedLauncher)
    try:
        has = hardware_of(provider)
    except UnknownHardware as unknown:
        raise BadDeclaration(str(unknown)) from unknown
    luck = random.Random(f"{launcher.seed}|{provider.name}|probe|{at.astimezone(timezone.utc).isoformat()}")
    node, noise = luck.randrange(launcher.nodes), launcher.noise_of("hardware").run
    figures = {"matmul_tflops": has.matmul, "memory_bandwidth": has.memory}
    rows = tuple(
        row(name, level / math.exp(_shift(launcher, name, at, node) + noise * luck.gauss(0, 1)), _N, phase="environment")
        for name, level in figures.items()
    )
    facts = {**facts_at(provider, at), "host.node": f"{provider.name}-node-{node}"}
    return ProbeDocument(harness_version=VERSION, taken_at=at, seconds=0.0, environment=Environment.of(facts), metrics=rows)


def _shift(launcher: SimulatedLauncher, name: str, at: datetime, node: int) -> float:
    """How much slower, as a logarithm, what is declared for that day makes a probe; a change for some workloads is one of the hardware too."""
    assert name in get_args(Probe)
    moving = [e for e in launcher.drift if isinstance(e, Moving) and e.concerns((e.workloads or ("",))[0], at)]
    return sum(event.shift(at, node) for event in moving if name in event.probes)
