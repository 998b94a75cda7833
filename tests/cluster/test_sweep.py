"""The sweep on a real cluster: exactly what is ours and over age goes, with the rights of the shipped role."""

from __future__ import annotations

import json
import secrets
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cluster.admin import Cluster
from tests.fakes.trials import cluster_provider

from plumbline.declarations import KubernetesLauncher
from plumbline.declarations.installation import REPOSITORY
from plumbline.launch.cluster import launcher_account
from plumbline.launch.cluster.names import EXPIRES, LAUNCH, MANAGED_BY, MANAGER
from plumbline.launch.cluster.operate.sweep import sweep_expired

pytestmark = pytest.mark.cluster

# Nothing runs: no node has this label.
_POD = {
    "restartPolicy": "Never",
    "nodeSelector": {"e2e/nowhere": "true"},
    "securityContext": {"runAsNonRoot": True, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [
        {
            "name": "harness",
            "image": "localhost/none",
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "10m", "memory": "16Mi"}},
        }
    ],
}
_SPECS: dict[str, tuple[str, Any]] = {
    "Pod": ("v1", _POD),
    "Service": ("v1", {"clusterIP": "None", "selector": {LAUNCH: "none"}}),
    "Job": ("batch/v1", {"backoffLimit": 0, "template": {"metadata": {"labels": {"e2e": "sweep"}}, "spec": _POD}}),
}


def row(kind: str, name: str, expires: str | None, managed_by: str | None = MANAGER) -> dict[str, Any]:
    version, spec = _SPECS[kind]
    labels = {LAUNCH: name, **({} if managed_by is None else {MANAGED_BY: managed_by})}
    metadata = {"name": f"{kind.lower()}-{name}", "labels": labels, "annotations": {} if expires is None else {EXPIRES: expires}}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def test_exactly_what_is_ours_and_over_age_goes(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(kubeconfig)
    name = f"e2e-sweep-{secrets.token_hex(3)}"
    example = yaml.safe_load((REPOSITORY / "k8s" / "provider" / "overlays" / "example" / "kustomization.yaml").read_text())
    past, future = (str(int(time.time()) + seconds) for seconds in (-60, 3600))
    with cluster.namespace(name, {**example, "namespace": name}):
        planted = [
            row(kind, what, *about)
            for kind in _SPECS
            for what, about in {
                "old": (past,),
                "young": (future,),
                "timeless": (None,),
                "neighbour": (past, "helm"),
                "unlabelled": (past, None),
            }.items()
        ]
        cluster.kubectl("apply", "--namespace", name, "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": planted}))
        granted = launcher_account.grant_access(launcher_account.admin_client(kubeconfig), name, lifetime_s=3600.0)
        extra = {"kube_config": json.dumps(granted.kubeconfig), "namespace": name}
        monkeypatch.setenv("AIRFLOW_CONN_K8S_A", json.dumps({"conn_type": "kubernetes", "extra": extra}))
        launcher = cluster_provider(namespace=name).launcher
        assert isinstance(launcher, KubernetesLauncher)
        assert sweep_expired(launcher) == ["Job job-old", "Service service-old", "Pod pod-old"]
        wanted = {row["metadata"]["name"] for row in planted if not row["metadata"]["name"].endswith("-old")}

        def left() -> set[str]:
            found = json.loads(cluster.kubectl("get", "pods,services,jobs", "--namespace", name, "-o", "json"))["items"]
            return {item["metadata"]["name"] for item in found if LAUNCH in item["metadata"].get("labels", {})}

        cluster.eventually(lambda: left() == wanted)
        assert sweep_expired(launcher) == []
