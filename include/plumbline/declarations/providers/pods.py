"""A trial's pod beyond image and resources: environment, volumes, side containers, and allowed patches."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from plumbline.declarations.base import Declared, Name
from plumbline.declarations.yaml_source import FieldPath, format_path
from plumbline.metrics.units import ByteSize

Key = Annotated[str, Field(pattern=r"^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$")]
"""A Kubernetes label key or resource name, such as nvidia.com/gpu.product."""
Image = Annotated[
    str,
    Field(
        pattern=r"^(localhost/[a-z0-9._/-]+:[A-Za-z0-9._-]+|[a-z0-9][a-z0-9.:_/-]*(:[A-Za-z0-9._-]+)?@sha256:[0-9a-f]{64})$",
        description="an image by digest, such as registry.example.com/plumbline-training@sha256:…; "
        "an image that was loaded onto the nodes by hand has none: localhost/name:tag",
    ),
]
VendorImage = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9][a-z0-9.:_/-]*(:[A-Za-z0-9._-]+|(:[A-Za-z0-9._-]+)?@sha256:[0-9a-f]{64})$",
        description="an image by digest or by a tag that names a version, such as the cloud publishes it",
    ),
]
Registry = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]+)?(/[a-z0-9][a-z0-9._-]*)*$",
        description="registry or mirror, with its path, that is put before images which name none, such as registry.example.com/team",
    ),
]
ObjectName = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$", description="name of a Kubernetes object")]
LabelValue = Annotated[str, Field(pattern=r"^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$", description="at most 63 characters")]
AbsolutePath = Annotated[str, Field(pattern=r"^(/[A-Za-z0-9._@:+-]+)+$", description="an absolute path without a trailing slash")]

RESERVED_VOLUMES = frozenset(["work", "shared-memory", "kept"])
"""Volumes of every trial's pod (`k8s/workloads/pod.yaml`)."""
RESERVED_PATHS = ("/work", "/tmp", "/dev/shm", "/kept")
RESERVED_METADATA = ("plumbline/", "app.kubernetes.io/managed-by", "kueue.x-k8s.io/", "batch.kubernetes.io/", "jobset.sigs.k8s.io/")
"""Prefixes of labels and annotations of the launcher and of controllers."""
_RESERVED_VARIABLES = re.compile(r"PLUMBLINE_.*|HOME|TMPDIR|PYTHON.*|JOB_COMPLETION_INDEX|KUBERNETES_.*")
_SECRET = re.compile(r"(^|_)(SECRET|TOKEN|PASSWORD|PASSWD|CREDENTIALS?|APIKEY)(_|$)|(API|ACCESS|PRIVATE)_KEY")
_HOST_PATHS = ("/dev/infiniband", "/dev/aperture_devices", "/home/kubernetes/bin", "/mnt", "/opt", "/run/tcpx", "/usr/local/nvidia")
_SIDECAR_PATHS = ("/sys", "/proc/sys")


def reserved_variable_error(name: str) -> str | None:
    if _RESERVED_VARIABLES.fullmatch(name):
        return "the launcher sets it; expected another variable"
    if is_secret_name(name):
        return "its name is that of a secret, but declarations are public; expected a Secret of the namespace, by valueFrom in pod_patch"
    return None


def is_secret_name(name: str) -> bool:
    return _SECRET.search(name) is not None


def reserved_metadata_error(key: str) -> str | None:
    return "the launcher sets it; expected another key" if key.startswith(RESERVED_METADATA) else None


def host_path_error(path: str, *, sidecar: bool) -> str | None:
    """Why a path of the node may not be mounted, or None. Allowed are device files, drivers and scratch disks that clouds document.
    `sidecar`: for a side container only."""
    allowed = _HOST_PATHS + (_SIDECAR_PATHS if sidecar else ())
    if ".." not in path.split("/") and is_within(path, allowed):
        return None
    if is_within(path, _SIDECAR_PATHS):
        return f'"{path}" of the node is for sidecars only; expected no `mount`, and the volume in the sidecar\'s mounts'
    return f'"{path}" of the node may not be mounted; expected a path below {", ".join(allowed)}'


def has_registry(image: str) -> bool:
    host, slash, _ = image.partition("/")
    return bool(slash) and ("." in host or ":" in host or host == "localhost")


def is_within(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def _check_variables(values: dict[str, str]) -> dict[str, str]:
    for name in values:
        if (why := reserved_variable_error(name)) is not None:
            raise ValueError(f'"{name}": {why}')
    return values


def _check_metadata_keys(values: dict[str, str]) -> dict[str, str]:
    for key in values:
        if (why := reserved_metadata_error(key)) is not None:
            raise ValueError(f'"{key}": {why}')
    return values


Variables = Annotated[
    dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="name of an environment variable")], str],
    AfterValidator(_check_variables),
]
"""Environment variables; text alone: `"1"`, not `1`."""
Labels = Annotated[dict[Key, LabelValue], AfterValidator(_check_metadata_keys)]
Annotations = Annotated[dict[Key, str], AfterValidator(_check_metadata_keys)]


