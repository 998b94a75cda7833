"""What is looked at before a deletion takes a bounded time: the pods cost money while they wait for it."""

from __future__ import annotations

import pytest
from tests.fakes.fake_kubernetes import FakeKubernetes, Script

from plumbline.launch.cluster.api import ClusterApi
from plumbline.launch.cluster.observe.observation import LaunchObservation, Row
from plumbline.launch.cluster.observe.polling import poll_ended_nodes, read_logs
from plumbline.launch.cluster.observe.verdict import classify_launch

NS = "plumbline"


@pytest.mark.parametrize(("most_s", "read"), [(30.0, 3), (0.1, 1)])
def test_logs_that_do_not_come_hold_up_no_deletion(most_s: float, read: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeKubernetes() as kube:
        monkeypatch.setenv("AIRFLOW_CONN_K8S_A", kube.connection_json(NS))
        kube.script("*", Script().started().log("hello"))
        for rank in range(3):
            labels = {"plumbline/rank": str(rank)}
            spec = {"containers": [{"name": "harness", "image": "i:1"}]}
            kube.store.create("pods", NS, {"metadata": {"name": f"pl-a-{rank}", "namespace": NS, "labels": labels}, "spec": spec})
        running = ["Running"] * 3
        kube.wait_for(lambda: [pod["status"]["phase"] for pod in kube.pods().values()] == running, "all run")
        seen = LaunchObservation(expected=3, pods=tuple(kube.pods().values()))
        kube.slow(0.2, "GET */log*")
        text, tail = read_logs(ClusterApi("k8s_a", NS, patience_s=30.0, timeout_s=30.0), seen, most_s=most_s)
        assert tail == "hello", "rank 0 comes first"
        assert text.count(b"hello") == read


@pytest.mark.parametrize(
    ("node", "why"),
    [
        ({}, None),
        ({"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}}, "NodeStatusUnknown"),
        (
            {"spec": {"taints": [{"key": "cloud.google.com/impending-node-termination", "effect": "NoSchedule"}]}},
            "impending-node-termination",
        ),
        ({"spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}}, None),
        (None, "no longer exists"),
    ],
)
def test_a_node_that_goes_down_is_seen_when_its_pod_ended_well(node: Row | None, why: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = {"name": "harness", "state": {"terminated": {"exitCode": 0}}}
    pod: Row = {"metadata": {"name": "p"}, "spec": {"nodeName": "n1"}, "status": {"phase": "Succeeded", "containerStatuses": [ended]}}
    with FakeKubernetes() as kube:
        monkeypatch.setenv("AIRFLOW_CONN_K8S_A", kube.connection_json(NS))
        if node is not None:
            kube.store.create("nodes", "", {"metadata": {"name": "n1"}, **node})
        seen = poll_ended_nodes(ClusterApi("k8s_a", NS, patience_s=30.0, timeout_s=30.0), LaunchObservation(1, (pod,)))
    assert (why or "") in seen.leaving.get("n1", "") and bool(seen.leaving) is (why is not None)


UPGRADE = {"nvidia.com/gpu-driver-upgrade-state": "pod-deletion-required"}


@pytest.mark.parametrize("labels", [{}, UPGRADE])
def test_the_node_of_a_pod_that_was_taken_away_says_what_befell_it(labels: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    meta = {"name": "p", "deletionTimestamp": "2026-11-28T03:20:00Z", "deletionGracePeriodSeconds": 30}
    pod: Row = {"metadata": meta, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}
    with FakeKubernetes() as kube:
        monkeypatch.setenv("AIRFLOW_CONN_K8S_A", kube.connection_json(NS))
        kube.node("n1", labels=labels)
        seen = poll_ended_nodes(ClusterApi("k8s_a", NS, patience_s=30.0, timeout_s=30.0), LaunchObservation(1, (pod,)))
    failure, detail = classify_launch(seen, None)
    assert failure == "interrupted" and ("gets its driver (pod-deletion-required)" in (detail or "")) is bool(labels)
