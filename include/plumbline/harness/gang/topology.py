"""A harness's place among the nodes of a trial, by its environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plumbline.declarations import Trial

NODE_RANK_VARIABLE, JOB_INDEX_VARIABLE, RENDEZVOUS_VARIABLE = "PLUMBLINE_NODE_RANK", "JOB_COMPLETION_INDEX", "PLUMBLINE_RENDEZVOUS"


class InvalidTopology(ValueError):
    """The environment has no valid node number or rendezvous; the message names the variable and the expected value."""


@dataclass(frozen=True)
class Address:
    """Where node 0 can be reached."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Topology:
    """Node `node` of `nodes`, with `processes` ranks of a training on each. `rendezvous`: None on a single node."""

    node: int
    nodes: int
    processes: int
    rendezvous: Address | None

    @property
    def world(self) -> int:
        return self.nodes * self.processes

    @property
    def ranks(self) -> range:
        return range(self.node * self.processes, (self.node + 1) * self.processes)


def topology_of(trial: Trial, variables: Mapping[str, str]) -> Topology:
    """The topology for a harness with these environment variables. Raises InvalidTopology."""
    workload = trial.workload
    nodes, processes = workload.nodes, workload.started_processes if workload.kind == "training" else 1
    if nodes == 1:
        return Topology(0, 1, processes, None)
    name = NODE_RANK_VARIABLE if NODE_RANK_VARIABLE in variables else JOB_INDEX_VARIABLE
    value = variables.get(name, "0")
    if not re.fullmatch(r"\d{1,4}", value) or int(value) >= nodes:
        raise InvalidTopology(f"{name} is {value!r}; expected this node's number, 0 to {nodes - 1}, of a job of {nodes} nodes")
    return Topology(int(value), nodes, processes, _parse_address(variables.get(RENDEZVOUS_VARIABLE), nodes))


def _parse_address(text: str | None, nodes: int) -> Address:
    host, _, port = (text or "").rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 1 << 16:
        problem = "is not set" if text is None else f"is {text!r}"
        raise InvalidTopology(f"{RENDEZVOUS_VARIABLE} {problem}; expected where the {nodes} nodes meet node 0, such as trial-0.trial:29400")
    return Address(host.strip("[]"), int(port))
