"""The parts of a pod that a declaration adds to the template: variables, volumes, and containers beside the trial. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plumbline.declarations import KubernetesLauncher
from plumbline.declarations.pods import SideContainer, Volume
from plumbline.launch.cluster.base import Row

UNKNOWN_SCRATCH = 500 * 2.0**30
"""The size limit of a volume on the node's disk whose need nothing declares: it requests nothing, and a runaway ends before the node does."""


def add_to_pod(spec: Row, launcher: KubernetesLauncher) -> None:
    """Add everything of the launcher's pod fields but `pod_patch` to the pod's specification, whose first container is the trial."""
    container = spec["containers"][0]
    container["env"] = with_variables(container["env"], launcher.env)
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
    beside = [{**side_container(c), "restartPolicy": "Always"} for c in launcher.sidecars]
    if before or beside:
        # Sidecars first: an init container may need a daemon that runs.
        spec["initContainers"] = beside + before


def with_variables(entries: Sequence[Row], declared: Mapping[str, str]) -> list[Row]:
    """The entries with the declared variables in place of those of the same name, further ones at the end."""
    kept = [entry for entry in entries if entry["name"] not in declared]
    return [*kept, *({"name": name, "value": value} for name, value in declared.items())]


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
