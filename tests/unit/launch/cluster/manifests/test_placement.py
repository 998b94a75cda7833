from __future__ import annotations

from typing import Any

import pytest
from tests.data.manifests.rewrite import EIGHT_GPUS, REQUESTED_AT, gang_trial, h100
from tests.fakes.trials import a_trial, cluster_provider

from plumbline.launch.cluster.manifests.trial_pod import node_selector, pod_affinity, pod_manifest, tolerations
from plumbline.launch.cluster.names import LAUNCH, launch_name

PRODUCT = "nvidia.com/gpu.product"


@pytest.mark.parametrize(
    ("declared", "asked"),
    [
        ({}, {PRODUCT: "NVIDIA-H100-80GB-HBM3"}),
        ({"disk": "nvme"}, {"disk": "nvme", PRODUCT: "NVIDIA-H100-80GB-HBM3"}),
        ({PRODUCT: "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"}, {PRODUCT: "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"}),
        ({"node.kubernetes.io/instance-type": "p5.48xlarge"}, {"node.kubernetes.io/instance-type": "p5.48xlarge"}),
    ],
)
def test_the_declared_product_selects_nodes_unless_the_selector_implies_one(declared: dict[str, str], asked: dict[str, str]) -> None:
    assert node_selector(h100(node_selector=declared)) == asked


def test_a_product_is_written_as_a_label() -> None:
    spoken = cluster_provider("x", {"kind": "nvidia", "product": "NVIDIA H100 80GB HBM3", "count": 8})
    assert node_selector(spoken) == {PRODUCT: "NVIDIA-H100-80GB-HBM3"}


@pytest.mark.parametrize("accelerator", [{"kind": "cpu", "count": 2, "product": "EPYC"}, {"kind": "nvidia", "count": 1}])
def test_no_product_label_where_there_is_no_nvidia_product(accelerator: dict[str, Any]) -> None:
    assert node_selector(cluster_provider("x", accelerator)) == {}


def test_gpu_trials_accept_the_taint_of_gpu_nodes_and_others_do_not() -> None:
    assert tolerations(cluster_provider()) == []
    assert tolerations(h100(tolerations=[])) == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]


def test_declared_tolerations_come_first_and_none_is_doubled() -> None:
    declared = [{"key": "nvidia.com/gpu", "operator": "Equal", "value": "present"}, {"key": "spot"}]
    assert tolerations(h100(tolerations=declared)) == [
        {"key": "nvidia.com/gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"},
        {"key": "spot", "operator": "Exists", "effect": "NoSchedule"},
    ]


def test_a_fresh_node_is_none_of_those_to_avoid() -> None:
    trial = a_trial(provider=h100(), declare=EIGHT_GPUS)
    fresh = trial.model_copy(update={"placement": "fresh_node", "avoid_nodes": ("gpu-3", "gpu-17")})
    affinity = pod_manifest(fresh, requested_at=REQUESTED_AT)["spec"]["affinity"]
    (term,) = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchFields"] == [
        {"key": "metadata.name", "operator": "NotIn", "values": ["gpu-3"]},
        {"key": "metadata.name", "operator": "NotIn", "values": ["gpu-17"]},
    ]
    assert term["matchExpressions"], "in addition to whole GPUs"
    own = [pod_affinity(trial.model_copy(update=each)) for each in ({}, {"avoid_nodes": ("gpu-3",)}, {"placement": "fresh_node"})]
    assert all("matchFields" not in str(affinity) for affinity in own)


def test_a_trial_on_a_named_node_runs_there_only() -> None:
    named = a_trial(provider=h100(), declare=EIGHT_GPUS).model_copy(update={"placement": "each_node", "on_nodes": ("gpu-3",)})
    affinity = pod_manifest(named, requested_at=REQUESTED_AT)["spec"]["affinity"]
    (term,) = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchFields"] == [{"key": "metadata.name", "operator": "In", "values": ["gpu-3"]}]
    assert term["matchExpressions"], "in addition to whole GPUs"


def test_a_pair_on_named_nodes_runs_one_pod_on_each() -> None:
    trial = gang_trial(2).model_copy(update={"placement": "each_node", "on_nodes": ("gpu-3", "gpu-5")})
    affinity = pod_manifest(trial, 1, requested_at=REQUESTED_AT)["spec"]["affinity"]
    terms = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [term["matchFields"] for term in terms] == [[{"key": "metadata.name", "operator": "In", "values": [n]}] for n in trial.on_nodes]
    (apart,) = affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart == {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {LAUNCH: launch_name(trial)}}}


def test_a_trial_of_whole_gpus_keeps_off_nodes_that_share_them() -> None:
    affinity = pod_affinity(a_trial(provider=h100(), declare=EIGHT_GPUS))
    (term,) = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert {"key": "nvidia.com/gpu.sharing-strategy", "operator": "NotIn", "values": ["time-slicing", "mps"]} in term["matchExpressions"]
    part = {"kind": "nvidia", "product": "NVIDIA-H100-80GB-HBM3-SHARED", "count": 8}
    assert pod_affinity(a_trial(provider=cluster_provider(accelerator=part), declare=EIGHT_GPUS)) == {}
    assert pod_affinity(a_trial(provider=cluster_provider())) == {}, "of a CPU provider"


def test_a_gang_prefers_nodes_of_its_own_near_each_other() -> None:
    trial = gang_trial(2, topology="topology.kubernetes.io/zone")
    found = pod_affinity(trial)
    for kind, key in (("podAffinity", "topology.kubernetes.io/zone"), ("podAntiAffinity", "kubernetes.io/hostname")):
        (wish,) = found[kind]["preferredDuringSchedulingIgnoredDuringExecution"]
        assert wish["podAffinityTerm"] == {"topologyKey": key, "labelSelector": {"matchLabels": {LAUNCH: launch_name(trial)}}}
    assert pod_affinity(gang_trial(2)).keys() == {"nodeAffinity", "podAntiAffinity"}
