"""A look at a real cluster with the rights of the shipped role: what its nodes tell, and a driver that changes in their labels."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

import pytest
import yaml
from tests.cluster.admin import PRODUCT, Cluster
from tests.fakes.trials import H100, cluster_provider

from plumbline.declarations import KubernetesLauncher, Provider
from plumbline.declarations.installation import REPOSITORY
from plumbline.launch.cluster import launcher_account
from plumbline.launch.cluster.observe.node_facts import discover_nodes
from plumbline.launch.launcher import ProviderFacts

pytestmark = pytest.mark.cluster

_DRIVER = "nvidia.com/cuda.driver-version.full"


def seen(provider: Provider) -> ProviderFacts:
    assert isinstance(provider.launcher, KubernetesLauncher)
    return discover_nodes(provider, provider.launcher)


def test_nodes_tell_what_they_are_and_what_is_missing(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(kubeconfig)
    name, pool = f"e2e-look-{secrets.token_hex(3)}", f"e2e/look-{secrets.token_hex(3)}"
    example = yaml.safe_load((REPOSITORY / "k8s" / "provider" / "overlays" / "example" / "kustomization.yaml").read_text())
    node = cluster.nodes()[0]
    with cluster.namespace(name, {**example, "namespace": name}):
        granted = launcher_account.grant_access(launcher_account.admin_client(kubeconfig), name, lifetime_s=3600.0)
        extra = {"kube_config": json.dumps(granted.kubeconfig), "namespace": name}
        monkeypatch.setenv("AIRFLOW_CONN_K8S_A", json.dumps({"conn_type": "kubernetes", "extra": extra}))
        provider = cluster_provider(accelerator=H100, namespace=name, node_selector={pool: "yes", PRODUCT: H100["product"]})
        labels = node["metadata"]["labels"]
        before = {label: labels.get(label) for label in (PRODUCT, _DRIVER)}
        assert seen(provider).nodes == () and pool in seen(provider).notes[0]
        try:
            cluster.label(node["metadata"]["name"], {pool: "yes", PRODUCT: H100["product"], _DRIVER: None})
            found = seen(provider)
            (facts,) = found.nodes
            info = node["status"]["nodeInfo"]
            assert (facts["os.kernel"], facts["kubernetes.version"]) == (info["kernelVersion"], info["kubeletVersion"])
            assert str(found.whole["kubernetes.server_version"]).startswith("v1.")
            assert node["metadata"]["name"] in found.notes[0] and _DRIVER in found.notes[0]
            cluster.label(node["metadata"]["name"], {_DRIVER: "570.86.15"})
            assert seen(provider).nodes[0]["driver.version"] == "570.86.15"
        finally:
            cluster.label(node["metadata"]["name"], {pool: None, **before})
