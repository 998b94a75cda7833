"""Whose fault it is that a pod got no node, by what schedulers and autoscalers say."""

from __future__ import annotations

import pytest

from plumbline.launch.cluster.node_gpus import PASSING_TAINT
from plumbline.launch.cluster.observe.observation import LaunchObservation, Row, StopCause
from plumbline.launch.cluster.observe.verdict import classify_launch
from plumbline.results import FailureClass

GPU = "nvidia.com/gpu"
NO_VICTIMS = " preemption: 0/4 nodes are available: 4 No preemption victims found for incoming pod."


def waiting(said: str, resource: str = GPU, gates: tuple[str, ...] = ()) -> Row:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}
    limits = {"cpu": "32", "memory": "64Gi", resource: "8", "rdma/ib": "8"}
    return {
        "metadata": {"name": "p", "uid": "u"},
        "spec": {
            "containers": [{"name": "harness", "resources": {"limits": limits}}],
            "schedulingGates": [{"name": gate} for gate in gates],
        },
        "status": {"phase": "Pending", "conditions": [condition]},
    }


def event(reason: str, message: str, minute: int) -> Row:
    return {
        "metadata": {"uid": f"{reason}-{minute}"},
        "involvedObject": {"name": "p", "uid": "u"},
        "reason": reason,
        "message": message,
        "type": "Normal" if reason.startswith("Triggered") else "Warning",
        "lastTimestamp": f"2026-11-21T03:{minute:02}:00Z",
    }


def judged(said: str, *events: Row, resource: str = GPU, providers_nodes: bool = True) -> tuple[FailureClass | None, str]:
    stop = StopCause("schedule_timeout", "no node after 600 s")
    seen = LaunchObservation(1, (waiting(said, resource),), events=events, stop=stop, providers_nodes=providers_nodes)
    failure, detail = classify_launch(seen, None)
    return failure, detail or ""


SCHEDULER: list[tuple[str, FailureClass]] = [
    ("4 Insufficient nvidia.com/gpu.", "insufficient_capacity"),
    ("1 Insufficient nvidia.com/gpu, 3 node(s) didn't match Pod's node affinity/selector.", "insufficient_capacity"),
    ("2 Insufficient cpu, 2 Insufficient memory, 4 Insufficient nvidia.com/gpu.", "insufficient_capacity"),
    ("1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, 3 Insufficient nvidia.com/gpu.", "insufficient_capacity"),
    ("1 node(s) were unschedulable, 3 Insufficient nvidia.com/gpu.", "insufficient_capacity"),
    # Some node had GPUs: what else was asked for did not fit.
    ("3 Insufficient memory, 1 Insufficient nvidia.com/gpu.", "bad_declaration"),
    ("1 node(s) had volume node affinity conflict, 3 Insufficient nvidia.com/gpu.", "bad_declaration"),
    ("4 Insufficient memory.", "bad_declaration"),
    ("4 Insufficient ephemeral-storage.", "bad_declaration"),
    ("4 Insufficient rdma/ib.", "bad_declaration"),
    ("4 Insufficient vpc.amazonaws.com/efa.", "bad_declaration"),
    ("4 Insufficient hugepages-2Mi.", "bad_declaration"),
    ("4 node(s) didn't match Pod's node affinity/selector.", "bad_declaration"),
    ("4 node(s) had untolerated taint {dedicated: team-b}.", "bad_declaration"),
    ("2 Insufficient nvidia.com/gpu, 2 node(s) had untolerated taint {nvidia.com/gpu: present}.", "bad_declaration"),
    ("1 node(s) had taint {sku: gpu}, that the pod didn't tolerate, 3 Insufficient nvidia.com/gpu.", "bad_declaration"),
    ("4 node(s) didn't have free ports for the requested pod ports.", "bad_declaration"),
    ("4 node(s) didn't match pod anti-affinity rules.", "bad_declaration"),
    ("1 node(s) didn't satisfy existing pods anti-affinity rules, 3 Insufficient nvidia.com/gpu.", "bad_declaration"),
    ("4 node(s) didn't match pod topology spread constraints.", "bad_declaration"),
    ('persistentvolumeclaim "data" not found.', "bad_declaration"),
    ("pod has unbound immediate PersistentVolumeClaims.", "bad_declaration"),
    ("request gpu: device class gpu.example.com does not exist. no new claims to deallocate", "bad_declaration"),
    ("waiting for dynamic resource controller to create the resourceclaim.", "launch_timeout"),
    (
        "1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }, 3 node(s) didn't match Pod's node affinity/selector.",
        "launch_timeout",
    ),
    ("4 node(s) were unschedulable.", "launch_timeout"),
    ("4 Too many pods.", "launch_timeout"),
    ("4 cannot allocate all claims.", "launch_timeout"),
]