class HostPath(Declared):
    """A folder or device of the node."""

    path: AbsolutePath
    type: Literal["Directory", "DirectoryOrCreate", "File", "CharDevice", "Socket"] | None = None


class EmptyDir(Declared):
    """Scratch space that ends with the pod; on the node's disk unless `medium` says otherwise."""

    medium: Literal["Memory", "HugePages", "HugePages-2Mi", "HugePages-1Gi"] | None = None
    size: ByteSize | None = None


class Mount(Declared):
    """Where a container sees a volume."""

    volume: Name
    path: AbsolutePath
    sub_path: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$")] | None = None
    read_only: bool = False


class Volume(Declared):
    """A volume of the pod: exactly one of `host_path`, `empty_dir` and `claim`. `mount` is where the trial itself sees it."""

    name: Name
    host_path: HostPath | None = None
    empty_dir: EmptyDir | None = None
    claim: ObjectName | None = Field(None, description="a PersistentVolumeClaim in the namespace")
    mount: AbsolutePath | None = Field(None, description="where the trial sees it; left out: only sidecars and init containers do")
    read_only: bool = Field(False, description="of the trial's mount")

    @model_validator(mode="after")
    def _one_source(self) -> Volume:
        given = [name for name in ("host_path", "empty_dir", "claim") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"{' and '.join(given) or 'no source'} given; expected exactly one of host_path, empty_dir and claim")
        if self.name in RESERVED_VOLUMES:
            raise ValueError(f'"{self.name}" is a volume of every trial; expected another name')
        if self.mount is not None and is_within(self.mount, RESERVED_PATHS):
            raise ValueError(f'"{self.mount}" is the trial\'s own; expected a path outside {", ".join(RESERVED_PATHS)}')
        if self.host_path is not None:
            why = host_path_error(self.host_path.path, sidecar=self.mount is None)
            if why is not None:
                raise ValueError(why)
        return self


class SideContainer(Declared):
    """A container beside the trial: before it (`init_containers`), or from before its start to its end (`sidecars`, Kubernetes ≥ 1.29).

    It runs as the pod's ordinary user without capabilities unless the declaration says otherwise.
    """

    name: Name
    image: VendorImage
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: Variables = Field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    cpu: Annotated[int, Field(ge=1, le=256)] = Field(1, description="whole cores, beside those of the trial")
    memory: ByteSize = Field(2.0**30, description="beside that of the trial")
    run_as_root: bool = Field(False, description="as the cloud's daemon may need")
    capabilities: tuple[Literal["IPC_LOCK", "NET_ADMIN", "NET_BIND_SERVICE"], ...] = ()
    privileged: bool = Field(False, description="all devices and capabilities of the node; only where the cloud documents no other way")

    @model_validator(mode="after")
    def _check_container(self) -> SideContainer:
        if self.name in ("harness", "node"):
            raise ValueError(f'name "{self.name}" is that of the trial\'s own container; expected another')
        if self.image.endswith(":latest"):
            raise ValueError(f'image "{self.image}" changes under its name; expected a tag that names a version, or a digest')
        return self


def check_mounts(volumes: tuple[Volume, ...], containers: tuple[SideContainer, ...]) -> None:
    """ValueError for names that are declared twice and mounts of volumes that are not declared."""
    for what, names in (("volumes", [v.name for v in volumes]), ("sidecars and init_containers", [c.name for c in containers])):
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f'{what} name "{name}" twice; expected names of their own')
    known = {volume.name for volume in volumes}
    for container in containers:
        for mount in container.mounts:
            if mount.volume not in known:
                raise ValueError(
                    f'"{container.name}" mounts the volume {mount.volume}, which is not declared; '
                    f"expected one of {', '.join(sorted(known)) or '(none declared in volumes)'}"
                )


# `pod_patch`: which strategic merge patches on a trial's pod may be declared.
#
# A patch adds what no field of the launcher covers. It may neither weaken the pod's security nor change what the launcher needs to start, find and
# end the trial: the lists of fields are closed. Merge keys: the Kubernetes API's own (`patchMergeKey` of PodSpec and Container, 1.36).


MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "topologySpreadConstraints": "topologyKey",
    "hostAliases": "ip",
    "env": "name",
    "ports": "containerPort",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
}
"""Lists whose entries merge by a key. Every other list is replaced as a whole, tolerations among them."""
DIRECTIVE = "$patch"

