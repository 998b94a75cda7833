"""An endpoint that a pod of another provider drives: its server in one namespace, the client in another one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.cluster.declared import FAR, ONE, SMALL_SERVER, TWO
from tests.cluster.test_failures import recorded
from tests.cluster.world import World

pytestmark = [pytest.mark.cluster, pytest.mark.full, pytest.mark.timeout(900)]


@contextmanager
def server(e2e: World, namespace: str) -> Iterator[None]:
    """A server behind a Service named as the endpoint."""
    safe = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True, "runAsUser": 10001}
    container = {
        "name": "server",
        "image": e2e.image,
        "command": SMALL_SERVER,
        "securityContext": {**safe, "seccompProfile": {"type": "RuntimeDefault"}},
        "resources": {key: {"cpu": "200m", "memory": "256Mi", "ephemeral-storage": "64Mi"} for key in ("requests", "limits")},
        "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 1},
    }
    core, metadata = e2e.cluster.core, {"name": FAR, "labels": {"app": FAR}}
    core.create_namespaced_service(namespace, {"metadata": metadata, "spec": {"selector": {"app": FAR}, "ports": [{"port": 8000}]}})
    core.create_namespaced_pod(namespace, {"metadata": metadata, "spec": {"containers": [container]}})
    try:
        e2e.cluster.eventually(lambda: e2e.cluster.core.read_namespaced_endpoints(FAR, namespace).subsets)
        yield
    finally:
        core.delete_namespaced_pod(FAR, namespace, grace_period_seconds=0)
        core.delete_namespaced_service(FAR, namespace)


def test_a_pod_elsewhere_drives_an_endpoint(e2e: World) -> None:
    with server(e2e, e2e.namespace(TWO)):
        run = e2e.ended(e2e.start(FAR, [FAR], FAR))
    assert run.state == "success", e2e.explain(run)
    (document,) = recorded(FAR, FAR)
    assert document.validity.status in ("valid", "degraded"), document.validity
    assert document.environment is not None and document.environment.facts["client.place"] == "e2e here"
    assert document.launch is not None and document.launch.pods[0].node is not None
    assert (document.value("network_round_trip_time", "p50") or 0.0) > 0.0
    # The server answers at once after 50 ms.
    assert document.value("time_to_first_token", "p50") == pytest.approx(0.05, abs=0.05)
    assert (document.value("network_received_bytes", "value") or 0.0) > (document.value("response_bytes", "value") or 0.0) > 0.0
    assert e2e.cluster.leftovers(e2e.namespace(ONE)) == []
