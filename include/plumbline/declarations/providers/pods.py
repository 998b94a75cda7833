"""A trial's pod beyond image and resources: environment, volumes, side containers, and allowed patches."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from plumbline.declarations.base import Declared, Name, is_archived
from plumbline.declarations.secret_texts import is_secret_name
from plumbline.declarations.workloads.remote_code import runs_remote_code
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


def _check_normal(path: str) -> str:
    if (posixpath.normpath(path) != path or ".." in path.split("/")) and not is_archived():
        raise ValueError(f'"{path}" is not normalised; expected a path without . and ..')
    return path


AbsolutePath = Annotated[
    str,
    Field(pattern=r"^(/[A-Za-z0-9._@:+-]+)+$", description="an absolute path without a trailing slash"),
    AfterValidator(_check_normal),
]


class PodResources(Declared):
    """Requests and equal limits of one pod of a trial."""

    cpu: int = Field(ge=1, le=1024, description="whole cores")
    memory: ByteSize = Field(ge=2.0**28, description="such as 64GiB")
    ephemeral_storage: ByteSize | None = Field(None, description="scratch disk, such as 100GiB; computed from each workload if omitted")
    shared_memory: ByteSize = Field(2.0**30, description="size of /dev/shm, counted against memory; NCCL and data loaders need it")
    extended: dict[Key, Annotated[int, Field(ge=1)]] = Field(default_factory=dict, description='further resources, such as {"rdma/ib": 1}')
    hugepages: dict[Literal["2Mi", "1Gi"], ByteSize] = Field(
        default_factory=dict, description="huge pages by their size, such as {2Mi: 5GiB}; beside memory"
    )


RESERVED_VOLUMES = frozenset(["work", "shared-memory", "kept"])
"""Volumes of every trial's pod (`launch/cluster/manifests/templates/pod.yaml`)."""
RESERVED_PATHS = ("/work", "/tmp", "/dev/shm", "/kept")
RESERVED_METADATA = ("plumbline/", "app.kubernetes.io/managed-by", "kueue.x-k8s.io/", "batch.kubernetes.io/", "jobset.sigs.k8s.io/")
"""Prefixes of labels and annotations of the launcher and of controllers."""
_METADATA = (
    *("k8s.v1.cni.cncf.io", "v1.multus-cni.io", "networking.gke.io", "devices.gke.io", "vpc.amazonaws.com", "karpenter.sh"),
    *(
        "cluster-autoscaler.kubernetes.io",
        "scheduling.volcano.sh",
        "volcano.sh",
        "yunikorn.apache.org",
        "app.kubernetes.io",
        "prometheus.io",
    ),
)
"""Prefixes of labels and annotations that attach networks and devices, or that schedulers, autoscalers and monitors read."""
_GKE_DEVICES = re.compile(r"(\s*- path: /dev/(nvidia[a-z0-9-]*|dmabuf_import_helper|infiniband/[a-z0-9_-]+))+\s*")
_RESERVED_VARIABLES = re.compile(r"PLUMBLINE_.*|HOME|TMPDIR|PYTHON.*|JOB_COMPLETION_INDEX|KUBERNETES_.*")
_HOST_PATHS = ("/dev/infiniband", "/dev/aperture_devices", "/home/kubernetes/bin", "/mnt", "/opt", "/run/tcpx", "/usr/local/nvidia")
_SIDECAR_PATHS = ("/sys", "/proc/sys")


def reserved_variable_error(name: str) -> str | None:
    if _RESERVED_VARIABLES.fullmatch(name):
        return "the launcher sets it; expected another variable"
    if runs_remote_code(name):
        return "it makes engines run code of others; expected server.trust_remote_code: true in the workload that needs it"
    if is_secret_name(name):
        return "its name is that of a secret, but declarations are public; expected a Secret of the namespace, by valueFrom in pod_patch"
    return None


def metadata_error(key: str, value: object) -> str | None:
    """Why a pod may not carry this label or annotation, or None. Others give it devices, profiles, identities or containers of their own."""
    if key.startswith(RESERVED_METADATA):
        return "the launcher sets it; expected another key"
    prefix, slash, _ = key.rpartition("/")
    if prefix not in _METADATA if slash else "." in key or key == "aadpodidbinding":  # which gives an identity
        return f"may change the pod's rights; expected a key without prefix and dots, or the prefix {', '.join(_METADATA)}"
    if prefix == "devices.gke.io" and isinstance(value, str) and not _GKE_DEVICES.fullmatch(value):
        return "names other devices; expected lines `- path: …` of /dev/nvidia…, /dev/dmabuf_import_helper and /dev/infiniband/…"
    return None


def mount_error(path: str) -> str | None:
    """Why the trial's container may have no volume at this path, or None."""
    if path != "/" + posixpath.normpath(path).lstrip("/"):  # normpath keeps two slashes at the beginning
        return f'"{path}" is not normalised; expected an absolute path such as /models'
    if is_within(path, RESERVED_PATHS) or any(is_within(own, [path.rstrip("/")]) for own in RESERVED_PATHS):
        return f'"{path}" is or contains what is the trial\'s own; expected a path outside {", ".join(RESERVED_PATHS)}'
    return None


def host_path_error(path: str, *, sidecar: bool) -> str | None:
    """Why a path of the node may not be mounted, or None. Allowed are device files, drivers and scratch disks that clouds document.
    `sidecar`: for a side container only."""
    allowed = _HOST_PATHS + (_SIDECAR_PATHS if sidecar else ())
    if posixpath.normpath(path) == path and is_within(path, allowed):
        return None
    if is_within(path, _SIDECAR_PATHS):
        return f'"{path}" of the node is for sidecars only; expected no `mount`, and the volume in the sidecar\'s mounts'
    return f'"{path}" of the node may not be mounted; expected a path below {", ".join(allowed)}'


def has_registry(image: str) -> bool:
    host, slash, _ = image.partition("/")
    return bool(slash) and ("." in host or ":" in host or host == "localhost")


def is_within(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def _checked(problem: Callable[[str, str], str | None]) -> AfterValidator:
    def check(values: dict[str, str]) -> dict[str, str]:
        for key, value in values.items():
            if (why := problem(key, value)) is not None and not is_archived():
                raise ValueError(f'"{key}": {why}')
        return values

    return AfterValidator(check)


Variables = Annotated[
    dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="name of an environment variable")], str],
    _checked(lambda name, _: reserved_variable_error(name)),
]
"""Environment variables; text alone: `"1"`, not `1`."""
Labels = Annotated[dict[Key, LabelValue], _checked(metadata_error)]
Annotations = Annotated[dict[Key, str], _checked(metadata_error)]


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
    sub_path: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$"), AfterValidator(_check_normal)] | None = None
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
        if self.mount is not None and (why := mount_error(self.mount)) is not None and not is_archived():
            raise ValueError(why)
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
