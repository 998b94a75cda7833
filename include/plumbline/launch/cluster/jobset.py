"""A gang as a JobSet: the same pods, created and numbered by the JobSet controller. Template: `k8s/workloads/jobset.yaml`."""

from __future__ import annotations

from datetime import datetime

from plumbline.declarations import Trial
from plumbline.launch.cluster import manifest
from plumbline.launch.cluster.base import Row
from plumbline.launch.cluster.names import launch_name


def jobset(trial: Trial, *, requested_at: datetime) -> Row:
    """The JobSet of a trial: one indexed Job with a pod for each node. BadDeclaration like `manifest.pod`."""
    row = manifest.owner("jobset", trial, requested_at)
    row["metadata"]["labels"] |= manifest.queue_labels(trial)
    (replicated,) = row["spec"]["replicatedJobs"]
    pods = manifest.pod_template(trial, requested_at=requested_at)
    # Kueue admits the JobSet as a whole; a pod that asked for itself would wait for a second admission.
    pods["metadata"]["labels"].pop(manifest.QUEUE, None)
    # As the controller calls the first pod of the first job.
    pods["spec"]["containers"][0]["env"].append(manifest.rendezvous(trial, f"{launch_name(trial)}-{replicated['name']}-0-0"))
    nodes = trial.workload.nodes
    # The Job is ours too: the sweep knows it by these, should the JobSet be gone without it.
    replicated["template"]["metadata"] = {name: dict(row["metadata"][name]) for name in ("labels", "annotations")}
    replicated["template"]["metadata"]["labels"].pop(manifest.QUEUE, None)
    replicated["template"]["spec"] |= {"parallelism": nodes, "completions": nodes, "template": pods}
    return row