_FREE_FIELDS = ("affinity", "nodeSelector", "tolerations", "dnsPolicy", "dnsConfig", "hostAliases", "schedulerName", "preemptionPolicy")
_SPEC_FIELDS = (
    *_FREE_FIELDS,
    "schedulingGates",
    "readinessGates",
    "resourceClaims",
    "topologySpreadConstraints",
    "volumes",
    "initContainers",
    "containers",
)
_LAUNCHER_FIELD_OF = {
    "hostNetwork": "host_network",
    "hostIPC": "host_ipc",
    "serviceAccountName": "service_account",
    "priorityClassName": "priority_class",
    "runtimeClassName": "runtime_class",
    "imagePullSecrets": "image_pull_secrets",
    "activeDeadlineSeconds": "timeout",
}
_LAUNCHER_OWNED = (
    *("hostPID", "hostUsers", "shareProcessNamespace", "automountServiceAccountToken", "serviceAccount", "ephemeralContainers"),
    *("restartPolicy", "nodeName", "hostname", "hostnameOverride", "subdomain", "setHostnameAsFQDN", "terminationGracePeriodSeconds"),
    *("enableServiceLinks", "priority", "overhead", "os", "resources", "schedulingGroup"),
)
_SECURITY_FIELDS = ("supplementalGroups", "supplementalGroupsPolicy", "fsGroupChangePolicy", "sysctls")
_TRIAL_CONTAINER_FIELDS = ("env", "envFrom", "ports", "volumeMounts", "volumeDevices", "resources")
_SIDE_CONTAINER_FIELDS = (*_TRIAL_CONTAINER_FIELDS, "lifecycle", "startupProbe", "livenessProbe", "readinessProbe", "workingDir")
_CONTAINER_OWNED = ("image", "command", "args", "securityContext", "imagePullPolicy", "terminationMessagePolicy", "restartPolicy")
_TRAINJOB_SPEC = ("affinity", "nodeSelector", "tolerations", "schedulingGates", "volumes", "securityContext", "containers")
_TRAINJOB_CONTAINER = ("env", "volumeMounts")

Violation = tuple[FieldPath, str]


def check_patch(patch: Mapping[str, Any], containers: Collection[str], *, trainjob: bool) -> None:
    """ValueError with the first invalid field of the patch. `containers`: names of the declared side containers."""
    for where, why in _violations(patch, containers, trainjob):
        raise ValueError(f"pod_patch.{format_path(where)} {why}")


def _violations(patch: Mapping[str, Any], containers: Collection[str], trainjob: bool) -> Iterator[Violation]:
    yield from _unknown_keys(patch, (), ("metadata", "spec"), "a patch has metadata and spec")
    yield from _patch_metadata(patch.get("metadata", {}))
    spec = patch.get("spec", {})
    if not isinstance(spec, dict):
        yield ("spec",), "is not a mapping; expected fields of a pod's specification, such as schedulerName"
        return
    yield from _patch_spec(spec, trainjob)
    yield from _merge_lists(spec, ("spec",))
    yield from _patch_volumes(spec.get("volumes") or ())
    for field, names, allowed in (
        ("containers", ("harness",), _TRIAL_CONTAINER_FIELDS),
        ("initContainers", containers, _SIDE_CONTAINER_FIELDS),
    ):
        for i, container in enumerate(spec.get(field) or ()):
            yield from _patch_container(container, ("spec", field, i), names, _TRAINJOB_CONTAINER if trainjob else allowed)


def _unknown_keys(row: Any, where: FieldPath, allowed: Collection[str], what: str) -> Iterator[Violation]:
    if not isinstance(row, dict):
        yield where, f"is not a mapping; {what}"
        return
    for key in row:
        if key not in allowed:
            near = get_close_matches(str(key), allowed, n=1)
            yield (*where, key), f"is not allowed here; {f'did you mean {near[0]}? ' if near else ''}expected one of {', '.join(allowed)}"


def _patch_metadata(metadata: Any) -> Iterator[Violation]:
    yield from _unknown_keys(metadata, ("metadata",), ("labels", "annotations"), "expected labels, annotations or both")
    for field, values in metadata.items() if isinstance(metadata, dict) else ():
        if not isinstance(values, dict):
            yield ("metadata", field), "is not a mapping; expected a mapping of keys to text"
            continue
        for key, value in values.items():
            if (why := reserved_metadata_error(key)) is not None:
                yield ("metadata", field, key), f": {why}"
            elif key.startswith("$") or not isinstance(value, str | None):
                yield ("metadata", field, key), "is not text; expected text, or null to remove the key"


