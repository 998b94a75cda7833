"""A gang as a TrainJob: the same pods, created and numbered by the Kubeflow trainer. Template: `k8s/workloads/trainjob.yaml`."""

from __future__ import annotations

import math
from datetime import datetime

from plumbline.declarations import Trial
from plumbline.launch.cluster import manifest
from plumbline.launch.cluster.base import Row
from plumbline.launch.cluster.names import launch_name
from plumbline.launch.cluster.provider import launcher_of
from plumbline.launch.cluster.templates import template

_MANAGER = "plumbline/launch"
_CONTAINER = "node"
"""What the trainer calls the trial's container."""
_PATCHED = ("serviceAccountName", "imagePullSecrets", "nodeSelector", "tolerations", "affinity", "schedulingGates")
"""Fields of a pod's specification that the trainer lets a TrainJob set, and that differ by trial or provider."""


def trainjob(trial: Trial, *, requested_at: datetime) -> Row:
    """The TrainJob of a trial, for the namespace's TrainingRuntime (`k8s/workloads/training-runtime`).

    BadDeclaration like `manifest.pod`. What a TrainJob cannot carry is refused where the provider is declared.
    """
    row = manifest.owner("trainjob", trial, requested_at)
    row["metadata"]["labels"] |= manifest.queue_labels(trial)
    pods = manifest.pod_template(trial, requested_at=requested_at)
    pods["metadata"]["labels"].pop(manifest.QUEUE, None)  # Kueue admits the TrainJob as a whole
    (container,) = pods["spec"]["containers"]
    (job,) = template("training-runtime/training-runtime")["spec"]["template"]["spec"]["replicatedJobs"]
    row["spec"] |= {
        "activeDeadlineSeconds": _deadline_s(trial),
        "trainer": {
            "numNodes": trial.workload.nodes,
            "image": container["image"],
            "args": container["args"],
            "env": [*_further(container, "env"), manifest.rendezvous(trial, f"{launch_name(trial)}-{job['name']}-0-0")],
            "resourcesPerNode": container["resources"],
        },
        "runtimePatches": [
            {"manager": _MANAGER, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [_patch(job["name"], pods)]}}}}
        ],
    }
    return row


def _deadline_s(trial: Trial) -> int:
    # A pod's own deadline cannot be patched, and the trainer's clock already runs while the pods wait for nodes and images.
    launcher = launcher_of(trial.provider)
    before: float = launcher.schedule_timeout + launcher.startup_timeout
    return math.ceil(before) + manifest.deadline_s(trial)


def _patch(job: str, pods: Row) -> Row:
    given = pods["spec"]
    spec = {field: given[field] for field in _PATCHED if field in given}
    own = template("pod")["spec"]
    if given["securityContext"] != own["securityContext"]:
        spec["securityContext"] = given["securityContext"]
    spec["volumes"] = [volume for volume in given["volumes"] if volume not in own["volumes"]]
    container: Row = {}
    if mounts := _further(given["containers"][0], "volumeMounts"):
        container["volumeMounts"] = mounts
    if given["containers"][0]["securityContext"] != own["containers"][0]["securityContext"]:
        container["securityContext"] = given["containers"][0]["securityContext"]
    if container:
        spec["containers"] = [{"name": _CONTAINER, **container}]
    return {"name": job, "template": {"spec": {"template": {"metadata": pods["metadata"], "spec": spec}}}}


def _further(container: Row, field: str) -> list[Row]:
    """Entries of the trial's container that the runtime's template does not have already."""
    own = template("pod")["spec"]["containers"][0][field]
    return [entry for entry in container[field] if entry not in own]
