"""Trials on several nodes: one owner, whose deletion deletes all. Pure functions of the trial and the time of the request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from plumbline.declarations import Trial
from plumbline.launch.cluster import manifest
from plumbline.launch.cluster.base import Row
from plumbline.launch.cluster.jobset import jobset
from plumbline.launch.cluster.names import LAUNCH, launch_name, pod_name
from plumbline.launch.cluster.provider import launcher_of
from plumbline.launch.cluster.trainjob import trainjob

_GROUP = "kueue.x-k8s.io/pod-group-name"
_GROUP_SIZE = "kueue.x-k8s.io/pod-group-total-count"
_GROUP_RETRIABLE = "kueue.x-k8s.io/retriable-in-group"


@dataclass(frozen=True)
class Gang:
    """What to create: first the owner, then the pods that it is to own, by rank. A JobSet's or TrainJob's pods are its controller's work."""

    owner: Row
    pods: tuple[Row, ...] = ()


def gang(trial: Trial, *, requested_at: datetime) -> Gang:
    """The gang of a trial as its provider declares it (`launcher.gang`); BadDeclaration like `manifest.pod`."""
    kind = launcher_of(trial.provider).gang
    if kind == "jobset":
        return Gang(jobset(trial, requested_at=requested_at))
    if kind == "trainjob":
        return Gang(trainjob(trial, requested_at=requested_at))
    pods = tuple(_member(trial, rank, requested_at) for rank in range(trial.workload.nodes))
    return Gang(_service(trial, requested_at), pods)


def owned(pods: Sequence[Row], owner: Row) -> tuple[Row, ...]:
    """The pods as belonging to an owner that the API has given a uid: they are deleted with it, and before it in a foreground deletion."""
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        # Not `controller`: a node's drain evicts pods that somebody would replace, and asks first about those that nobody would.
        "blockOwnerDeletion": True,
    }
    return tuple({**pod, "metadata": {**pod["metadata"], "ownerReferences": [reference]}} for pod in pods)


def _service(trial: Trial, requested_at: datetime) -> Row:
    row = manifest.owner("service", trial, requested_at)
    row["spec"]["selector"] = {LAUNCH: launch_name(trial)}
    return row


def _member(trial: Trial, rank: int, requested_at: datetime) -> Row:
    row = manifest.pod(trial, rank, requested_at=requested_at)
    name = launch_name(trial)
    row["spec"] |= {"hostname": pod_name(trial, rank), "subdomain": name}
    row["spec"]["containers"][0]["env"] += [
        {"name": "PLUMBLINE_NODE_RANK", "value": str(rank)},
        manifest.rendezvous(trial, pod_name(trial, 0)),
    ]
    if manifest.queue_labels(trial):
        # Kueue admits all of the group or none. A pod that failed is not replaced: without saying so, Kueue waits for its replacement,
        # keeps the group's quota and holds its pods' deletion back.
        row["metadata"]["labels"][_GROUP] = name
        row["metadata"]["annotations"] |= {_GROUP_SIZE: str(trial.workload.nodes), _GROUP_RETRIABLE: "false"}
    return row
