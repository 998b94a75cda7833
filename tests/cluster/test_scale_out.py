"""The phase `scale_out` on a Deployment of the trial, whose number of pods a scaler in this test changes as it sees the load."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kubernetes import client
from tests.cluster.admin import Cluster
from tests.cluster.declared import BY_HPA, ONE, SCALE
from tests.cluster.metrics_server import metrics_server
from tests.cluster.test_failures import recorded
from tests.cluster.test_gang import room
from tests.cluster.world import World

from plumbline.results.launch_record import launch_metrics

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]

_CAME = re.compile(r"^came (\d+)$", re.MULTILINE)
PER_SERVER = 12.0
"""Requests a second for which the scaler has one server: between the phase's first rate and half of its second."""


@contextmanager
def scaler(cluster: Cluster, namespace: str) -> Iterator[None]:
    """While the block runs, the namespace's one Deployment has a second server when more comes than one should get."""
    apps, over = client.AppsV1Api(cluster.core.api_client), threading.Event()

    def rate() -> float:
        seen = [_CAME.findall(cluster.log(namespace, p["metadata"]["name"]))[-3:] for p in cluster.pods(namespace) if _serves(p)]
        return sum(sum(map(int, last)) / len(last) for last in seen if last)

    def work() -> None:
        while not over.wait(1.0):
            try:
                for deployment in apps.list_namespaced_deployment(namespace).items:
                    wanted = 2 if rate() > PER_SERVER else 1
                    if deployment.spec.replicas != wanted:
                        apps.patch_namespaced_deployment_scale(deployment.metadata.name, namespace, {"spec": {"replicas": wanted}})
            except client.ApiException:  # a pod or the Deployment went meanwhile
                continue

    running = threading.Thread(target=work)
    running.start()
    try:
        yield
    finally:
        over.set()
        running.join()


def _serves(pod: dict) -> bool:  # type: ignore[type-arg]
    return "plumbline/serves" in pod["metadata"]["labels"] and pod["status"].get("phase") == "Running"


def test_the_time_to_scale_out_of_a_deployment(e2e: World) -> None:
    if room(e2e) < 3:
        pytest.skip(f"the cluster has {room(e2e)} cores for a client and two servers")
    namespace = e2e.namespace(ONE)
    with scaler(e2e.cluster, namespace):
        run = e2e.ended(e2e.start(ONE, [SCALE], SCALE), 900)
    assert run.state == "success", e2e.explain(run)
    (document,) = recorded(ONE, SCALE)
    assert document.validity.status in ("valid", "degraded"), e2e.explain(run) or document.validity
    assert document.launch is not None
    replicas = document.launch.replicas
    second = next(count for count in replicas if count.ready == 2)
    asked = next(count for count in replicas if count.wanted == 2)
    assert asked.at <= second.at and [count.ready for count in replicas if count.at > second.at][-1] == 1, replicas
    at = {event.name: event.utc.timestamp() for event in document.timeline}
    took = document.value("time_to_scale_out", "max", "scale_out")
    assert took is not None and took > second.at - at["scale_out_stepped_up"] - 3.0, "one server does not hold the second rate"
    assert (document.value("slo_miss_ratio", "value", "scale_out") or 0.0) > 0.0
    after = {row.metric: row.value for row in launch_metrics(document.launch, document.timeline)}
    assert (after["time_to_scale_in"] or 0.0) > 0.0 and (after["idle_replica_time"] or 0.0) > 0.0
    assert e2e.cluster.leftovers(namespace) == []


@pytest.mark.full
def test_the_clusters_own_autoscaler_scales_a_deployment_out_and_in(e2e: World, tmp_path: Path) -> None:
    if room(e2e) < 3:
        pytest.skip(f"the cluster has {room(e2e)} cores for a client and two servers")
    with metrics_server(e2e.cluster, tmp_path):
        run = e2e.ended(e2e.start(BY_HPA, [BY_HPA], BY_HPA), 1400)
    assert run.state == "success", e2e.explain(run)
    (document,) = recorded(BY_HPA, BY_HPA)
    assert document.validity.status in ("valid", "degraded"), e2e.explain(run) or document.validity
    assert document.launch is not None
    replicas = document.launch.replicas
    assert [count.wanted for count in replicas if count.at > replicas[0].at + 1.0].count(2) >= 1 and replicas[-1].wanted == 1, replicas
    at = {event.name: event.utc.timestamp() for event in document.timeline}
    asked = next(count for count in replicas if count.wanted == 2)
    assert asked.at > at["scale_out_stepped_up"], "the first rate needs one server"
    after = {row.metric: row.value for row in launch_metrics(document.launch, document.timeline)}
    assert (after["time_to_scale_in"] or 0.0) > 0.0 and (after["idle_replica_time"] or 0.0) > 0.0
    assert document.value("time_to_scale_out", "max", "scale_out") is not None
    assert e2e.cluster.leftovers(e2e.namespace(ONE)) == []
