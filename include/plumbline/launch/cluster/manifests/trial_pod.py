"""Manifest of a trial's pod: a pure function of the trial and the request's time. Template: `templates/pod.yaml`."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from plumbline.declarations import KubernetesLauncher, Provider, Trial
from plumbline.declarations.compatibility import scratch_needed
from plumbline.declarations.devices import mig_profile, part_of_card
from plumbline.declarations.providers.pods import SideContainer, Volume
from plumbline.declarations.providers.provider import Accelerator
from plumbline.harness.launcher_protocol import DELETIONS_VARIABLE, SERVERS_VARIABLE, VOLUME_VARIABLE, Deletion, format_deletions
from plumbline.launch.cluster import store_credentials
from plumbline.launch.cluster.manifests.patch import apply_patch
from plumbline.launch.cluster.names import (
    EXPIRES,
    LAUNCH,
    TRIAL,
    Row,
    cluster_declaration,
    key_name,
    label_value,
    labels,
    launch_name,
    pod_name,
    serving_of,
    trial_image,
)
from plumbline.launch.cluster.node_gpus import INSTANCE_TYPE, PRODUCT, PRODUCT_LABELS
from plumbline.launch.failures import BadDeclaration
from plumbline.results import ResultStore, signing

_TEMPLATES = files(__package__) / "templates"


def load_template(name: str) -> Row:
    """A new copy of the object in `templates/<name>.yaml`."""
    row: Row = copy.deepcopy(_read_template(name))
    return row


@cache
def _read_template(name: str) -> Any:
    return yaml.safe_load((_TEMPLATES / f"{name}.yaml").read_text(encoding="utf-8"))


HOSTNAME = "kubernetes.io/hostname"


def held_accelerator(provider: Provider) -> Accelerator:
    """What a trial's pod needs of its node: a client needs no accelerator, whatever its server has."""
    return Accelerator(kind="cpu", count=1) if provider.launcher.hosted else provider.accelerator


def node_selector(provider: Provider) -> dict[str, str]:
    """Labels that a node must carry.

    The declared ones; and the declared accelerator's product as GPU feature discovery writes it, unless the declaration names a product in
    any vocabulary or an instance type, which implies one also where that discovery is not installed.
    """
    launcher = cluster_declaration(provider)
    declared = launcher.node_selector
    accelerator = held_accelerator(provider)
    selector = dict(declared)
    if accelerator.kind == "nvidia" and accelerator.product is not None and not {INSTANCE_TYPE, *PRODUCT_LABELS} & declared.keys():
        # A node whose cards are cut in several ways has a product for each resource.
        selector[f"{launcher.gpu_resource}.product" if mig_profile(launcher.gpu_resource) else PRODUCT] = label_value(accelerator.product)
    return dict(sorted(selector.items()))


def tolerations(provider: Provider) -> list[Row]:
    """The declared tolerations, and on a GPU provider that of the usual taint of GPU nodes, named like the resource."""
    launcher = cluster_declaration(provider)
    rows: list[Row] = [item.model_dump(exclude_none=True) for item in launcher.tolerations]
    if held_accelerator(provider).kind != "cpu" and not any(item["key"] == launcher.gpu_resource for item in rows):
        rows.append({"key": launcher.gpu_resource, "operator": "Exists", "effect": "NoSchedule"})
    return rows


_WHOLE_CARDS = [
    {"key": "nvidia.com/gpu.sharing-strategy", "operator": "NotIn", "values": ["time-slicing", "mps"]},
    {"key": "nvidia.com/vgpu.present", "operator": "NotIn", "values": ["true"]},
    {"key": "cloud.google.com/gke-gpu-sharing-strategy", "operator": "DoesNotExist"},
    {"key": "cloud.google.com/gke-gpu-partition-size", "operator": "DoesNotExist"},
]
"""Nodes whose GPUs are whole as far as their labels say; a pod on a shared GPU cannot tell."""


