"""The other nodes of a server as node 0 sees them; they speak over real connections."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.fakes.trials import a_trial

from plumbline.harness.gang.channel import Channel, connect
from plumbline.harness.gang.coordinator import gang_identity
from plumbline.harness.gang.topology import Address, Topology
from plumbline.harness.inference.server.nodes import ServingNodes
from plumbline.harness.measurement import TrialFailed

TRIAL = a_trial("inference")
LEADER = Address("127.0.0.1", 4711)
FAILED: dict[str, Any] = {"failure_class": "server_error", "detail": "vllm ended", "certain": True, "passing": False}


@pytest.fixture
def topology() -> Topology:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return Topology(0, 2, 1, Address("127.0.0.1", server.getsockname()[1]))


@pytest.fixture
def nodes(topology: Topology) -> Iterator[ServingNodes]:
    with ServingNodes(TRIAL, topology) as made:
        yield made


@pytest.fixture
def other(topology: Topology, nodes: ServingNodes) -> Iterator[Channel]:
    """Node 1, joined."""
    assert topology.rendezvous is not None
    link = connect(topology.rendezvous, 5, lambda why: None)
    link.send("hello", node=1, name="pod-1", trial=gang_identity(TRIAL))
    link.send("joined", data=TRIAL.spec_hash, port=29)
    nodes.gather(10, TRIAL.spec_hash, lambda note: None)
    yield link
    link.close()


def until(nodes: ServingNodes, condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        nodes.receive()


def test_the_model_is_the_same_on_all_nodes(nodes: ServingNodes, other: Channel) -> None:
    other.send("prepared", manifest="m", facts={"engine.vllm": "0.32.0"})
    nodes.await_prepared("m", lambda note: None)
    assert nodes.facts == {1: {"engine.vllm": "0.32.0"}}
    with pytest.raises(TrialFailed, match=r"node 1 \(pod-1\).*files"):
        nodes.await_prepared("n", lambda note: None)


def test_a_node_that_cannot_fetch_the_model_is_named(nodes: ServingNodes, other: Channel) -> None:
    other.send("failed", **FAILED | {"failure_class": "unreachable", "detail": "no answer"})
    with pytest.raises(TrialFailed, match=r"node 1 \(pod-1\): no answer") as caught:
        nodes.await_prepared("m", lambda note: None)
    assert caught.value.failure_class == "unreachable"


def test_a_part_that_ends_after_it_was_released_is_no_failure(nodes: ServingNodes, other: Channel) -> None:
    nodes.start(LEADER)
    nodes.release()
    other.send("failed", **FAILED, start=1)
    other.send("stopped", log="ended\n")
    nodes.await_stopped()
    assert (nodes.failure(), nodes.logs) == (None, {1: "ended\n"})
    nodes.start(LEADER)
    other.send("failed", **FAILED, start=3)
    until(nodes, nodes.failure)


@pytest.mark.parametrize(
    ("leader_ended_first", "failure_class", "begins"),
    [
        (False, "out_of_memory", "node 1 (pod-1): vllm ended; node 0: no answer"),
        (True, "server_error", "node 0: no answer; then node 1 (pod-1)"),
    ],
)
def test_the_first_part_that_ended_gives_the_class(
    nodes: ServingNodes, other: Channel, leader_ended_first: bool, failure_class: str, begins: str
) -> None:
    nodes.start(LEADER)
    nodes.leader_ended_first = leader_ended_first
    other.send("failed", **FAILED | {"failure_class": "out_of_memory"}, start=1)
    found = nodes.explained(TrialFailed("server_error", "no answer"))
    assert found.failure_class == failure_class
    assert found.detail.startswith(begins)


def test_both_ends_are_told_where_the_first_is_not_known(nodes: ServingNodes, other: Channel) -> None:
    nodes.start(LEADER)
    nodes.leader_end = "vllm was ended by signal 9"
    other.send("failed", **FAILED, start=1)
    found = nodes.explained(TrialFailed("server_error", "node 1 (pod-1): vllm ended"))
    assert found.detail == "node 1 (pod-1): vllm ended; node 0: vllm was ended by signal 9"


def test_a_node_that_is_gone_is_not_waited_for(nodes: ServingNodes, other: Channel) -> None:
    nodes.start(LEADER)
    other.close()
    until(nodes, nodes.failure)
    began = time.monotonic()
    nodes.release()
    nodes.await_stopped()
    found = nodes.explained(TrialFailed("server_error", "no answer"))
    assert time.monotonic() - began < 5
    assert found.failure_class == "interrupted"
