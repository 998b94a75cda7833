"""Several pods train or serve one model together, and end together."""

from __future__ import annotations

import pytest
from tests.cluster.declared import GANG_2, GANG_4, ONE, SCRIPT_GANG
from tests.cluster.test_failures import recorded
from tests.cluster.world import World

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]


def room(e2e: World) -> int:
    """Cores that the cluster's nodes offer in all: a pod of a gang takes one."""
    return sum(int(node["status"]["allocatable"]["cpu"].removesuffix("m")) for node in e2e.cluster.nodes())


@pytest.mark.parametrize(("workload", "pods"), [(GANG_2, 2), pytest.param(GANG_4, 4, marks=pytest.mark.full)])
def test_a_gang_trains_together_and_leaves_nothing(e2e: World, workload: str, pods: int) -> None:
    if room(e2e) < pods:
        pytest.skip(f"the cluster has {room(e2e)} cores for {pods} pods")
    run = e2e.ended(e2e.start(ONE, [workload], workload))
    assert run.state == "success", e2e.explain(run)
    (document,) = recorded(ONE, workload)
    assert document.validity.status in ("valid", "degraded"), e2e.explain(run) or document.validity
    assert document.environment is not None
    assert document.environment.facts["training.world_size"] == pods
    # Between the pods beside within one of them.
    for metric in ("all_reduce_bus_bandwidth", "inter_node_all_reduce_bus_bandwidth", "inter_node_all_reduce_algorithm_bandwidth"):
        assert document.value(metric, phase="environment"), [row for row in document.metrics if row.metric == metric]
    assert document.environment.facts["network.inter_node_transport"] == "gloo over TCP"
    at = {event.name: event.monotonic_s for event in document.timeline}
    speed = next(row for row in document.metrics if (row.metric, row.phase, row.statistic) == ("tokens_per_second", "steady", "mean"))
    tokens = 16 * 64 * pods * speed.n  # a step of a pod is 16 sequences of 64
    assert speed.value == pytest.approx(tokens / (at["steady_ended"] - at["steady_begun"]), rel=0.005)
    assert document.launch is not None
    assert [pod.rank for pod in document.launch.pods] == list(range(pods))
    for pod in document.launch.pods:
        assert {"scheduled", "started", "finished"} <= {event.name for event in pod.events}, pod
    assert e2e.cluster.leftovers(e2e.namespace(ONE)) == []


@pytest.mark.full
@pytest.mark.parametrize("workload", [GANG_2, SCRIPT_GANG])
def test_one_pod_killed_ends_the_gang_with_its_class(e2e: World, workload: str) -> None:
    namespace, campaign = e2e.namespace(ONE), f"{workload}-kill"
    run = e2e.start(ONE, [workload], campaign)
    pods = e2e.cluster.measuring(namespace, workload, 2)
    last = max(pod["metadata"]["name"] for pod in pods)
    e2e.cluster.core.delete_namespaced_pod(last, namespace, grace_period_seconds=0)
    e2e.ended(run)
    first, *again = recorded(ONE, campaign)
    assert first.validity.failure_class == "interrupted", first.validity
    assert first.launch is not None
    assert last in (first.launch.failure_detail or ""), first.launch.failure_detail
    assert [a.validity.status in ("valid", "degraded") for a in again] == [True], "a gang that was interrupted is tried again"
    assert e2e.cluster.leftovers(namespace) == []