def pod_affinity(trial: Trial) -> Row:
    """Whole GPUs, unless parts are declared; for a gang also pods near each other, each on its own node.

    The latter are preferences: a small cluster runs the gang all the same, and the record says where its pods were.
    """
    affinity: Row = {}
    accelerator, launcher = held_accelerator(trial.provider), cluster_declaration(trial.provider)
    if accelerator.kind == "nvidia" and part_of_card(accelerator.product) is None and part_of_card(launcher.gpu_resource) is None:
        required = {"nodeSelectorTerms": [{"matchExpressions": copy.deepcopy(_WHOLE_CARDS)}]}
        affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": required}
    if trial.workload.nodes > 1:
        if launcher.topology is not None:
            affinity["podAffinity"] = _preferred(trial, launcher.topology)
        apart = _preferred(trial, HOSTNAME)
        terms = [each["podAffinityTerm"] for each in apart["preferredDuringSchedulingIgnoredDuringExecution"]]
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": terms} if trial.on_nodes else apart
    return affinity


def choose_nodes(trial: Trial, spec: Row) -> None:
    """Keep the pod off the nodes that a trial with a fresh node avoids, or on one of the named nodes, in addition to any node affinity."""
    avoided, named = (trial.avoid_nodes if trial.placement == "fresh_node" else ()), trial.on_nodes
    if not avoided and not named:
        return
    # By name: on some clouds the host name label differs. Fields take one value each, and all of a term must hold.
    avoid = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in avoided]
    each = [[{"key": "metadata.name", "operator": "In", "values": [node]}] for node in named] or [[]]
    nodes = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    required = nodes.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {})
    # Terms are alternatives, so each must avoid the nodes.
    terms = required.get("nodeSelectorTerms") or [{}]
    required["nodeSelectorTerms"] = [
        {**term, "matchFields": [*(term.get("matchFields") or ()), *avoid, *own]} for term in terms for own in each
    ]


def _preferred(trial: Trial, key: str) -> Row:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {LAUNCH: launch_name(trial)}}}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]}


UNKNOWN_SCRATCH = 500 * 2.0**30
"""Size limit of a volume on the node's disk without a declared need: no request, but a bound that protects the node."""


_LIBRARIES = "LD_LIBRARY_PATH"
_APPEND = f'export {_LIBRARIES}="${{{_LIBRARIES}:+${_LIBRARIES}:}}$0"; exec "$@"'
"""A pod's own variable would replace the image's, which names the folders of the driver and of CUDA's compatibility libraries."""


def add_declared_parts(spec: Row, launcher: KubernetesLauncher) -> None:
    """Add the launcher's pod fields except `pod_patch` to the pod's specification, whose first container is the trial."""
    container = spec["containers"][0]
    container["env"] = with_variables(container["env"], {name: value for name, value in launcher.env.items() if name != _LIBRARIES})
    if _LIBRARIES in launcher.env:
        container["command"] = ["sh", "-c", _APPEND, launcher.env[_LIBRARIES], *container["command"]]
    spec["volumes"] += [_volume(volume) for volume in launcher.volumes]
    container["volumeMounts"] += [_mount(v.name, v.mount, v.read_only) for v in launcher.volumes if v.mount is not None]
    if launcher.capabilities:
        container["securityContext"]["capabilities"]["add"] = list(launcher.capabilities)
    if launcher.supplemental_groups:
        spec["securityContext"]["supplementalGroups"] = list(launcher.supplemental_groups)
    if launcher.host_network:
        # Without this policy a pod on the node's network resolves no Service, and a gang's ranks find each other through one.
        spec |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    before = [side_container(c) for c in launcher.init_containers]
    # A native sidecar ends with the trial; an ordinary second container would keep the pod running after it.
    sidecars = [{**side_container(c), "restartPolicy": "Always"} for c in launcher.sidecars]
    if before or sidecars:
        # Sidecars first: an init container may need a daemon that runs.
        spec["initContainers"] = sidecars + before


def with_variables(entries: Sequence[Row], declared: Mapping[str, str]) -> list[Row]:
    """The entries with the declared variables in place of those of the same name, further ones at the end."""
    inherited = [entry for entry in entries if entry["name"] not in declared]
    return [*inherited, *({"name": name, "value": value} for name, value in declared.items())]


