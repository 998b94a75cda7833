"""Where a harness stands in a job, by its environment."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.fakes.trials import a_trial, cluster_provider, local_provider

from plumbline.declarations import Trial, criteria_hash, spec_hash
from plumbline.harness.environment.cpu import cpu_limit
from plumbline.harness.gang.topology import Address, InvalidTopology, Topology, topology_of
from plumbline.harness.training.plan import CoreShare, share_cores

MET = {"PLUMBLINE_RENDEZVOUS": "gang-0.gang:29400"}


def gang(nodes: int, processes: int = 1) -> Trial:
    planned = a_trial("training")
    data: dict[str, Any] = json.loads(planned.workload.model_dump_json())
    data |= {"parallelism": {"nodes": nodes, "processes": processes}, "needs": {"accelerator": "cpu", "count": processes}}
    workload = type(planned.workload).model_validate_json(json.dumps(data))
    hashes = {"spec_hash": spec_hash(workload), "criteria_hash": criteria_hash(workload, planned.validity)}
    return planned.model_copy(update={"workload": workload, **hashes})


@pytest.mark.parametrize(
    ("variables", "node"),
    [
        ({}, 0),
        ({"PLUMBLINE_NODE_RANK": "2"}, 2),
        ({"JOB_COMPLETION_INDEX": "1"}, 1),
        ({"PLUMBLINE_NODE_RANK": "3", "JOB_COMPLETION_INDEX": "1"}, 3),
    ],
)
def test_the_node_is_the_one_the_launcher_names(variables: dict[str, str], node: int) -> None:
    place = topology_of(gang(4, 2), variables | MET)
    assert place == Topology(node, 4, 2, Address("gang-0.gang", 29400))
    assert (place.world, list(place.ranks)) == (8, [2 * node, 2 * node + 1])


def test_one_node_meets_nobody_and_asks_for_nothing() -> None:
    assert topology_of(gang(1, 2), {"JOB_COMPLETION_INDEX": "5"}) == Topology(0, 1, 2, None)
    assert topology_of(a_trial("inference"), {"PLUMBLINE_NODE_RANK": "5"}) == Topology(0, 1, 1, None)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"PLUMBLINE_NODE_RANK": "4", **MET}, "PLUMBLINE_NODE_RANK is '4'; expected this node's number, 0 to 3, of a job of 4 nodes"),
        ({"JOB_COMPLETION_INDEX": "x", **MET}, "JOB_COMPLETION_INDEX is 'x'; expected this node's number"),
        ({}, "PLUMBLINE_RENDEZVOUS is not set; expected where the 4 nodes meet node 0, such as trial-0.trial:29400"),
        ({"PLUMBLINE_RENDEZVOUS": "gang-0.gang"}, "PLUMBLINE_RENDEZVOUS is 'gang-0.gang'; expected where"),
        ({"PLUMBLINE_RENDEZVOUS": "gang-0.gang:99999"}, "PLUMBLINE_RENDEZVOUS is 'gang-0.gang:99999'; expected where"),
    ],
)
def test_what_cannot_be_is_refused(variables: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidTopology) as caught:
        topology_of(gang(4), variables)
    assert str(caught.value).startswith(message)


def test_an_address_of_numbers_only() -> None:
    assert topology_of(gang(2), {"PLUMBLINE_RENDEZVOUS": "[fd00::1]:29400"}).rendezvous == Address("fd00::1", 29400)


def test_the_limit_of_a_pod() -> None:
    assert (cpu_limit({}), cpu_limit({"PLUMBLINE_CPU_LIMIT": "4"})) == (None, 4)
    with pytest.raises(ValueError, match=r"^PLUMBLINE_CPU_LIMIT is '500m'"):
        cpu_limit({"PLUMBLINE_CPU_LIMIT": "500m"})


@pytest.mark.parametrize(
    ("cores", "limit", "processes", "device", "expected"),
    [
        ((0, 1), None, 1, "cpu", [CoreShare(2, None, bind=True)]),
        ((0, 1), 2, 1, "cpu", [CoreShare(2, None, bind=True)]),
        ((0, 1, 2, 3), 1, 1, "cpu", [CoreShare(1, None, bind=False)]),
        ((0, 1), None, 2, "cpu", [CoreShare(1, (0,), bind=True), CoreShare(1, (1,), bind=True)]),
        ((4, 5, 6, 7, 8), None, 2, "cpu", [CoreShare(2, (4, 5), bind=True), CoreShare(2, (6, 7), bind=True)]),
        ((0, 1), None, 3, "cpu", [CoreShare(1, (0,), bind=True), CoreShare(1, (1,), bind=True), CoreShare(1, (0,), bind=True)]),
        (range(16), 4, 2, "cpu", [CoreShare(2, None, bind=False)] * 2),
        (range(16), None, 4, "cuda", [CoreShare(4, None, bind=False)] * 4),
        (range(2), None, 4, "cuda", [CoreShare(1, None, bind=False)] * 4),
        (range(16), None, 1, "cuda", [CoreShare(16, None, bind=False)]),
    ],
)
def test_how_cores_are_shared(cores: Any, limit: int | None, processes: int, device: str, expected: list[CoreShare]) -> None:
    assert share_cores(tuple(cores), limit, processes, binds=device == "cpu") == tuple(expected)


def test_nodes_wait_as_long_as_the_last_pod_may_take_to_get_a_node_and_to_start() -> None:
    assert cluster_provider(schedule_timeout="1h", startup_timeout="7min").launcher.gang_assembly_s == 4020
    assert local_provider().launcher.gang_assembly_s == 120
