"""The environment of a simulated trial: what the probes of a real one would find, as declared, with the driver changes in force."""

from __future__ import annotations

from datetime import datetime

from plumbline.declarations import Provider
from plumbline.declarations.simulation import DriverChange, SimulatedLauncher
from plumbline.launch.simulated.model import Draw
from plumbline.results import Environment, Scalar

_GIB = 2**30
_HOST: dict[str, Scalar] = {
    "cpu.model": "Simulated CPU",
    "host.virtualization": "none",
    "os.kernel": "6.8.0-60-generic",
    "os.name": "Ubuntu 24.04 LTS",
    "python.version": "3.12.3",
    "torch.version": "2.13.0",
}
_GPU: dict[str, Scalar] = {
    "cpu.logical": 128,
    "cpu.usable": 112,
    "memory.total_bytes": 2048 * _GIB,
    "cuda.version": "12.8",
    "cudnn.version": "9.10.2",
    "driver.version": "570.86.15",
    "nccl.version": "2.26.2",
    "container.kind": "kubernetes",
    "kubernetes.version": "v1.32.4",
}


def environment_of(draw: Draw) -> Environment:
    """The facts of this trial: the accelerator's usual ones, then the declared, then what driver changes made of them."""
    provider = draw.trial.provider
    launcher = provider.launcher
    assert isinstance(launcher, SimulatedLauncher)
    return Environment.of({**_usual(provider), "host.node": draw.node_name(draw.node), **launcher.environment, **draw.facts()})


def facts_at(provider: Provider, at: datetime) -> dict[str, Scalar]:
    """The same without a trial: what every node shows on that day, also of changes that are declared for some workloads only."""
    launcher = provider.launcher
    assert isinstance(launcher, SimulatedLauncher)
    facts = {**_usual(provider), **launcher.environment}
    for event in launcher.drift:
        if isinstance(event, DriverChange) and event.concerns((event.workloads or ("",))[0], at):
            facts |= event.facts
    return facts


def _usual(provider: Provider) -> dict[str, Scalar]:
    return {**_HOST, **_hardware(provider), "host.instance_type": provider.instance_type}


def _hardware(provider: Provider) -> dict[str, Scalar]:
    has = provider.accelerator
    if has.kind == "cpu":
        return {"cpu.logical": has.count, "cpu.usable": has.count, "memory.total_bytes": 4 * has.count * _GIB, "gpu.count": 0}
    facts: dict[str, Scalar] = {**_GPU, "gpu.count": has.count, "gpu.vendor": has.kind}
    return facts | {f"gpu.{i}.product": has.product for i in range(has.count)}
