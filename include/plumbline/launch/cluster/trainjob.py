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
_PATCHED = ("serviceAccountName", "imagePullSecrets", "nodeSelector", "tolerations", "affinity")
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
            "env": [*manifest.variables(trial), manifest.rendezvous(trial, f"{launch_name(trial)}-{job['name']}-0-0")],
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
    spec = {field: pods["spec"][field] for field in _PATCHED if field in pods["spec"]}
    spec["volumes"] = [volume for volume in pods["spec"]["volumes"] if volume["name"] == manifest.SHARED_MEMORY]
    return {"name": job, "template": {"spec": {"template": {"metadata": pods["metadata"], "spec": spec}}}}
