"""A trial as a pod: a pure function of the trial and the time of the request. The template and its reasons: `k8s/workloads/pod.yaml`."""

from __future__ import annotations

import math
from datetime import datetime

from plumbline.declarations import TrainingWorkload, Trial
from plumbline.declarations.storage import scratch_of
from plumbline.harness.kept import DELETIONS, VOLUME, Deletion, told
from plumbline.launch.cluster import credentials, placement
from plumbline.launch.cluster.base import Row
from plumbline.launch.cluster.names import EXPIRES, TRIAL, key_name, labels, launch_name, pod_name
from plumbline.launch.cluster.pod_parts import UNKNOWN_SCRATCH, add_to_pod, quantity
from plumbline.launch.cluster.provider import image_of, launcher_of
from plumbline.launch.cluster.strategic_merge import merged
from plumbline.launch.cluster.templates import template
from plumbline.launch.failures import BadDeclaration
from plumbline.results import ResultStore, signing

QUEUE = "kueue.x-k8s.io/queue-name"
SHARED_MEMORY = "shared-memory"
"""The volume at /dev/shm."""
WORK = "work"
"""The volume at /work and /tmp."""
_KEPT = "kept"
"""The provider's volume, and where it is mounted."""
RENDEZVOUS_PORT = 29400
_AFTERWARDS_S = 3600.0
"""How long a launch that is over may still be observed, stored and deleted before it counts as forgotten."""


def pod(trial: Trial, rank: int = 0, *, requested_at: datetime, deletions: tuple[Deletion, ...] = ()) -> Row:
    """The pod of a rank of the trial; of the trial itself, if it runs on one node. `deletions`: of the pods that it takes the place of.

    BadDeclaration if the provider has no Kubernetes launcher or no image for the trial's kind.
    """
    filled = pod_template(trial, requested_at=requested_at)
    metadata = {"name": pod_name(trial, rank, len(deletions)), "namespace": launcher_of(trial.provider).namespace, **filled["metadata"]}
    metadata["labels"] |= labels(trial, rank)
    if rank:  # rank 0 signs for all of them
        container = filled["spec"]["containers"][0]
        container["env"] = [entry for entry in container["env"] if entry["name"] != signing.VARIABLE]
    if deletions:
        filled["spec"]["containers"][0]["env"].append({"name": DELETIONS, "value": told(deletions)})
    return {**template("pod"), "metadata": metadata, "spec": filled["spec"]}


def pod_template(trial: Trial, *, requested_at: datetime) -> Row:
    """Metadata and spec that all pods of the trial share, whoever creates them."""
    skeleton = template("pod")
    launcher, metadata, spec = launcher_of(trial.provider), skeleton["metadata"], skeleton["spec"]
    metadata["labels"] |= launcher.labels | labels(trial) | queue_labels(trial) | credentials.identity_labels(launcher)
    metadata["annotations"] |= launcher.annotations | launch_annotations(trial, requested_at)
    spec["activeDeadlineSeconds"] = deadline_s(trial)
    spec["serviceAccountName"] = launcher.service_account
    spec |= {field: value for field, value in _declared(trial).items() if value}
    container = spec["containers"][0]
    container["image"] = image_of(trial)
    container["args"] = arguments(trial)
    container["env"] += variables(trial)
    container["resources"] = resources(trial)
    sizes = {SHARED_MEMORY: launcher.resources.shared_memory, WORK: scratch_bytes(trial) or UNKNOWN_SCRATCH}
    for volume in spec["volumes"]:
        if (size := sizes.get(volume["name"])) is not None:
            volume["emptyDir"]["sizeLimit"] = quantity(size)
    if isinstance(trial.workload, TrainingWorkload) and trial.workload.pod_deletions:
        _outlived_by_volume(spec, trial)
    add_to_pod(spec, launcher)
    row = merged({"metadata": metadata, "spec": spec}, launcher.pod_patch)
    placement.avoid_nodes(trial, row["spec"])
    return row


def _outlived_by_volume(spec: Row, trial: Trial) -> None:
    """Mount the provider's volume: the next pod of the trial finds there what this one left."""
    claim = launcher_of(trial.provider).volume_claim
    if claim is None:
        raise BadDeclaration(
            f"{trial.provider.name}: launcher.volume_claim is not declared, and the fault pod_delete of {trial.workload.name} needs checkpoints "
            "that outlive the pod; expected the name of a PersistentVolumeClaim in the namespace"
        )
    spec["volumes"].append({"name": _KEPT, "persistentVolumeClaim": {"claimName": claim}})
    container = spec["containers"][0]
    container["volumeMounts"].append({"name": _KEPT, "mountPath": f"/{_KEPT}"})
    container["env"].append({"name": VOLUME, "value": f"/{_KEPT}"})


