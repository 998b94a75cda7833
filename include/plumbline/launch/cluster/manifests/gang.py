"""Manifests of a trial on several nodes: pods with a Service, or a JobSet. One owner, whose deletion deletes all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from plumbline.declarations import Trial
from plumbline.launch.cluster.manifests.trial_pod import QUEUE, owner_manifest, pod_manifest, pod_template, queue_labels, rendezvous
from plumbline.launch.cluster.names import LAUNCH, Row, cluster_declaration, launch_name, pod_name


def jobset_manifest(trial: Trial, *, requested_at: datetime) -> Row:
    """The JobSet of a trial: one indexed Job with a pod for each node. BadDeclaration like `pod_manifest`."""
    row = owner_manifest("jobset", trial, requested_at)
    row["metadata"]["labels"] |= queue_labels(trial)
    (replicated,) = row["spec"]["replicatedJobs"]
    pods = pod_template(trial, requested_at=requested_at)
    # Kueue admits the JobSet as a whole; a pod with its own label would wait for a second admission.
    pods["metadata"]["labels"].pop(QUEUE, None)
    # The controller's name of the first pod of the first job.
    pods["spec"]["containers"][0]["env"].append(rendezvous(trial, f"{launch_name(trial)}-{replicated['name']}-0-0"))
    nodes = trial.workload.nodes
    # By these the sweep finds a Job whose JobSet is gone.
    replicated["template"]["metadata"] = {name: dict(row["metadata"][name]) for name in ("labels", "annotations")}
    replicated["template"]["metadata"]["labels"].pop(QUEUE, None)
    replicated["template"]["spec"] |= {"parallelism": nodes, "completions": nodes, "template": pods}
    return row


_GROUP = "kueue.x-k8s.io/pod-group-name"
_GROUP_SIZE = "kueue.x-k8s.io/pod-group-total-count"
_GROUP_RETRIABLE = "kueue.x-k8s.io/retriable-in-group"


@dataclass(frozen=True)
class GangManifests:
    """Objects to create: the owner, then its pods by rank. The controller of a JobSet creates its pods."""

    owner: Row
    pods: tuple[Row, ...] = ()


def gang_manifests(trial: Trial, *, requested_at: datetime) -> GangManifests:
    """The gang of a trial as its provider declares it (`launcher.gang`); BadDeclaration like `pod_manifest`."""
    if cluster_declaration(trial.provider).gang == "jobset":
        return GangManifests(jobset_manifest(trial, requested_at=requested_at))
    pods = tuple(_member(trial, rank, requested_at) for rank in range(trial.workload.nodes))
    service = owner_manifest("service", trial, requested_at)
    service["spec"]["selector"] = {LAUNCH: launch_name(trial)}
    return GangManifests(service, pods)


def with_owner(pods: Sequence[Row], owner: Row) -> tuple[Row, ...]:
    """The pods with the created owner's reference, which deletes them with the owner."""
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        # Not `controller`: a drain evicts pods of a controller without asking.
        "blockOwnerDeletion": True,
    }
    return tuple({**pod, "metadata": {**pod["metadata"], "ownerReferences": [reference]}} for pod in pods)


def _member(trial: Trial, rank: int, requested_at: datetime) -> Row:
    row = pod_manifest(trial, rank, requested_at=requested_at)
    name = launch_name(trial)
    row["spec"] |= {"hostname": pod_name(trial, rank), "subdomain": name}
    row["spec"]["containers"][0]["env"] += [
        {"name": "PLUMBLINE_NODE_RANK", "value": str(rank)},
        rendezvous(trial, pod_name(trial, 0)),
    ]
    if queue_labels(trial):
        # Kueue admits all of the group or none. A pod that failed is not replaced: without saying so, Kueue waits for its replacement,
        # keeps the group's quota and holds its pods' deletion back.
        row["metadata"]["labels"][_GROUP] = name
        row["metadata"]["annotations"] |= {_GROUP_SIZE: str(trial.workload.nodes), _GROUP_RETRIABLE: "false"}
    return row