def _patch_spec(spec: dict[str, Any], trainjob: bool) -> Iterator[Violation]:
    allowed = (*_SPEC_FIELDS, "securityContext")
    for field, value in spec.items():
        where: FieldPath = ("spec", field)
        if field in _LAUNCHER_FIELD_OF:
            yield where, f"has its own field; expected launcher.{_LAUNCHER_FIELD_OF[field]}"
        elif field in _LAUNCHER_OWNED:
            yield where, "is reserved for the launcher; expected a patch without it"
        elif field == "securityContext":
            yield from _unknown_keys(value, where, _SECURITY_FIELDS, "the rest of the pod's security context may not change")
        elif field not in allowed:
            yield from _unknown_keys({field: value}, ("spec",), allowed, "")
        elif trainjob and field not in _TRAINJOB_SPEC:
            yield where, f"cannot be set in a TrainJob; expected one of {', '.join(_TRAINJOB_SPEC)}, or gang: jobset or pods"
        elif isinstance(value, dict):
            yield from _directives(value, where, top=True)


def _directives(value: Any, where: FieldPath, *, top: bool) -> Iterator[Violation]:
    """Directives below a field that merges as a mapping: the field itself may be replaced, nothing else."""
    for key, inner in value.items() if isinstance(value, dict) else ():
        if key.startswith("$") and not (top and key == DIRECTIVE and inner == "replace"):
            yield (*where, key), "is not a valid directive; expected $patch: replace, on the field itself"
        yield from _directives(inner, (*where, key), top=False)


def _merge_lists(row: dict[str, Any], where: FieldPath) -> Iterator[Violation]:
    """Lists that merge by a key: each entry has it, and directives are deletions of an entry."""
    for field, key in MERGE_KEYS.items():
        if field not in row:
            continue
        entries = row[field]
        if not isinstance(entries, list):
            yield (*where, field), f"is not a list; expected a list of entries, each with {key}"
            continue
        for i, entry in enumerate(entries):
            at = (*where, field, i)
            if not isinstance(entry, dict) or not isinstance(entry.get(key), str | int):
                yield at, f"has no merge key {key}; expected one"
                continue
            if entry.get(DIRECTIVE, "delete") != "delete" or any(k.startswith("$") and k != DIRECTIVE for k in entry):
                yield at, "has an unknown directive; expected $patch: delete"
            yield from _merge_lists(entry, at)


def _patch_volumes(volumes: Any) -> Iterator[Violation]:
    for i, volume in enumerate(volumes if isinstance(volumes, list) else ()):
        if not isinstance(volume, dict):
            continue  # _lists says so
        where: FieldPath = ("spec", "volumes", i)
        if volume.get("name") in RESERVED_VOLUMES:
            yield where, f"({volume['name']}) is a reserved volume; expected another name"
        if "hostPath" in volume:
            path = volume["hostPath"].get("path") if isinstance(volume["hostPath"], dict) else None
            if (why := host_path_error(str(path), sidecar=False)) is not None:
                yield where, f"hostPath: {why}"


def _patch_container(container: Any, where: FieldPath, names: Collection[str], allowed: Collection[str]) -> Iterator[Violation]:
    if not isinstance(container, dict):
        return  # _lists says so
    name = container.get("name")
    if name not in names:
        instead = "" if "harness" in names else ": declare it in sidecars or init_containers, which bound its rights"
        yield (
            where,
            f"({name}) cannot be patched{instead}; expected one of {', '.join(sorted(names)) or '(none declared)'}",
        )
        return
    for field, value in container.items():
        if field == DIRECTIVE:
            yield where, f"({name}) may not be deleted; expected a patch without it"
        elif field in _CONTAINER_OWNED:
            yield (
                (*where, field),
                "is the launcher's own, and a patch may not change it; expected launcher.images, capabilities or sidecars",
            )
        elif field != "name":
            yield from _unknown_keys({field: value}, where, allowed, "")
    if name == "harness":
        yield from _patch_trial_container(container, where)


def _patch_trial_container(container: dict[str, Any], where: FieldPath) -> Iterator[Violation]:
    for i, entry in enumerate(container.get("env") or ()):
        variable = str(entry.get("name")) if isinstance(entry, dict) else ""
        referred = is_secret_name(variable) and "value" not in entry
        if not referred and (why := reserved_variable_error(variable)) is not None:
            yield (*where, "env", i), f"({variable}): {why}"
    for i, mount in enumerate(container.get("volumeMounts") or ()):
        path = str(mount.get("mountPath")) if isinstance(mount, dict) else ""
        if path == "/" or is_within(path.rstrip("/"), RESERVED_PATHS):
            yield (*where, "volumeMounts", i), f"({path}) is the trial's own; expected a path outside {', '.join(RESERVED_PATHS)}"
    yield from _unknown_keys(
        container.get("resources", {}), (*where, "resources"), ("claims",), "expected claims; declare other resources in launcher.resources"
    )