def _declared(trial: Trial) -> Row:
    """Fields of the pod's specification that are there only if the declaration, or the trial, gives them a value."""
    launcher = launcher_of(trial.provider)
    return {
        "nodeSelector": placement.node_selector(trial.provider),
        "tolerations": placement.tolerations(trial.provider),
        "affinity": placement.affinity(trial),
        "imagePullSecrets": [{"name": name} for name in launcher.image_pull_secrets],
        "priorityClassName": launcher.priority_class,
        "runtimeClassName": launcher.runtime_class,
        "hostIPC": launcher.host_ipc,
    }


def owner(name: str, trial: Trial, requested_at: datetime) -> Row:
    """The object that owns a gang, from the template of that name: called like the launch, its specification still to be filled in."""
    row = template(name)
    metadata = {
        "name": launch_name(trial),
        "namespace": launcher_of(trial.provider).namespace,
        "labels": labels(trial),
        "annotations": launch_annotations(trial, requested_at),
    }
    return {"apiVersion": row["apiVersion"], "kind": row["kind"], "metadata": metadata, "spec": row["spec"]}


def rendezvous(trial: Trial, rank_0: str) -> Row:
    """The environment entry by which the ranks find rank 0: its host name in the domain of the gang's Service, and a port."""
    return {"name": "PLUMBLINE_RENDEZVOUS", "value": f"{rank_0}.{launch_name(trial)}:{RENDEZVOUS_PORT}"}


def launch_annotations(trial: Trial, requested_at: datetime) -> dict[str, str]:
    """Of every object of the launch: the trial's whole id, and until when it can be wanted (seconds since the epoch)."""
    launcher = launcher_of(trial.provider)
    longest = launcher.schedule_timeout + launcher.startup_timeout + launcher.timeout + launcher.unreachable_timeout
    return {TRIAL: trial.trial_id, EXPIRES: str(int(requested_at.timestamp() + longest + _AFTERWARDS_S))}


def queue_labels(trial: Trial) -> dict[str, str]:
    """The Kueue queue that admits the launch, if one is declared."""
    queue = launcher_of(trial.provider).queue
    return {} if queue is None else {QUEUE: queue}


def arguments(trial: Trial) -> list[str]:
    """Of `python -m plumbline.harness run`: the trial's specification, and where its result goes."""
    url = launcher_of(trial.provider).results_url.rstrip("/")
    return ["--trial", f"{url}/{ResultStore.folder(trial)}/trial.json", "--out", url]


def variables(trial: Trial) -> list[Row]:
    """Environment entries that differ by trial and provider."""
    return [
        {"name": "PLUMBLINE_IMAGE", "value": image_of(trial)},
        # Without its Secret the container does not start: what it would measure could not be signed.
        {"name": signing.VARIABLE, "valueFrom": {"secretKeyRef": {"name": key_name(trial), "key": signing.VARIABLE}}},
        *credentials.variables(launcher_of(trial.provider)),
    ]


def resources(trial: Trial) -> Row:
    """Requests = limits: the pod is of the class Guaranteed, so that no neighbour gets what it was promised and it gets no more."""
    launcher = launcher_of(trial.provider)
    declared = launcher.resources
    amounts = {"cpu": str(declared.cpu), "memory": quantity(declared.memory)}
    if (scratch := scratch_bytes(trial)) is not None:
        amounts["ephemeral-storage"] = quantity(scratch)
    if trial.provider.accelerator.kind != "cpu":
        amounts[launcher.gpu_resource] = str(trial.workload.gpus or trial.provider.accelerator.count)
    amounts |= {f"hugepages-{size}": quantity(amount) for size, amount in sorted(declared.hugepages.items())}
    amounts |= {name: str(count) for name, count in sorted(declared.extended.items())}
    return {"requests": amounts, "limits": dict(amounts)}


def scratch_bytes(trial: Trial) -> float | None:
    """The pod's scratch disk: as declared, else as the workload needs it; None if its model's size is not known."""
    declared: float | None = launcher_of(trial.provider).resources.ephemeral_storage
    if declared is not None:
        return declared
    needed = scratch_of(trial.workload)
    return None if needed is None else needed.total


def deadline_s(trial: Trial) -> int:
    """After how many seconds on its node the cluster itself ends a pod, whatever became of Airflow."""
    timeout: float = launcher_of(trial.provider).timeout
    return math.ceil(timeout)