@pytest.mark.parametrize(("reasons", "expected"), SCHEDULER)
@pytest.mark.parametrize("preemption", ["", NO_VICTIMS, f" no new claims to deallocate,{NO_VICTIMS}"])
def test_a_refusal_is_the_providers_only_for_want_of_gpus(reasons: str, expected: FailureClass, preemption: str) -> None:
    failure, detail = judged(f"0/4 nodes are available: {reasons}{preemption}")
    assert failure == expected, detail
    assert detail.startswith("no node after 600 s; ")
    ours = "launch_timeout" if expected == "insufficient_capacity" else expected
    assert judged(f"0/4 nodes are available: {reasons}{preemption}", providers_nodes=False)[0] == ours


@pytest.mark.parametrize("resource", ["amd.com/gpu", "nvidia.com/mig-3g.20gb", "gpu.intel.com/xe", "cloud.example/device"])
def test_the_accelerator_is_what_the_pod_requests(resource: str) -> None:
    assert judged(f"0/2 nodes are available: 2 Insufficient {resource}.", resource=resource)[0] == "insufficient_capacity"
    assert judged("0/2 nodes are available: 2 Insufficient rdma/ib.", resource=resource)[0] == "bad_declaration"


def test_the_lack_is_named() -> None:
    assert "too little memory: lower launcher.resources" in judged("0/4 nodes are available: 4 Insufficient memory.")[1]
    assert "too little memory: lower" in judged("0/4 nodes are available: 3 Insufficient memory, 1 Insufficient nvidia.com/gpu.")[1]
    assert "nvidia.com/gpu: present" in judged("0/1 nodes are available: 1 node(s) had untolerated taint {nvidia.com/gpu: present}.")[1]


AUTOSCALER: list[tuple[str, str, FailureClass]] = [
    (
        "FailedScaleUp",
        "Node scale up in zones us-central1-a associated with this pod failed: GCE out of resources.",
        "insufficient_capacity",
    ),
    ("FailedScaleUp", "create instance: ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", "insufficient_capacity"),
    (
        "FailedScaleUp",
        "InsufficientInstanceCapacity: we do not have sufficient p5.48xlarge capacity in us-east-1a",
        "insufficient_capacity",
    ),
    ("InsufficientCapacityError", "NodeClaim gpu-x: UnfulfillableCapacity", "insufficient_capacity"),
    ("FailedScaleUp", "SkuNotAvailable: Standard_ND96isr_H100_v5 in westeurope", "insufficient_capacity"),
    ("FailedScaleUp", "Out of host capacity.", "insufficient_capacity"),
    ("FailedScaleUp", "failed: GCE quota exceeded.", "quota_exceeded"),
    ("FailedScaleUp", "VcpuLimitExceeded: you have requested more vCPU capacity than your current limit", "quota_exceeded"),
    ("FailedScaleUp", "it results in exceeding approved Total Regional Cores quota", "quota_exceeded"),
    ("NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size reached, 2 Insufficient nvidia.com/gpu", "quota_exceeded"),
    ("FailedScheduling", "Failed to schedule pod, all available instance types exceed limits for nodepool: gpu", "quota_exceeded"),
    ("FailedScaleUp", "failed: IP_SPACE_EXHAUSTED", "bad_declaration"),
    ("FailedScaleUp", "failed: Internal error.", "launch_timeout"),
    ("NotTriggerScaleUp", "pod didn't trigger scale-up: 1 in backoff after failed scale-up", "launch_timeout"),
    ("TriggeredScaleUp", "pod triggered scale-up: [{gpu-pool 0->1 (max: 4)}]", "launch_timeout"),
]


