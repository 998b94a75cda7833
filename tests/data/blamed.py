"""What clusters say about a launch that failed, with the class that it must have: one list for the tests and for docs/measurements/field-cases.md.

`python -m tests.data.blamed` prints the page's table, from the product's own functions."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import Any

from plumbline.analysis.availability import whose_fault
from plumbline.launch.cluster.observe.observation import LaunchObservation, Row, StopCause
from plumbline.launch.cluster.observe.verdict import classify_launch
from plumbline.results import FailureClass

GPU = "nvidia.com/gpu"
FULL = "0/8 nodes are available: 8 Insufficient nvidia.com/gpu."
PINNED = "0/8 nodes are available: 1 Insufficient nvidia.com/gpu, 7 node(s) didn't match Pod's node affinity/selector."
ENDED = "2026-11-28T03:19:00Z"


def pod(node: str | None = None, said: str = "", ended: Row | None = None, **status: Any) -> Row:
    """`said`: by the scheduler. `ended`: the terminated state of its container."""
    waits = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}] if said else []
    container = {"name": "harness", "resources": {"limits": {GPU: "8", "cpu": "32"}}}
    return {
        "metadata": {"name": "p", "uid": "u"},
        "spec": {"containers": [container], **({"nodeName": node} if node else {})},
        "status": {
            "phase": "Failed" if ended or status.get("reason") else "Pending",
            "conditions": [*waits, *status.pop("conditions", ())],
            **({"containerStatuses": [{"name": "harness", "state": {"terminated": ended}}]} if ended else {}),
            **status,
        },
    }


def event(reason: str, message: str) -> Row:
    about = {"kind": "Pod", "name": "p", "uid": "u"}
    return {
        "metadata": {"uid": reason},
        "involvedObject": about,
        "reason": reason,
        "message": message,
        "type": "Warning",
        "lastTimestamp": ENDED,
    }


def waiting(said: str, *events: Row) -> LaunchObservation:
    """No node in time."""
    return LaunchObservation(1, (pod(said=said),), events=events, stop=StopCause("schedule_timeout", "no node after 600 s"))


def pulling(message: str) -> LaunchObservation:
    status = [{"name": "harness", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}}}]
    return LaunchObservation(1, (pod("n1", containerStatuses=status),), stop=StopCause("image_error", f"pod p cannot start: {message}"))


def unmade(message: str) -> LaunchObservation:
    """A sandbox that was not made in time."""
    return LaunchObservation(1, (pod("n1"),), stop=StopCause("startup_timeout", f"no container: FailedCreatePodSandBox: {message}"))


def rejected(message: str, leaving: str = "") -> LaunchObservation:
    row = pod("n1", reason="UnexpectedAdmissionError", message=message)
    return LaunchObservation(1, (row,), leaving={"n1": leaving} if leaving else {})


def unstarted(message: str, leaving: str = "") -> LaunchObservation:
    row = pod("n1", ended={"exitCode": 128, "reason": "StartError", "message": message, "finishedAt": ENDED})
    return LaunchObservation(1, (row,), leaving={"n1": leaving} if leaving else {})


def stopped(kind: str, reason: str, message: str, *events: Row) -> LaunchObservation:
    condition = {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": ENDED}
    row = pod("n1", ended={"exitCode": 143, "reason": "Error", "finishedAt": "2026-11-28T03:20:00Z"}, conditions=[condition])
    return LaunchObservation(1, (row,), events=events)


def deleted(*events: Row, leaving: str = "") -> LaunchObservation:
    row = pod("n1", ended={"exitCode": 143, "reason": "Error", "finishedAt": "2026-11-28T03:20:00Z"})
    row["metadata"] |= {"deletionTimestamp": "2026-11-28T03:19:30Z", "deletionGracePeriodSeconds": 30}
    return LaunchObservation(1, (row,), events=events, leaving={"n1": leaving} if leaving else {})


@dataclass(frozen=True)
class Blamed:
    """`says`: a part of the sentence. `providers`: the declaration says that the provider alone operates the cluster."""

    case: str
    message: str
    seen: LaunchObservation
    failure: FailureClass
    says: str = ""
    providers: bool = False

    @property
    def judged(self) -> tuple[FailureClass | None, str]:
        failure, detail = classify_launch(replace(self.seen, providers_nodes=self.providers), None)
        return failure, detail or ""

    @property
    def row(self) -> str:
        failure, _ = self.judged
        charged = {"provider": "the provider", "operator": "us", "unproven": "neither: not proven"}[whose_fault(str(failure))]
        return f"| {self.case} | {self.message}{', `operated_by: provider`' if self.providers else ''} | `{failure}` | {charged} |"


NO_POOL = 'Failed to schedule pod, incompatible with nodepool "gpu", no instance type satisfied resources {"nvidia.com/gpu":"8"}'
TAINT = "Failed to schedule pod, did not tolerate taint (taint=team=a:NoSchedule)"
NOT_TRIGGERED = "pod didn't trigger scale-up: 2 node(s) didn't match Pod's node affinity/selector, 1 Insufficient nvidia.com/gpu"
WOULD_NOT_FIT = "pod didn't trigger scale-up (it wouldn't fit if a new node is added): 1 node(s) didn't match node selector"
ICE = "create NodeClaim: InsufficientInstanceCapacity in eu-west-1a"
BACKOFF = "pod didn't trigger scale-up: 1 in backoff after failed scale-up"
UNHEALTHY = "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices "
MISMATCH = "nvidia-container-cli: initialization error: nvml error: driver/library version mismatch: unknown"

CASES = (
    Blamed("K1", "full nodes", waiting(FULL), "launch_timeout", "whose pods hold them is not shown"),
    Blamed("K1", "full nodes", waiting(FULL), "insufficient_capacity", "lacked free GPUs", providers=True),
    Blamed("K1", "a named node is full", waiting(PINNED), "launch_timeout", "whose pods hold them is not shown"),
    Blamed(
        "K2",
        "Volcano: queue resource quota insufficient",
        waiting("pod group is not ready", event("Unschedulable", "queue resource quota insufficient")),
        "quota_exceeded",
        "queue is full, which is ours",
    ),
    Blamed(
        "K2",
        "Volcano: resource fit failed",
        waiting("all nodes are unavailable: 4 node(s) resource fit failed."),
        "launch_timeout",
        "does not say",
    ),
    Blamed(
        "K10",
        "KAI: queue exceeded its limit",
        waiting('Workload was not scheduled because queue "a" exceeded its limit: NonPreemptibleOverQuota'),
        "quota_exceeded",
        "ours",
    ),
    Blamed(
        "K10",
        "KAI: nodes without GPUs",
        waiting("0/6 nodes are available for scheduling 1/1 pods of podgroup: node-1: didn't have enough resource: GPUs."),
        "launch_timeout",
        "not shown",
    ),
    Blamed(
        "K1",
        "a named node is full, newer scheduler",
        waiting("0/8 nodes are available: 1 Insufficient nvidia.com/gpu."),
        "launch_timeout",
        "not shown",
    ),
    Blamed(
        "K1",
        "a reason of another plugin",
        waiting("0/2 nodes are available: 2 node(s) CardInsufficientMemory."),
        "launch_timeout",
        "its own plugins",
    ),
    Blamed(
        "K10", "KAI: over quota", waiting("Non-preemptible workload is over quota. Workload requested 1 GPUs"), "quota_exceeded", "ours"
    ),
    Blamed("K2", "Volcano: queue not open", waiting("queue team-a is not open"), "quota_exceeded", "ours"),
    Blamed(
        "K12",
        "Karpenter: all types unavailable",
        waiting(FULL, event("FailedScheduling", "nodeclaim: all requested instance types were unavailable during launch")),
        "insufficient_capacity",
        "for the autoscaler",
    ),
    Blamed(
        "K12", "the cloud refused the autoscaler", waiting(FULL, event("FailedScaleUp", ICE)), "insufficient_capacity", "for the autoscaler"
    ),
    Blamed(
        "K12", "Karpenter: no pool fits", waiting(FULL, event("FailedScheduling", NO_POOL)), "bad_declaration", "no pool of the autoscaler"
    ),
    Blamed(
        "K12", "Karpenter: a taint of our pool", waiting(FULL, event("FailedScheduling", TAINT)), "bad_declaration", "launcher.tolerations"
    ),
    Blamed(
        "K12",
        "cluster autoscaler: no pool fits",
        waiting(FULL, event("NotTriggerScaleUp", NOT_TRIGGERED)),
        "bad_declaration",
        "no pool of the autoscaler",
    ),
    Blamed(
        "K12",
        "an older one: it wouldn't fit",
        waiting(FULL, event("NotTriggerScaleUp", WOULD_NOT_FIT)),
        "bad_declaration",
        "no pool",
        providers=True,
    ),
    Blamed(
        "K12", "cluster autoscaler: in backoff", waiting(FULL, event("NotTriggerScaleUp", BACKOFF)), "launch_timeout", "does not say why"
    ),
    Blamed("K3", "pull QPS exceeded", pulling("pull QPS exceeded"), "launch_timeout", "registryPullQPS"),
    Blamed(
        "K3",
        "registry: connection refused",
        pulling("dial tcp 10.2.3.4:443: connect: connection refused"),
        "launch_timeout",
        "does not reach the registry",
    ),
    Blamed("K3", "registry: no such host", pulling("dial tcp: lookup r.example on 10.0.0.10:53: no such host"), "launch_timeout", "DNS"),
    Blamed("K3", "registry: no route", pulling("dial tcp 10.2.3.4:443: connect: no route to host"), "launch_timeout", "does not reach"),
    Blamed("K3", "pull canceled", pulling("rpc error: code = Canceled desc = context canceled"), "launch_timeout", "may pass"),
    Blamed(
        "K3", "no registry on the node", pulling("dial tcp 127.0.0.1:443: connect: connection refused"), "image_error", "on the node itself"
    ),
    Blamed("K3", "registry: 403", pulling("unexpected status: 403 Forbidden"), "image_error", "image_pull_secrets"),
    Blamed(
        "K4",
        "no NetworkAttachmentDefinition",
        unmade('network-attachment-definitions.k8s.cni.cncf.io "rdma-net" not found'),
        "bad_declaration",
        "create the NetworkAttachmentDefinition",
    ),
    Blamed(
        "K4",
        "no virtual function",
        unmade("SRIOV-CNI failed to load netconf: LoadConf(): VF pci addr is required"),
        "bad_declaration",
        "resources.extended",
    ),
    Blamed(
        "K4",
        "no runtime handler",
        unmade('failed to get sandbox runtime: no runtime for "nvidia" is configured'),
        "bad_declaration",
        "launcher.runtime_class",
    ),
    Blamed(
        "K4",
        "no free address",
        unmade("failed to allocate for range 0: no IP addresses available in range set"),
        "quota_exceeded",
        "used up",
    ),
    Blamed(
        "K4",
        "whereabouts: no address",
        unmade("error at storage engine: Could not allocate IP in range: ip: 10.1.0.1"),
        "quota_exceeded",
        "used up",
    ),
    Blamed("K4", "RuntimeClass not supported", unmade('RuntimeClass "nvidia" not supported'), "bad_declaration", "launcher.runtime_class"),
    Blamed(
        "K5",
        "a lost GPU at admission",
        rejected("Allocate failed: error creating nvml.Device 5: nvml: GPU is lost"),
        "provider_fault",
        "a GPU is lost",
    ),
    Blamed(
        "K5", "unhealthy MIG instances", rejected(f"{UNHEALTHY}nvidia.com/mig-1g.5gb"), "launch_timeout", "its layout changes, or failed"
    ),
    Blamed(
        "K5",
        "the same, the operator failed",
        rejected(f"{UNHEALTHY}nvidia.com/mig-1g.5gb", "its node did not get its MIG layout (failed)"),
        "bad_declaration",
        "did not get",
    ),
    Blamed("K5", "unhealthy GPUs", rejected(f"{UNHEALTHY}nvidia.com/gpu"), "launch_timeout", "not shown"),
    Blamed("K5", "unhealthy GPUs", rejected(f"{UNHEALTHY}nvidia.com/gpu"), "insufficient_capacity", "device plugin", providers=True),
    Blamed("K5", "driver mismatch at the start", unstarted(MISMATCH), "provider_fault", "two versions"),
    Blamed(
        "K6",
        "the same while our operator updates it",
        unstarted(MISMATCH, "its node gets its driver (pod-restart-required)"),
        "launch_timeout",
        "gets its driver",
    ),
    Blamed(
        "K5",
        "a lost GPU at the start",
        unstarted("nvidia-container-cli: detection error: nvml error: gpu is lost"),
        "provider_fault",
        "a GPU is lost",
    ),
    Blamed(
        "K6",
        "deleted while the driver is updated",
        deleted(leaving="its node gets its driver (pod-deletion-required)"),
        "interrupted",
        "gets its driver",
    ),
    Blamed(
        "K6",
        "Karpenter: underutilized",
        stopped("DisruptionTarget", "EvictionByEvictionAPI", "evicting", event("Evicted", "Evicted pod: Underutilized")),
        "interrupted",
        "Karpenter removed its node",
    ),
    Blamed(
        "K6",
        "Karpenter: spot interruption",
        stopped("DisruptionTarget", "EvictionByEvictionAPI", "evicting", event("Evicted", "Evicted pod: SpotInterruption")),
        "interrupted",
        "spot instance back",
    ),
    Blamed(
        "K7",
        "Kueue: preempted",
        stopped("TerminationTarget", "WorkloadEvicted", "Preempted to accommodate a workload (UID: 1)"),
        "interrupted",
        "higher priority",
    ),
    Blamed(
        "K7",
        "Kueue: pods not ready",
        stopped("TerminationTarget", "WorkloadEvicted", "Exceeded the PodsReady timeout ns/p"),
        "interrupted",
        "waitForPodsReady.timeout",
    ),
    Blamed(
        "K7",
        "Kueue: queue stopped",
        stopped("TerminationTarget", "WorkloadEvicted", "The ClusterQueue is stopped"),
        "interrupted",
        "an operator stopped the queue",
    ),
    Blamed(
        "K7",
        "Kueue: longest time",
        stopped("TerminationTarget", "StoppedByKueue", "exceeding the maximum execution time"),
        "bad_declaration",
        "max-exec-time",
    ),
    Blamed(
        "K8",
        "KAI: preempted",
        deleted(event("Preempt", "preempted by higher priority workload team-a/train")),
        "interrupted",
        "took its place",
    ),
    Blamed("K8", "Volcano: reclaimed", deleted(event("Evict", "Pod is evicted, because of reclaim")), "interrupted", "took its place"),
    Blamed(
        "K8",
        "the descheduler",
        stopped(
            "DisruptionTarget",
            "EvictionByEvictionAPI",
            "evicting",
            event("LowNodeUtilization", "pod evicted from n1 node by sigs.k8s.io/descheduler"),
        ),
        "interrupted",
        "descheduler moved it",
    ),
)


def table() -> str:
    return "\n".join(["| id | message | class | counts against |", "|---|---|---|---|", *(case.row for case in CASES)])


if __name__ == "__main__":
    sys.stdout.write(table() + "\n")
