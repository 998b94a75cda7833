"""What is looked at before a deletion takes a bounded time: the pods cost money while they wait for it."""

from __future__ import annotations

import pytest
from tests.fakes.fake_kubernetes import FakeKubernetes, Script

from plumbline.launch.cluster.api import ClusterApi
from plumbline.launch.cluster.observe import LaunchObservation
from plumbline.launch.cluster.observe.polling import read_logs

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
