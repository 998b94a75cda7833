"""What the JobSet controller makes of its objects: child objects and, in the end, pods."""

from __future__ import annotations

import copy
import uuid
from typing import Any

from tests.fakes.kubernetes_api.store import KINDS, Row, Store

INDEX = "batch.kubernetes.io/job-completion-index"


def expand(store: Store, plural: str, row: Row) -> None:
    """Create the children of a JobSet; nothing for other objects."""
    if plural == "jobsets":
        _jobset(store, row)


def _jobset(store: Store, row: Row) -> None:
    """One Service for the host names, one Job for each replica, the pods of each Job with their completion index."""
    meta, spec = row["metadata"], row["spec"]
    name, space = meta["name"], meta["namespace"]
    network = spec.get("network") or {}
    subdomain = network.get("subdomain") or name
    if network.get("enableDNSHostnames", True):
        selector = {"jobset.sigs.k8s.io/jobset-name": name}
        store.create("services", space, _child("jobsets", row, subdomain, {}, {"clusterIP": "None", "selector": selector}))
    for group in spec["replicatedJobs"]:
        for replica in range(group.get("replicas", 1)):
            marks = {
                "jobset.sigs.k8s.io/jobset-name": name,
                "jobset.sigs.k8s.io/replicatedjob-name": group["name"],
                "jobset.sigs.k8s.io/job-index": str(replica),
            }
            job_name = f"{name}-{group['name']}-{replica}"
            own = group["template"].get("metadata") or {}
            child = _child("jobsets", row, job_name, {**own.get("labels", {}), **marks}, copy.deepcopy(group["template"]["spec"]))
            child["metadata"]["annotations"] = dict(own.get("annotations", {}))
            job = store.create("jobs", space, child)
            _pods(store, job, marks, subdomain)


def _pods(store: Store, job: Row, marks: Row, subdomain: str) -> None:
    spec, name, space = job["spec"], job["metadata"]["name"], job["metadata"]["namespace"]
    for index in range(spec.get("parallelism", 1)):
        template = copy.deepcopy(spec["template"])
        own = template.get("metadata") or {}
        labels = {**own.get("labels", {}), **marks, "batch.kubernetes.io/job-name": name, INDEX: str(index)}
        pod = _child("jobs", job, f"{name}-{index}-{uuid.uuid4().hex[:5]}", labels, template["spec"])
        pod["metadata"]["annotations"] = {**own.get("annotations", {}), INDEX: str(index)}
        pod["spec"].update(hostname=f"{name}-{index}", subdomain=subdomain)
        for container in pod["spec"]["containers"]:
            field = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
            container.setdefault("env", []).append({"name": "JOB_COMPLETION_INDEX", "valueFrom": field})
        store.create("pods", space, pod)


def _child(plural: str, owner: Row, name: str, labels: Row, spec: Any) -> Row:
    api_version, kind = KINDS[plural]
    reference = {
        "apiVersion": api_version,
        "kind": kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {"metadata": {"name": name, "labels": dict(labels), "ownerReferences": [reference]}, "spec": spec}
