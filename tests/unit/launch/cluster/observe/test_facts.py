"""What a cluster tells of its nodes without a pod, and what is said where it tells nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.fakes.fake_kubernetes import FakeKubernetes
from tests.fakes.kubernetes_api.rows import GPU_LABELS
from tests.fakes.trials import H100, cluster_provider
from tests.golden import Golden

from plumbline.declarations import KubernetesLauncher, Provider
from plumbline.launch.cluster.observe.node_facts import discover_nodes, node_facts
from plumbline.launch.failures import ApiRefused, BadDeclaration, Unreachable
from plumbline.launch.launcher import ProviderFacts

NFD = {
    "feature.node.kubernetes.io/cpu-model.vendor_id": "Intel",
    "feature.node.kubernetes.io/cpu-model.family": "6",
    "feature.node.kubernetes.io/cpu-model.id": "143",
    "feature.node.kubernetes.io/cpu-hardware_multithreading": "true",
}
FULL = {**GPU_LABELS, **NFD}
BARE = {"kubernetes.io/hostname": "bare", "node.kubernetes.io/instance-type": "gpu-8", "nvidia.com/gpu.product": H100["product"]}


@pytest.fixture
def kube(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeKubernetes]:
    """One node, node-1, with everything that the discoveries write."""
    with FakeKubernetes() as fake:
        fake.node("node-1", labels=FULL)
        monkeypatch.setenv("AIRFLOW_CONN_K8S_A", fake.connection_json())
        yield fake


def place(**launcher: Any) -> Provider:
    return cluster_provider(accelerator=H100, **launcher)


def seen(provider: Provider | None = None, patience_s: float = 5.0) -> ProviderFacts:
    provider = provider or place()
    assert isinstance(provider.launcher, KubernetesLauncher)
    return discover_nodes(provider, provider.launcher, patience_s=patience_s)


def test_a_node_tells_its_gpus_its_driver_and_its_system_by_the_names_of_a_trials_environment(kube: FakeKubernetes) -> None:
    found = seen()
    assert found.notes == () and found.whole == {"kubernetes.server_version": "v1.31.0"}
    (node,) = found.nodes
    assert list(node) == sorted(node)
    assert node == {
        "cpu.model_id": "Intel/6/143",
        "cpu.smt": True,
        "cuda.version": "12.8",
        "driver.version": "570.86.15",
        "gpu.allocatable": 8,
        "gpu.count": 8,
        "gpu.memory_mib": 81559,
        "gpu.model": "H100",
        "gpu.product": "NVIDIA-H100-80GB-HBM3",
        "host.instance_type": "gpu-8",
        "host.region": "region-1",
        "host.zone": "region-1a",
        "kubernetes.runtime": "containerd://1.7.24",
        "kubernetes.version": "v1.31.0",
        "os.architecture": "amd64",
        "os.image": "Ubuntu 24.04.1 LTS",
        "os.kernel": "6.8.0-1021",
    }


def test_a_cluster_that_keeps_its_version_to_itself_is_looked_at_all_the_same(kube: FakeKubernetes) -> None:
    kube.answer_next(403, match="GET /version")
    found = seen()
    assert found.whole == {} and found.nodes[0]["kubernetes.version"] == "v1.31.0"


def test_amd_and_a_partitioned_gpu_tell_the_same_by_other_labels() -> None:
    labels = {"amd.com/gpu.product-name": "AMD_Instinct_MI300X", "amd.com/gpu.driver-version": "6.12.12", "amd.com/gpu.vram": "191G"}
    status = {"nodeInfo": {"kernelVersion": "6.8"}, "allocatable": {"amd.com/gpu": "8"}}
    amd = node_facts({"metadata": {"labels": labels}, "status": status}, "amd.com/gpu")
    assert (amd["driver.version"], amd["gpu.product"], amd["gpu.memory"], amd["gpu.allocatable"]) == (
        "6.12.12",
        "AMD_Instinct_MI300X",
        "191G",
        8,
    )
    mig = node_facts(
        {"metadata": {"labels": {"nvidia.com/mig.config": "all-1g.10gb", "nvidia.com/gpu.replicas": "4"}}, "status": {}}, "nvidia.com/gpu"
    )
    assert mig == {"gpu.mig_config": "all-1g.10gb", "gpu.replicas": "4"}, "a device plugin that offers nothing yet is no change"


def test_of_two_pools_it_looks_at_the_one_that_trials_would_run_on(kube: FakeKubernetes) -> None:
    kube.node("node-2", labels={**FULL, "nvidia.com/cuda.driver-version.full": "575.1"})
    kube.node("other", labels={**FULL, "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"})
    tainted = kube.node("kept", labels=FULL)
    tainted["spec"]["taints"] = [{"key": "team", "value": "vision", "effect": "NoSchedule"}]
    kube.put("nodes", "", tainted)
    assert sorted(str(node["driver.version"]) for node in seen().nodes) == ["570.86.15", "575.1"]
    mine = seen(place(tolerations=[{"key": "team"}]))
    assert len(mine.nodes) == 3


def test_a_pool_whose_gpus_were_exchanged_is_looked_at_and_another_pool_is_not(kube: FakeKubernetes) -> None:
    other = "NVIDIA-H200"
    kube.node("node-1", labels={**FULL, "pool": "ours", "nvidia.com/gpu.product": other})
    kube.node("node-2", labels={**FULL, "pool": "theirs", "nvidia.com/gpu.product": "NVIDIA-L4"})
    found = seen(place(node_selector={"pool": "ours"}))
    assert [node["gpu.product"] for node in found.nodes] == [other]
    assert "nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3" in found.notes[0]
    assert seen().nodes == (), "without a label of the pool nobody knows which nodes were meant"


def test_no_node_now_concludes_nothing_and_says_why(kube: FakeKubernetes) -> None:
    found = seen(place(node_selector={"pool": "h100"}))
    assert found.nodes == () and "pool=h100" in found.notes[0]
    down = kube.node("node-1", labels=FULL)
    down["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    kube.put("nodes", "", down)
    assert seen().nodes == ()


def test_what_discovery_notes_about_nodes(kube: FakeKubernetes, golden: Golden) -> None:
    kube.node("node-1", labels={**FULL, "pool": "ours", "nvidia.com/gpu.product": "NVIDIA-H200"})
    notes = [*seen(place(node_selector={"pool": "ours"})).notes, *seen(place(node_selector={"pool": "h100"})).notes]
    kube.node("node-2", labels=BARE)
    kube.node("node-1", labels=BARE)
    notes += seen().notes
    for name in ("node-1", "node-2"):
        row = kube.node(name, labels=FULL)
        row["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
        kube.put("nodes", "", row)
    golden("launch.discovery", "\n".join((*notes, *seen().notes)))


def test_missing_labels_are_named_with_what_installs_them_and_are_no_change(kube: FakeKubernetes) -> None:
    kube.node("node-2", labels=BARE)
    (note,) = seen().notes
    assert "(node-2)" in note
    assert "nvidia.com/gpu.product" in note and "nvidia.com/cuda.driver-version.full" in note
    kube.node("node-1", labels=BARE)
    gpus, features = seen().notes
    assert "(node-1, node-2)" in gpus and "node-feature-discovery" in features
    assert all("driver.version" not in node for node in seen().nodes)
    cpu = cluster_provider()
    assert seen(cpu).notes == (features,), "no GPU is missed where none is declared"


def test_a_cluster_that_cannot_be_asked_says_so_and_what_to_do(kube: FakeKubernetes, monkeypatch: pytest.MonkeyPatch) -> None:
    kube.forbidden.add(("list", "nodes"))
    with pytest.raises(ApiRefused, match="cluster-a") as refusal:
        seen()
    assert refusal.value.status == 403 and "k8s/provider" in refusal.value.detail
    kube.forbidden.clear()
    kube.down()
    with pytest.raises(Unreachable, match="GET /api/v1/nodes"):
        seen(patience_s=0.2)
    kube.up()
    assert seen().nodes
    monkeypatch.delenv("AIRFLOW_CONN_K8S_A")
    with pytest.raises(BadDeclaration, match="k8s_a"):
        seen()
