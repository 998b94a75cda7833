"""What outlived its launch goes; what is wanted, what is somebody else's and what says no time stays."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.fake_kubernetes import FakeKubernetes, Script
from tests.fakes.trials import cluster_provider

from plumbline.declarations import KubernetesLauncher
from plumbline.launch.cluster.api import ClusterApi
from plumbline.launch.cluster.sweep import sweep
from plumbline.launch.failures import Unreachable

NS, NOW = "plumbline", 1_800_000_000.0


def row(kind: str, name: str, expires: str | None, *, managed_by: str = "plumbline") -> dict[str, Any]:
    labels = {"app.kubernetes.io/managed-by": managed_by, "plumbline/launch": name}
    annotations = {} if expires is None else {"plumbline/expires": expires}
    spec = {"containers": [{"name": "harness", "image": "x"}]} if kind == "Pod" else {"clusterIP": "None"}
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "labels": labels, "annotations": annotations}, "spec": spec}


def test_only_what_is_ours_and_outlived_its_launch_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = cluster_provider().launcher
    assert isinstance(launcher, KubernetesLauncher)
    past, future = str(int(NOW - 60)), str(int(NOW + 60))
    with FakeKubernetes() as kube:
        kube.script("*", Script().started())
        monkeypatch.setenv("AIRFLOW_CONN_K8S_A", kube.connection_json(NS))
        api = ClusterApi("k8s_a", NS)
        for kind, name, expires in (
            ("Pod", "orphan", past),
            ("Pod", "wanted", future),
            ("Pod", "timeless", None),
            ("Service", "old-gang", past),
            ("Service", "new-gang", future),
        ):
            api.create(row(kind, name, expires))
        api.create(row("Pod", "a-neighbours", past, managed_by="helm"))
        assert sweep(launcher, NOW) == ["Service old-gang", "Pod orphan"]
        left = [item["metadata"] for kind in ("Pod", "Service") for item in api.listed(kind, "")]
        kept = {each["name"] for each in left if "deletionTimestamp" not in each}
        assert kept == {"wanted", "timeless", "new-gang", "a-neighbours"}
        assert sweep(launcher, NOW) == []


def test_a_cluster_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = cluster_provider().launcher
    assert isinstance(launcher, KubernetesLauncher)
    with FakeKubernetes() as kube:
        monkeypatch.setenv("AIRFLOW_CONN_K8S_A", kube.connection_json(NS))
        kube.down()
        with pytest.raises(Unreachable, match="cluster doctor"):
            sweep(launcher, NOW, patience_s=0.5)
