"""Where this harness stands in a job of several ranks: which node, which ranks, where the nodes meet, which cores each rank gets.

A rank is one training process. Ranks are numbered node by node: node n of `processes` each has n·processes … n·processes + processes - 1.
Standard library only: nothing is measured here, and everything follows from the workload and the environment variables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plumbline.declarations import Provider, Trial

NODE_RANK, JOB_INDEX, RENDEZVOUS = "PLUMBLINE_NODE_RANK", "JOB_COMPLETION_INDEX", "PLUMBLINE_RENDEZVOUS"
_LOCAL_PATIENCE_S = 120.0


class BadPlace(ValueError):
    """The environment does not say where this harness stands; the message names the variable and what it should hold."""


@dataclass(frozen=True)
class Address:
    """Where node 0 can be reached."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Place:
    """Node `node` of `nodes`, with `processes` ranks on each. `rendezvous` is there if there is more than one node."""

    node: int
    nodes: int
    processes: int
    rendezvous: Address | None

    @property
    def world(self) -> int:
        """Ranks in all."""
        return self.nodes * self.processes

    @property
    def ranks(self) -> range:
        """The ranks of this node."""
        return range(self.node * self.processes, (self.node + 1) * self.processes)


@dataclass(frozen=True)
class Share:
    """What one rank gets of the node's cores: how many threads, and which cores if they are its own (`bind`: each thread stays on one)."""

    threads: int
    cores: tuple[int, ...] | None
    bind: bool


def place_of(trial: Trial, variables: Mapping[str, str]) -> Place:
    """Where a harness with these environment variables stands in the trial; node 0 of one for anything but training over several nodes.

    Raises BadPlace.
    """
    workload = trial.workload
    if workload.kind != "training":
        return Place(0, 1, 1, None)
    job = workload.parallelism
    if job.nodes == 1:
        return Place(0, 1, job.processes, None)
    name = NODE_RANK if NODE_RANK in variables else JOB_INDEX
    value = variables.get(name, "0")
    if not re.fullmatch(r"\d{1,4}", value) or int(value) >= job.nodes:
        raise BadPlace(f"{name} is {value!r}; expected this node's number, 0 to {job.nodes - 1}, of a job of {job.nodes} nodes")
    return Place(int(value), job.nodes, job.processes, _address(variables.get(RENDEZVOUS), job.nodes))


def _address(text: str | None, nodes: int) -> Address:
    host, _, port = (text or "").rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 1 << 16:
        said = "is not set" if text is None else f"is {text!r}"
        raise BadPlace(f"{RENDEZVOUS} {said}; expected where the {nodes} nodes meet node 0, such as trial-0.trial:29400")
    return Address(host.strip("[]"), int(port))


def shares(cores: Sequence[int], limit: int | None, processes: int, device: str) -> tuple[Share, ...]:
    """How the usable `cores` of a node are shared by its ranks.

    One rank on cores of its own takes them all and binds a thread to each. Several ranks on a CPU take equal parts: bound without
    parts they would all sit on the first core. Where a limit gives fewer cores' worth of time than there are cores, these are shared
    with others, who would be bound to the same ones: nothing is bound then. Beside a GPU, which core is near it is the kernel's to find.
    """
    if limit is not None and limit < len(cores):
        return (Share(max(limit // processes, 1), None, bind=False),) * processes
    if processes == 1:
        return (Share(len(cores), None, bind=True),)
    if device != "cpu":
        return (Share(max(len(cores) // processes, 1), None, bind=False),) * processes
    if processes > len(cores):
        return tuple(Share(1, (cores[i % len(cores)],), bind=True) for i in range(processes))
    each = len(cores) // processes
    return tuple(Share(each, tuple(cores[i * each : (i + 1) * each]), bind=True) for i in range(processes))


def patience_s(provider: Provider) -> float:
    """How long nodes wait for each other: as long as the provider may take to find a node for the last of them and to start its pod.

    The launcher ends a gang that is not complete in time, and knows what was missing: a node that gave up earlier would hide it.
    """
    launcher = provider.launcher
    return launcher.schedule_timeout + launcher.startup_timeout if launcher.kind == "kubernetes" else _LOCAL_PATIENCE_S