def side_container(declared: SideContainer) -> Row:
    """A container beside the trial. An ordinary user drops all capabilities; root keeps the runtime's own, as clouds' daemons expect."""
    row: Row = {"name": declared.name, "image": declared.image, "imagePullPolicy": "IfNotPresent"}
    row |= {field: list(value) for field in ("command", "args") if (value := getattr(declared, field))}
    if declared.env:
        row["env"] = with_variables((), declared.env)
    amounts = {"cpu": str(declared.cpu), "memory": quantity(declared.memory)}
    # Requests = limits here too: with less the whole pod would lose its class Guaranteed.
    row["resources"] = {"requests": amounts, "limits": dict(amounts)}
    row["securityContext"] = _security(declared)
    if declared.mounts:
        row["volumeMounts"] = [_mount(m.volume, m.path, m.read_only, m.sub_path) for m in declared.mounts]
    return row


def _security(declared: SideContainer) -> Row:
    root = {"runAsNonRoot": False, "runAsUser": 0, "runAsGroup": 0} if declared.run_as_root or declared.privileged else {}
    if declared.privileged:
        return {**root, "privileged": True}
    capabilities: Row = {} if root else {"drop": ["ALL"]}
    if declared.capabilities:
        capabilities["add"] = list(declared.capabilities)
    return {**root, "allowPrivilegeEscalation": False, **({"capabilities": capabilities} if capabilities else {})}


def _volume(volume: Volume) -> Row:
    row: Row = {"name": volume.name}
    if volume.host_path is not None:
        row["hostPath"] = volume.host_path.model_dump(exclude_none=True)
    elif volume.claim is not None:
        row["persistentVolumeClaim"] = {"claimName": volume.claim}
    elif volume.empty_dir is not None:
        size = volume.empty_dir.size
        if size is None and volume.empty_dir.medium is None:  # one in memory is bounded by the pod's memory limits
            size = UNKNOWN_SCRATCH
        source = {"medium": volume.empty_dir.medium, "sizeLimit": None if size is None else quantity(size)}
        row["emptyDir"] = {key: value for key, value in source.items() if value is not None}
    return row


def _mount(volume: str, path: str, read_only: bool, sub_path: str | None = None) -> Row:
    row: Row = {"name": volume, "mountPath": path}
    row |= {"subPath": sub_path} if sub_path else {}
    return row | ({"readOnly": True} if read_only else {})


