"""Nodes of clouds, in their own vocabularies: what their GPUs are, which selector chooses them, and what the doctor says of those that are shared,
cut, claimed, lost or not there yet."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.fakes.trials import H100, cluster_provider

from plumbline.analysis.drift.environment import diff_nodes
from plumbline.launch.cluster.doctor.doctor import _slices
from plumbline.launch.cluster.manifests.trial_pod import node_selector
from plumbline.launch.cluster.node_gpus import INSTANCE_TYPE, PRODUCT, NodeGpus, claimed_devices
from plumbline.launch.cluster.observe.node_facts import node_facts
from plumbline.launch.cluster.observe.node_room import check_nodes
from plumbline.launch.doctor_check import DoctorCheck

Row = dict[str, Any]
GPU = "nvidia.com/gpu"
DECLARED = "NVIDIA-H100-80GB-HBM3"


def taint(text: str) -> Row:
    key, _, effect = text.rpartition(":")
    key, _, value = key.partition("=")
    return {"key": key, "value": value, "effect": effect}


def node(
    labels: dict[str, str], name: str = "n1", taints: list[str] | None = None, capacity: dict[str, str] | None = None, **offers: str
) -> Row:
    """`offers`: allocatable GPUs as {"gpu": "8"}, with `nvidia.com/` in front."""
    gpus = {key if "/" in key else f"nvidia.com/{key}": value for key, value in (offers or {"gpu": "8"}).items()}
    rest = {"cpu": "200", "memory": "1900Gi"}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": [taint(text) for text in taints or []]},
        "status": {"allocatable": rest | gpus, "capacity": rest | (capacity or gpus), "conditions": [{"type": "Ready", "status": "True"}]},
    }


def checks(
    *nodes: Row,
    selector: dict[str, str] | None = None,
    product: str | None = DECLARED,
    gpus: int = 8,
    resource: str = GPU,
    slices: list[Row] | None = None,
) -> dict[str, DoctorCheck]:
    asked = {"cpu": "90", "memory": "900Gi", resource: str(gpus)}
    spec = {
        "containers": [{"name": "harness", "resources": {"requests": asked, "limits": asked}}],
        "nodeSelector": {PRODUCT: DECLARED} if selector is None else selector,
        "tolerations": [{"key": resource, "operator": "Exists", "effect": "NoSchedule"}],
    }
    pod = {"metadata": {"name": "p"}, "spec": spec, "status": {"phase": "Pending"}}
    return {line.check: line for line in check_nodes(nodes, pod, [], resource, product, slices or [])}


GKE = {
    "cloud.google.com/gke-accelerator": "nvidia-h100-80gb",
    "cloud.google.com/gke-accelerator-count": "8",
    INSTANCE_TYPE: "a3-highgpu-8g",
}
AUTO = {"eks.amazonaws.com/instance-gpu-name": "h100", "eks.amazonaws.com/instance-gpu-count": "8", INSTANCE_TYPE: "p5.48xlarge"}
KARPENTER = {"karpenter.k8s.aws/instance-gpu-name": "h100", "karpenter.k8s.aws/instance-gpu-count": "8", INSTANCE_TYPE: "p5.48xlarge"}
AKS = {"kubernetes.azure.com/accelerator": "nvidia", INSTANCE_TYPE: "Standard_ND96isr_H100_v5"}
COREWEAVE = {"gpu.nvidia.com/class": "H100_NVLINK_80GB", "gpu.nvidia.com/count": "8", INSTANCE_TYPE: "gd-8xh100ib-i128"}
OKE = {GPU: "true", INSTANCE_TYPE: "BM.GPU.H100.8"}
NEBIUS = {"nebius.com/gpu-name": "H100", INSTANCE_TYPE: "gpu-h100-sxm"}
GFD = {PRODUCT: DECLARED, "nvidia.com/gpu.count": "8", "nvidia.com/gpu.replicas": "1", "nvidia.com/gpu.sharing-strategy": "none"}
CLOUDS = {"gke": GKE, "eks auto": AUTO, "karpenter": KARPENTER, "aks": AKS, "coreweave": COREWEAVE, "oke": OKE, "nebius": NEBIUS}


@pytest.mark.parametrize("labels", CLOUDS.values(), ids=CLOUDS)
def test_the_doctor_names_the_labels_that_nodes_have_and_the_selector_that_works(labels: dict[str, str]) -> None:
    line = checks(node(labels))["nodes"]
    assert line.status == "failed" and f"{INSTANCE_TYPE}={labels[INSTANCE_TYPE]}" in line.found
    chosen = NodeGpus(node(labels), GPU).selector
    assert line.remedy == f"write launcher.node_selector: {{{', '.join(f'{k}: {v}' for k, v in chosen.items())}}}"
    assert node_selector(cluster_provider(accelerator=H100, node_selector=chosen)) == chosen, "nothing is added that the nodes lack"
    assert checks(node(labels), selector=chosen)["room on a node"].status == "ok"


def test_of_several_pools_the_one_with_the_declared_product_is_advised() -> None:
    a100 = {**GKE, "cloud.google.com/gke-accelerator": "nvidia-a100-80gb", INSTANCE_TYPE: "a2-ultragpu-8g"}
    line = checks(node(a100), node(GKE, "n2"))["nodes"]
    assert "a2-ultragpu-8g" in line.found and "a3-highgpu-8g" in line.remedy and "a2-ultragpu-8g" not in line.remedy
    other = checks(node({**NEBIUS, "nebius.com/gpu-name": "H200", INSTANCE_TYPE: "gpu-h200-sxm"}))["nodes"]
    assert other.remedy.startswith("correct accelerator.product") and "gpu-h200-sxm" in other.remedy


@pytest.mark.parametrize("labels", CLOUDS.values(), ids=CLOUDS)
def test_installing_gpu_feature_discovery_is_no_hardware_change(labels: dict[str, str]) -> None:
    before, after = (node_facts(node(own), GPU) for own in (labels, labels | GFD))
    assert after["gpu.product"] == DECLARED and before.get("gpu.model", "H100") == after["gpu.model"]
    assert diff_nodes({name: [value] for name, value in before.items()}, [after]) == ()
    exchanged = node_facts(node({**labels, **GFD, PRODUCT: "NVIDIA-H200"}), GPU)
    assert [change.key for change in diff_nodes({name: [value] for name, value in after.items()}, [exchanged])] in (
        ["gpu.product"],
        ["gpu.model", "gpu.product"],
    )


def test_taints_are_told_by_node_and_those_of_passing_states_are_never_advised() -> None:
    spot, azure = "cloud.google.com/gke-spot=true:NoSchedule", "kubernetes.azure.com/scalesetpriority=spot:NoSchedule"
    lines = checks(
        node(GKE, "gke", [spot]),
        node(AKS, "aks", [azure, "sku=gpu:NoSchedule"]),
        node(AUTO, "eks", ["karpenter.sh/unregistered:NoExecute"]),
        selector={},
    )
    assert f"gke: {spot}" in lines["taints"].found and f"aks: {azure}, sku=gpu:NoSchedule" in lines["taints"].found
    assert lines["taints"].remedy.endswith(spot), "the node with the fewest"
    assert "karpenter" not in lines["taints"].remedy


@pytest.mark.parametrize(
    ("key", "passing"),
    [
        ("karpenter.sh/unregistered", True),
        ("karpenter.sh/disrupted", True),
        ("node.kubernetes.io/not-ready", True),
        ("node.kubernetes.io/unschedulable", True),
        ("node.cloudprovider.kubernetes.io/uninitialized", True),
        ("ToBeDeletedByClusterAutoscaler", True),
        ("cloud.google.com/impending-node-termination", True),
        ("node.cilium.io/agent-not-ready", True),
        ("startup.example/gpu-not-ready", True),
        ("nvidia.com/gpu", False),
        ("sku", False),
        ("dedicated", False),
        ("cloud.google.com/gke-spot", False),
    ],
)
def test_taints_of_nodes_that_start_or_go_down(key: str, passing: bool) -> None:
    assert (NodeGpus(node(GKE, taints=[f"{key}:NoSchedule"]), GPU).unready() is not None) == passing


SHARED = {
    PRODUCT: f"{DECLARED}-SHARED",
    "nvidia.com/gpu.count": "1",
    "nvidia.com/gpu.replicas": "4",
    "nvidia.com/gpu.sharing-strategy": "time-slicing",
}


@pytest.mark.parametrize(
    ("row", "part"),
    [
        (node(SHARED, gpu="4"), "a card shared by time-slicing, 4 clients a card"),
        (
            node({PRODUCT: "NVIDIA-A10G", "nvidia.com/gpu.sharing-strategy": "mps"}, **{"gpu": "0", "gpu.shared": "50"}),
            "50 × nvidia.com/gpu.shared",
        ),
        (
            node(
                {
                    **GKE,
                    "cloud.google.com/gke-gpu-sharing-strategy": "time-sharing",
                    "cloud.google.com/gke-max-shared-clients-per-gpu": "2",
                },
                gpu="16",
            ),
            "2 clients a card",
        ),
        (node({**GKE, "cloud.google.com/gke-gpu-partition-size": "1g.10gb"}, gpu="56"), "MIG 1g.10gb"),
        (
            node({PRODUCT: f"{DECLARED}-MIG-1g.10gb", "nvidia.com/gpu.count": "56", "nvidia.com/mig.strategy": "single"}, gpu="56"),
            "MIG 1g.10gb",
        ),
        (
            node({PRODUCT: "NVIDIA-A100-SXM4-80GB", "nvidia.com/mig.strategy": "mixed"}, **{"mig-1g.10gb": "12"}),
            "12 × nvidia.com/mig-1g.10gb",
        ),
        (node({**AKS, "nvidia.com/mig.config": "all-1g.10gb"}, gpu="56"), "MIG 1g.10gb"),
        (node(GKE, gpu="80"), "80 are offered of 8"),
        (node({PRODUCT: "NVIDIA-A40-24C", "nvidia.com/vgpu.present": "true"}), "a vGPU"),
        (node({"nvidia.com/gpu.clique": "a1.0", "resource.nvidia.com/computeDomain": "0df7"}, **{"example.com/other": "1"}), "DRA"),
    ],
    ids=["time-slicing", "renamed", "gke sharing", "gke mig", "mig single", "mig mixed", "mig config", "unlabelled", "vgpu", "dra"],
)
def test_shares_slices_and_claims_are_named_and_are_no_room_for_a_trial(row: Row, part: str) -> None:
    lines = checks(row, selector={}, gpus=1)
    assert lines["GPUs"].status == "failed" and part in lines["GPUs"].found and "room on a node" not in lines
    named = checks(row, gpus=1, selector={"absent": "label"})["nodes"]
    assert part in named.found


def test_amds_partitions_are_named() -> None:
    labels = {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM", "amd.com/compute-memory-partition": "cpx_nps4"}
    lines = checks(node(labels, **{"amd.com/gpu": "64"}), selector={}, product="AMD-Instinct-MI300X", resource="amd.com/gpu")
    assert "a partition of a card (cpx_nps4)" in lines["GPUs"].found
    whole = labels | {"amd.com/compute-memory-partition": "spx_nps1"}
    assert "GPUs" not in checks(node(whole, **{"amd.com/gpu": "8"}), selector={}, product="AMD-Instinct-MI300X", resource="amd.com/gpu")


def test_whoever_declares_a_slice_gets_slices() -> None:
    product = f"{DECLARED}-MIG-1g.10gb"
    single = node({PRODUCT: product, "nvidia.com/gpu.count": "56"}, gpu="56")
    assert checks(single, selector={PRODUCT: product}, product=product, gpus=1)["room on a node"].status == "ok"
    resource = "nvidia.com/mig-1g.10gb"
    provider = cluster_provider(accelerator={**H100, "product": product}, gpu_resource=resource)
    assert node_selector(provider) == {f"{resource}.product": product}, (
        "GFD writes a product for each resource of a card that is cut in several ways"
    )


def test_one_gpu_of_eight_that_is_gone_is_the_providers_and_no_reason_to_ask_for_less() -> None:
    lines = checks(node(GFD, gpu="7"))
    for check in ("GPUs", "room on a node"):
        assert lines[check].status == "failed" and "one GPU is gone: 7 of 8" in lines[check].found
        assert "launcher.resources" not in lines[check].remedy and "provider" in lines[check].remedy
    by_capacity = checks(node({PRODUCT: DECLARED}, capacity={GPU: "8"}, gpu="6"))
    assert "2 GPUs are gone: 6 of 8" in by_capacity["GPUs"].found
    beside = checks(node(GFD, gpu="7"), node(GFD, "n2"))
    assert beside["GPUs"].status == "failed" and beside["room on a node"].status == "ok"
    assert "GPUs" not in checks(node(GFD))
    assert "launcher.resources" in checks(node(GFD), gpus=9)["room on a node"].remedy, "a node that is whole and too small"
    mixed = node({PRODUCT: DECLARED, "nvidia.com/gpu.count": "8", "nvidia.com/mig.strategy": "mixed"}, **{"gpu": "6", "mig-1g.10gb": "14"})
    assert "GPUs" not in checks(mixed, gpus=4), "cards that are cut are not gone"


@pytest.mark.parametrize(
    ("labels", "offers", "why"),
    [
        ({"nvidia.com/gpu-driver-upgrade-state": "drain-required"}, "8", "gets its driver (drain-required)"),
        ({"nvidia.com/gpu.present": "true"}, "0", "does not run"),
        ({"nvidia.com/mig.config.state": "pending"}, "8", "gets its MIG layout (pending)"),
        ({"node.coreweave.cloud/state": "triage"}, "8", "is in state triage"),
    ],
)
def test_a_node_without_a_driver_yet_is_not_ready(labels: dict[str, str], offers: str, why: str) -> None:
    line = checks(node(labels, gpu=offers), selector={})["nodes ready"]
    assert line.status == "failed" and why in line.found
    assert "nodes ready" not in checks(node({"nvidia.com/gpu-driver-upgrade-state": "upgrade-done"}), selector={})


@pytest.mark.parametrize("wrapped", [False, True], ids=["v1", "v1beta1"])
def test_resource_slices_tell_what_dra_offers(wrapped: bool) -> None:
    own = {"attributes": {"productName": {"string": "NVIDIA GB200"}, "type": {"string": "gpu"}}}
    spec = {
        "driver": "gpu.nvidia.com",
        "nodeName": "n1",
        "devices": [{"name": f"gpu-{i}", **({"basic": own} if wrapped else own)} for i in range(4)],
    }
    nic = {"driver": "dra.net", "nodeName": "n1", "devices": [{"name": "nic"}]}
    slices = [{"spec": spec}, {"spec": nic}]
    assert claimed_devices(slices, "n1") == ("NVIDIA GB200",) * 4 and claimed_devices(slices, "n2") == ()
    lines = checks(node({}, **{"example.com/other": "1"}), selector={}, slices=slices)
    assert "offers its GPUs by DRA (4 × NVIDIA GB200)" in lines["GPUs"].found


def test_a_cpu_provider_is_not_asked_about_gpus() -> None:
    pod = {"spec": {"containers": [{"name": "harness", "resources": {"requests": {"cpu": "2"}}}]}, "metadata": {"name": "p"}, "status": {}}
    assert [line.status for line in check_nodes([node(SHARED, gpu="0")], pod, [], GPU)] == ["ok"] * 3


@pytest.mark.parametrize("served", ["v1", "v1beta2", "v1beta1", None])
def test_the_doctor_reads_resource_slices_in_the_version_that_the_cluster_serves(served: str | None) -> None:
    asked: list[str] = []

    class Cluster:
        def ask(self, method: str, path: str) -> SimpleNamespace:
            asked.append(path)
            return SimpleNamespace(ok=served is not None and f"/{served}/" in path, row={"items": [{"spec": {}}]})

    launcher = cluster_provider(accelerator=H100).launcher
    assert len(_slices(Cluster(), launcher, [node({"nvidia.com/gpu.clique": "a1.0"}, **{"example.com/other": "1"})])) == (
        served is not None
    )  # type: ignore[arg-type]
    asked.clear()
    assert _slices(Cluster(), launcher, [node(GFD), node({}, **{"example.com/other": "1"})]) == () and asked == [], (
        "GPUs are offered as the resource"
    )  # type: ignore[arg-type]