@pytest.mark.parametrize(("reason", "message", "expected"), AUTOSCALER)
def test_an_autoscaler_says_whether_the_cloud_had_none(reason: str, message: str, expected: FailureClass) -> None:
    """The scheduler sees only what is there: nodes of other pools, which have no GPUs or are not selected."""
    for said in ("3 Insufficient nvidia.com/gpu", "3 node(s) didn't match Pod's node affinity/selector"):
        failure, detail = judged(f"0/3 nodes are available: {said}.", event(reason, message, 5), providers_nodes=False)
        assert failure == expected, detail
    stop = StopCause("schedule_timeout", f"pod p: {reason}: {message}")
    assert classify_launch(LaunchObservation(1, stop=stop), None)[0] == expected, "also where only the stop quotes it"


def test_where_no_pool_fits_full_nodes_are_no_lack_of_the_clouds() -> None:
    said = "pod didn't trigger scale-up: 2 node(s) had untolerated taint {sku: cpu}, 1 Insufficient nvidia.com/gpu"
    none = event("NotTriggerScaleUp", said, 5)
    assert judged("0/3 nodes are available: 3 Insufficient nvidia.com/gpu.", none)[0] == "bad_declaration"
    assert judged("0/3 nodes are available: 3 node(s) were unschedulable.", none)[0] == "launch_timeout", "nodes that match are closed"
    assert judged("0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.", none)[0] == "bad_declaration"
    assert classify_launch(LaunchObservation(1, stop=StopCause("schedule_timeout", said)), None)[0] == "bad_declaration"


@pytest.mark.fault("the cloud has no instance for the autoscaler", ends="insufficient_capacity", keeps="the autoscaler's newest word")
def test_the_newest_word_of_the_autoscaler_counts() -> None:
    said = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    empty, began = event("FailedScaleUp", "GCE out of resources", 3), event("TriggeredScaleUp", "pod triggered scale-up: [{b 0->1}]", 4)
    assert judged(said, empty, began)[0] == "launch_timeout", "the second zone gave a node, which was slow"
    assert judged(said, began, event("FailedScaleUp", "GCE out of resources", 5))[0] == "insufficient_capacity"


@pytest.mark.fault("a controller's scheduling gate is never removed", ends="launch_timeout", keeps="the gate's name")
def test_a_foreign_gate_is_not_kueues_quota() -> None:
    def gated(*gates: str, queue: bool = False) -> tuple[FailureClass | None, str | None]:
        pod = waiting("Scheduling is blocked due to non-empty scheduling gates", gates=gates)
        pod["status"]["conditions"][0]["reason"] = "SchedulingGated"
        pod["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "q"} if queue else {}
        return classify_launch(LaunchObservation(1, (pod,), stop=StopCause("schedule_timeout", "no node")), None)

    assert gated("kueue.x-k8s.io/admission")[0] == gated(queue=True)[0] == "quota_exceeded"
    assert gated()[0] == "launch_timeout"
    found, detail = gated("kueue.x-k8s.io/admission", "example.com/topology")
    assert (found, "example.com/topology" in (detail or ""), "kueue.x-k8s.io" in (detail or "")) == ("launch_timeout", True, False)


@pytest.mark.parametrize(
    ("key", "passes"),
    [
        ("node.kubernetes.io/unreachable", True),
        ("node.cloudprovider.kubernetes.io/uninitialized", True),
        ("node.kubernetes.io/disk-pressure", True),
        ("node.kubernetes.io/instance-type", False),
        ("feature.node.kubernetes.io/pci-10de.present", False),
        ("ToBeDeletedByClusterAutoscaler", True),
        ("cloud.google.com/impending-node-termination", True),
        ("karpenter.sh/unregistered", True),
        ("karpenter.sh/disrupted", True),
        ("nvidia.com/gpu", False),
        ("node-role.kubernetes.io/control-plane", False),
        ("kubernetes.azure.com/scalesetpriority", False),
    ],
)
def test_taints_of_nodes_that_come_or_go(key: str, passes: bool) -> None:
    assert bool(PASSING_TAINT.search(key)) is passes