def quantity(size: float) -> str:
    """Bytes as Kubernetes writes them, exactly: 64Gi, 1500Mi, or plain bytes."""
    whole = round(size)
    for unit, factor in (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
        if whole % factor == 0:
            return f"{whole // factor}{unit}"
    return str(whole)


QUEUE = "kueue.x-k8s.io/queue-name"
SHARED_MEMORY = "shared-memory"
"""The volume at /dev/shm."""
WORK = "work"
"""The volume at /work and /tmp."""
_VOLUME = "kept"
"""The provider's volume, and where it is mounted."""
RENDEZVOUS_PORT = 29400
_CLEANUP_S = 3600.0
"""Seconds to observe, store and delete a launch after its end, before it counts as forgotten."""


def pod_manifest(trial: Trial, rank: int = 0, *, requested_at: datetime, deletions: tuple[Deletion, ...] = ()) -> Row:
    """The pod of a rank of the trial. `deletions`: of the pods that it replaces.

    BadDeclaration if the provider has no Kubernetes launcher or no image for the trial's kind.
    """
    filled = pod_template(trial, requested_at=requested_at)
    metadata = {
        "name": pod_name(trial, rank, len(deletions)),
        "namespace": cluster_declaration(trial.provider).namespace,
        **filled["metadata"],
    }
    metadata["labels"] |= labels(trial, rank)
    if rank:  # rank 0 signs for all of them
        remove_key(filled["spec"]["containers"][0])
    if deletions:
        filled["spec"]["containers"][0]["env"].append({"name": DELETIONS_VARIABLE, "value": format_deletions(deletions)})
    return {**load_template("pod"), "metadata": metadata, "spec": filled["spec"]}


def pod_template(trial: Trial, *, requested_at: datetime) -> Row:
    """Metadata and spec that all pods of the trial share."""
    skeleton = load_template("pod")
    launcher, metadata, spec = cluster_declaration(trial.provider), skeleton["metadata"], skeleton["spec"]
    metadata["labels"] |= launcher.labels | labels(trial) | queue_labels(trial) | store_credentials.identity_labels(launcher)
    metadata["annotations"] |= launcher.annotations | launch_annotations(trial, requested_at)
    spec["activeDeadlineSeconds"] = math.ceil(launcher.timeout)  # the cluster ends the pod, even without Airflow
    spec["serviceAccountName"] = launcher.service_account
    spec |= {field: value for field, value in _optional_fields(trial).items() if value}
    container = spec["containers"][0]
    container["image"] = trial_image(trial)
    container["args"] = arguments(trial)
    container["env"] += trial_variables(trial)
    container["resources"] = resources(trial)
    sizes = {SHARED_MEMORY: launcher.resources.shared_memory, WORK: scratch_bytes(trial) or UNKNOWN_SCRATCH}
    for volume in spec["volumes"]:
        if (size := sizes.get(volume["name"])) is not None:
            volume["emptyDir"]["sizeLimit"] = quantity(size)
    if trial.workload.pod_deletions:
        _mount_volume(spec, trial)
    add_declared_parts(spec, launcher)
    try:
        launcher.check_patch()
    except ValueError as error:
        raise BadDeclaration(f"{trial.provider.name}: launcher.{error}") from None
    row = apply_patch({"metadata": metadata, "spec": spec}, launcher.pod_patch)
    choose_nodes(trial, row["spec"])
    return row


def _mount_volume(spec: Row, trial: Trial) -> None:
    """Mount the provider's volume, which the trial's next pod mounts too."""
    claim = cluster_declaration(trial.provider).volume_claim
    if claim is None:
        fault = trial.workload.replacing_fault
        raise BadDeclaration(
            f"{trial.provider.name}: launcher.volume_claim is not declared, and the fault {fault} of {trial.workload.name} needs checkpoints "
            "that outlive the pod; expected the name of a PersistentVolumeClaim in the namespace"
        )
    spec["volumes"].append({"name": _VOLUME, "persistentVolumeClaim": {"claimName": claim}})
    container = spec["containers"][0]
    container["volumeMounts"].append({"name": _VOLUME, "mountPath": f"/{_VOLUME}"})
    container["env"].append({"name": VOLUME_VARIABLE, "value": f"/{_VOLUME}"})


def _optional_fields(trial: Trial) -> Row:
    launcher = cluster_declaration(trial.provider)
    return {
        "nodeSelector": node_selector(trial.provider),
        "tolerations": tolerations(trial.provider),
        "affinity": pod_affinity(trial),
        "imagePullSecrets": [{"name": name} for name in launcher.image_pull_secrets],
        "priorityClassName": launcher.priority_class,
        "runtimeClassName": launcher.runtime_class,
        "hostIPC": launcher.host_ipc,
    }


def owner_manifest(name: str, trial: Trial, requested_at: datetime) -> Row:
    """The object that owns a gang, from the template of that name, named like the launch; its specification is still empty."""
    row = load_template(name)
    metadata = metadata_of(launch_name(trial), trial, requested_at)
    return {"apiVersion": row["apiVersion"], "kind": row["kind"], "metadata": metadata, "spec": row["spec"]}


def metadata_of(name: str, trial: Trial, requested_at: datetime) -> Row:
    namespace = cluster_declaration(trial.provider).namespace
    return {"name": name, "namespace": namespace, "labels": labels(trial), "annotations": launch_annotations(trial, requested_at)}


def rendezvous(trial: Trial, rank_0: str) -> Row:
    """The environment entry with the address of rank 0: its host name in the domain of the gang's Service, and a port."""
    return {"name": "PLUMBLINE_RENDEZVOUS", "value": f"{rank_0}.{launch_name(trial)}:{RENDEZVOUS_PORT}"}


def launch_annotations(trial: Trial, requested_at: datetime) -> dict[str, str]:
    """Annotations of every object of the launch: the trial's id, and its expiry in seconds since the epoch."""
    longest_s = longest_launch_s(cluster_declaration(trial.provider))
    return {TRIAL: trial.trial_id, EXPIRES: str(int(requested_at.timestamp() + longest_s + _CLEANUP_S))}


def longest_launch_s(launcher: KubernetesLauncher) -> float:
    """Seconds from the request that a launch may take, whatever happens to it."""
    return float(launcher.schedule_timeout + launcher.startup_timeout + launcher.timeout + launcher.unreachable_timeout)


def queue_labels(trial: Trial) -> dict[str, str]:
    queue = cluster_declaration(trial.provider).queue
    return {} if queue is None else {QUEUE: queue}


def arguments(trial: Trial) -> list[str]:
    """Arguments of `python -m plumbline.harness run`: the URLs of the trial's specification and of the result store."""
    url = cluster_declaration(trial.provider).results_url.rstrip("/")
    return ["--trial", f"{url}/{ResultStore.folder(trial)}/trial.json", "--out", url]


def remove_key(container: Row) -> None:
    """Take the trial's key from the harness's container: without its Secret a container that names it does not start."""
    container["env"] = [entry for entry in container["env"] if entry["name"] != signing.KEY_VARIABLE]


def trial_variables(trial: Trial) -> list[Row]:
    """Environment entries that differ by trial and provider."""
    serving = serving_of(trial)
    return [
        {"name": "PLUMBLINE_IMAGE", "value": trial_image(trial)},
        # Without its Secret the container does not start, because its result could not be signed.
        {"name": signing.KEY_VARIABLE, "valueFrom": {"secretKeyRef": {"name": key_name(trial), "key": signing.KEY_VARIABLE}}},
        *store_credentials.store_variables(cluster_declaration(trial.provider)),
        *store_credentials.model_variables(trial),
        *([] if serving is None else [{"name": SERVERS_VARIABLE, "value": f"http://{launch_name(trial)}:{serving.port}"}]),
        *store_credentials.endpoint_variables(trial.provider),
    ]


def resources(trial: Trial, *, of_server: bool = False) -> Row:
    """Requests equal limits: the pod's class is Guaranteed, so that neighbours do not affect it. `of_server`: of a server beside the trial's pod,
    which has the accelerators then."""
    launcher = cluster_declaration(trial.provider)
    declared = launcher.resources
    amounts = {"cpu": str(declared.cpu), "memory": quantity(declared.memory)}
    if (scratch := scratch_bytes(trial)) is not None:
        amounts["ephemeral-storage"] = quantity(scratch)
    if held_accelerator(trial.provider).kind != "cpu" and trial.hosted == of_server:
        amounts[launcher.gpu_resource] = str(trial.workload.gpus or trial.provider.accelerator.count)
    amounts |= {f"hugepages-{size}": quantity(amount) for size, amount in sorted(declared.hugepages.items())}
    amounts |= {name: str(count) for name, count in sorted(declared.extended.items())}
    return {"requests": amounts, "limits": dict(amounts)}


def scratch_bytes(trial: Trial) -> float | None:
    """Bytes of the pod's scratch disk: as declared, else by the workload's need; None if its model's size is unknown."""
    launcher = cluster_declaration(trial.provider)
    declared: float | None = launcher.resources.ephemeral_storage
    if declared is not None:
        return declared
    if trial.provider.launcher.hosted:
        return None
    needed = scratch_needed(trial.workload, cached=launcher.models_cache is not None)
    return None if needed is None else needed.total


def signing_key_secret(trial: Trial, key: signing.KeyPair, requested_at: datetime) -> Row:
    """The Secret, with the launch's labels, by which the sweep finds it."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": metadata_of(key_name(trial), trial, requested_at),
        "immutable": True,
        "stringData": {signing.KEY_VARIABLE: key.private_hex},
    }
