"""How trials reach a provider: local process, Kubernetes pods, hosted endpoint or simulation; `defaults.yaml` for clusters."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, JsonValue, model_validator

from plumbline.declarations.base import ConnectionId, Declared, Name, extensible, is_archived
from plumbline.declarations.providers.batch import SlurmLauncher, SshLauncher
from plumbline.declarations.providers.endpoint import ClientPlace, EndpointLauncher
from plumbline.declarations.providers.launcher_base import COLLECTIVE_LIMIT_S, LauncherBase, RemoteStore, Retries, WatchKind
from plumbline.declarations.providers.pod_patch import check_patch, variables_of_patch
from plumbline.declarations.providers.pods import (
    AbsolutePath,
    Annotations,
    Image,
    Key,
    Labels,
    ObjectName,
    PodResources,
    Registry,
    SideContainer,
    Variables,
    Volume,
    check_mounts,
    has_registry,
    is_within,
)
from plumbline.declarations.providers.serving import Serving
from plumbline.declarations.providers.simulation import SimulatedLauncher
from plumbline.declarations.urls import DeclaredUrl, sends_in_clear
from plumbline.metrics.units import ByteSize, Duration

if TYPE_CHECKING:
    from plumbline.declarations.workloads.any_workload import AnyWorkload

_COLLECTIVE_DESCRIPTION = "time limit of a probe's collectives, including NCCL's start, which takes minutes on many or large nodes"


ModelsUrl = Annotated[DeclaredUrl, Field(pattern=r"^(https?|s3|gs|gcs|az|abfs|abfss)://[^\s?#@]+$|^file:///[^\s?#]+$")]
_MODELS_URL = "mirror of the hub: http(s)://… with the hub's API, or a store such as s3://bucket/models with <owner>/<name>/<revision>/; the hub if omitted"


class LocalLauncher(LauncherBase):
    """A process on this machine. Trials on the same `machine` never overlap: one Airflow pool per machine, one slot."""

    implementation = "plumbline.launch.local.process_launcher:ProcessLauncher"
    kind: Literal["local"]
    machine: Name = Field("this-machine", description="providers that share hardware name the same machine")
    cpus: tuple[Annotated[int, Field(ge=0, le=4095)], ...] = Field(min_length=1, description="cores the trial is pinned to, such as [0, 1]")
    memory: ByteSize = Field(4 * 2.0**30, description="limit of the trial's resident memory, all processes together")
    nodes: int = Field(
        1,
        ge=1,
        le=16,
        description="most nodes of a trial: harnesses on loopback, each on an equal part of cpus, to try what runs on several nodes",
    )
    timeout: Duration = Field(600.0, description="time limit of a trial, which then ends with all its processes")
    collective_timeout: Duration = Field(COLLECTIVE_LIMIT_S, ge=1, description=_COLLECTIVE_DESCRIPTION)
    models_url: ModelsUrl | None = Field(None, description=_MODELS_URL)
    models_cache: AbsolutePath | None = Field(
        None, description="folder where fetched checkpoints stay; the installation's cache if omitted"
    )
    models_connection: ConnectionId | None = Field(
        None,
        description="Airflow connection with the hub's token as its password, or with the credentials of the checkpoints' or data's store",
    )

    @model_validator(mode="after")
    def _consistent(self) -> LocalLauncher:
        if not is_archived() and self.models_connection and self.models_url and sends_in_clear(self.models_url):
            raise ValueError(
                f"models_url has the scheme http, which would send the token of {self.models_connection} in clear; expected https://"
            )
        if len(set(self.cpus)) != len(self.cpus):
            raise ValueError(f"cpus {list(self.cpus)} names a core twice; expected distinct cores such as [0, 1]")
        return self

    not_scalable: ClassVar[str | None] = "a single machine"

    @property
    def most_nodes(self) -> int:
        return self.nodes

    def machines(self, nodes: int) -> int:
        return 1

    def unsuitable(self, workload: AnyWorkload) -> str | None:
        nodes, needs = workload.nodes, workload.needs
        if (wrong := super().unsuitable(workload)) is not None or nodes == 1:
            return wrong
        if needs.accelerator != "cpu":
            return f"it needs {nodes} nodes, which would share this machine's GPUs; expected a kubernetes provider"
        if needs.count * nodes > len(self.cpus):
            return f"it needs {needs.count} cpu on each of {nodes} nodes, but launcher.cpus has {len(self.cpus)}"
        return None

    @property
    def main_memory(self) -> float | None:
        return float(self.memory)


class Images(Declared):
    """The harness images by kind of workload."""

    training: Image | None = None
    inference: Image | None = None

    @model_validator(mode="after")
    def _require_an_image(self) -> Images:
        if self.training is None and self.inference is None:
            raise ValueError("has no image; expected training, inference or both")
        return self


class Toleration(Declared):
    """A taint that the provider's nodes carry and its trials accept."""

    key: Key
    operator: Literal["Exists", "Equal"] = "Exists"
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"

    @model_validator(mode="after")
    def _consistent(self) -> Toleration:
        if (self.operator == "Equal") != (self.value is not None):
            raise ValueError(f"operator {self.operator} with value {self.value!r}; expected a value exactly with Equal")
        return self


class KubernetesLauncher(LauncherBase):
    """Pods on a GPU cluster, reached through an Airflow connection."""

    implementation = "plumbline.launch.cluster.launcher:ClusterLauncher"
    kind: Literal["kubernetes"]
    connection: ConnectionId = Field(description="Airflow connection id that holds the kubeconfig, such as k8s_coreweave")
    namespace: Name = "plumbline"
    images: Images
    registry: Registry | None = Field(None, description="put before images that name no registry: a mirror near the cluster")
    resources: PodResources
    gpu_resource: Key = Field("nvidia.com/gpu", description="the extended resource of which a trial requests its accelerators")
    node_selector: dict[Key, str] = Field(default_factory=dict, description="labels of the nodes that count as this instance type")
    operated_by: Literal["us", "provider"] = Field(
        "us",
        description="who else fills, closes and updates the nodes; `provider`: the provider alone, so that full or closed nodes are its lack of capacity",
    )
    tolerations: tuple[Toleration, ...] = ()
    topology: Key | None = Field(None, description="node label that a gang's pods should share, such as topology.kubernetes.io/zone")
    gang: Literal["pods", "jobset"] = Field("pods", description="how several nodes start together; `jobset` needs its controller")
    service_account: ObjectName = "plumbline-trial"
    image_pull_secrets: tuple[ObjectName, ...] = ()
    priority_class: ObjectName | None = None
    queue: Name | None = Field(None, description="Kueue LocalQueue that admits the pods")
    runtime_class: ObjectName | None = None
    volume_claim: ObjectName | None = Field(
        None,
        description="PersistentVolumeClaim in the namespace that outlives a pod and can be mounted wherever the next one starts; "
        "trials with the fault pod_delete keep their checkpoints on it",
    )
    models_url: ModelsUrl | None = Field(None, description=_MODELS_URL)
    models_cache: AbsolutePath | None = Field(
        None, description="folder where fetched checkpoints outlive the pod, on one of `volumes`; every trial fetches its own if omitted"
    )
    models_secret: ObjectName | None = Field(
        None,
        description="Secret in the namespace with HF_TOKEN for gated models and data, or the credentials of the checkpoints' or data's store",
    )
    host_ipc: bool = Field(False, description="share the node's IPC namespace; only where NCCL needs it")
    host_network: bool = Field(False, description="share the node's network; NetworkPolicies do not apply to such a pod")
    env: Variables = Field(default_factory=dict, description='such as {NCCL_SOCKET_IFNAME: eth0}; values are text: "1"; never a secret')
    annotations: Annotations = Field(default_factory=dict, description="of the pods, such as those that attach networks")
    labels: Labels = Field(default_factory=dict, description="of the pods")
    capabilities: tuple[Literal["IPC_LOCK"], ...] = Field((), description="added to the trial's container, which otherwise has none")
    supplemental_groups: tuple[Annotated[int, Field(ge=1, le=2**31 - 1)], ...] = Field(
        (), description="further groups of the pods' processes, such as that of a device file"
    )
    volumes: tuple[Volume, ...] = ()
    init_containers: tuple[SideContainer, ...] = Field((), description="run one after the other before the trial starts")
    sidecars: tuple[SideContainer, ...] = Field((), description="run beside the trial, from before its start to its end")
    pod_patch: dict[str, JsonValue] = Field(
        default_factory=dict,
        description="a strategic merge patch on the pod, {metadata: …, spec: …}, for what no field covers; the trial's container is harness",
    )
    serving: Serving | None = Field(
        None, description="the servers of workloads with server.backend external: a Deployment of each trial, which a scaler multiplies"
    )
    parallel: int = Field(1, ge=1, le=1000, description="trials at a time, as many as the quota allows; a gang is one trial")
    schedule_timeout: Duration = Field(1800.0, description="request to a node, queue included")
    startup_timeout: Duration = Field(1800.0, description="node to running containers, image pull included")
    timeout: Duration = Field(14400.0, description="activeDeadlineSeconds of the pods, which end then even without Airflow")
    unreachable_timeout: Duration = Field(900.0, description="how long the cluster's API may be unreachable while a trial runs")
    collective_timeout: Duration = Field(COLLECTIVE_LIMIT_S, ge=1, description=_COLLECTIVE_DESCRIPTION)
    retries: int = Field(2, ge=0, le=10, description="tries after the first, after a temporary failure (preempted, no capacity, quota…)")
    retry_delay: Duration = Field(300.0, description="before the first retry; doubled before each further one")
    poll: Duration = Field(15.0, ge=1, description="interval of polls of the pods")
    results_url: DeclaredUrl = Field(
        pattern=r"^(s3|gs|gcs|az|abfs|abfss)://.+|^file:///.+", description="where the pods write results, such as s3://bucket/plumbline"
    )
    results_secret: ObjectName | None = Field(None, description="Secret in the namespace with the store's credentials, read by the pods")
    results_connection: ConnectionId | None = Field(
        None, description="Airflow connection with the store's credentials; the environment's if omitted"
    )

    @model_validator(mode="after")
    def _check_pod_patch(self) -> KubernetesLauncher:
        check_mounts(self.volumes, (*self.init_containers, *self.sidecars))
        if not is_archived():
            self.check_patch()
        if self.models_cache is not None and not is_within(
            self.models_cache, [v.mount for v in self.volumes if v.mount and not v.read_only]
        ):
            raise ValueError(
                f"models_cache {self.models_cache} is on no volume of the pod; expected a folder below a writable mount of volumes"
            )
        return self

    def check_patch(self) -> None:
        """ValueError with the first invalid field of `pod_patch`, also of a trial that was planned under older rules."""
        check_patch(self.pod_patch, {container.name for container in (*self.init_containers, *self.sidecars)})

    runs_pods: ClassVar[bool] = True
    counts_nodes: ClassVar[bool] = True
    facts_from_api: ClassVar[bool] = True
    outlasts_task: ClassVar[bool] = True
    chooses_nodes: ClassVar[bool] = True
    watches: ClassVar[frozenset[WatchKind]] = frozenset({"uptime", "capacity"})

    @property
    def start_wait_s(self) -> float:
        return float(self.schedule_timeout + self.startup_timeout)

    @property
    def retry(self) -> Retries:
        # Capacity and quotas come back within minutes to hours.
        return Retries(self.retries, self.retry_delay, doubled=True)

    @property
    def trials_at_a_time(self) -> int:
        return self.parallel

    @property
    def remote_store(self) -> RemoteStore:
        return RemoteStore(self.results_url, self.results_connection)

    @property
    def patched(self) -> bool:
        return bool(self.pod_patch)

    @property
    def given_variables(self) -> frozenset[str]:
        return frozenset((*self.env, *variables_of_patch(self.pod_patch)))

    @property
    def connections(self) -> tuple[str, ...]:
        return (self.connection,) if self.results_connection is None else (self.connection, self.results_connection)

    @property
    def cores_per_trial(self) -> float | None:
        return self.resources.cpu

    @property
    def accelerator_resource(self) -> str:
        return self.gpu_resource

    @property
    def checkpoint_volume(self) -> bool:
        return self.volume_claim is not None

    @property
    def main_memory(self) -> float | None:
        return float(self.resources.memory)

    @property
    def remote_memory(self) -> str | None:
        return next((name for name in sorted(self.resources.extended) if re.search(r"rdma|efa$|infiniband|hca|roce", name.lower())), None)

    @property
    def ephemeral_storage(self) -> float | None:
        return self.resources.ephemeral_storage

    def server_mismatch(self, workload: AnyWorkload) -> str | None:
        if workload.kind == "inference" and workload.server.backend == "external" and self.serving is not None:
            return self.serving.endpoint("http://servers").server_mismatch(workload)
        return super().server_mismatch(workload)

    def unsuitable(self, workload: AnyWorkload) -> str | None:
        if (wrong := self.server_mismatch(workload)) is not None:
            return wrong
        return self.unsent_files(workload, "which no pod is sent", "the folder of a volume that has them")

    def missing(self, workload: AnyWorkload) -> str | None:
        if self.image_for(workload.kind, workload.own_image) is None:
            return f"the provider declares no image for {workload.kind} (launcher.images.{workload.kind})"
        if workload.pod_deletions and self.volume_claim is None:
            return (
                f"its fault {workload.replacing_fault} needs checkpoints that outlive the pod, but launcher.volume_claim is not declared; "
                "expected the name of a PersistentVolumeClaim in its namespace"
            )
        return None

    def nodes_of_a_trial(self, rented: int) -> int:
        return rented

    def image_for(self, kind: str, own: str | None = None) -> str | None:
        return self.with_registry(own or (self.images.training if kind == "training" else self.images.inference))

    def with_registry(self, image: str | None) -> str | None:
        if image is None or self.registry is None or has_registry(image):
            return image
        return f"{self.registry}/{image}"


class ClientPodLauncher(KubernetesLauncher):
    """An endpoint whose client is a pod at another provider, whose cluster this is: made of both when the declarations are read."""

    implementation = "plumbline.launch.client_pod:ClientPods"
    kind: Literal["client_pod"]  # type: ignore[assignment]  # another kind, with all of a cluster's fields
    endpoint: EndpointLauncher

    hosted: ClassVar[bool] = True
    watches: ClassVar[frozenset[WatchKind]] = EndpointLauncher.watches
    not_provisioned: ClassVar[str | None] = EndpointLauncher.not_provisioned

    @property
    def trials_at_a_time(self) -> int:
        return self.endpoint.trials_at_a_time

    @property
    def client_place(self) -> str:
        return self.endpoint.client_place

    def extend_specification(self, spec: dict[str, Any]) -> None:
        self.endpoint.extend_specification(spec)

    def server_mismatch(self, workload: AnyWorkload) -> str | None:
        return self.endpoint.server_mismatch(workload)

    def unsuitable(self, workload: AnyWorkload) -> str | None:
        return self.endpoint.unsuitable(workload) or super().unsuitable(workload)


def with_client_at(endpoint: EndpointLauncher, client: ClientPlace, launcher: LauncherBase, at: str) -> LauncherBase | str:
    """The endpoint's launcher with its client at another provider, by that one's `launcher`; why that cannot be, in words."""
    placed = endpoint.model_copy(update={"client": client.model_copy(update={"at": at})})
    if isinstance(launcher, LocalLauncher):
        return placed.model_copy(update={"machine": launcher.machine})
    if not isinstance(launcher, KubernetesLauncher) or isinstance(launcher, ClientPodLauncher):
        return f"{client.provider} has launcher.kind {launcher.kind}, which runs no client; expected a provider of kind local or kubernetes"
    if endpoint.near:
        return f"{endpoint.url} is on the machine of the client, which would be a pod of {client.provider}; expected the server's address there"
    if endpoint.deployment is not None:
        return f"launcher.deployment is read beside a client on this machine, not by a pod of {client.provider}; expected one of them"
    if endpoint.connection is not None and client.secret is None:
        return (
            f"the key of launcher.connection is not sent to a pod of {client.provider}; expected client.secret, a Secret there with the key"
        )
    cluster, client_of = launcher.model_dump(mode="json"), placed.model_dump(mode="json")
    fields = {**cluster, "kind": "client_pod", "timeout": client_of["timeout"], "serving": None, "endpoint": client_of}
    return ClientPodLauncher.model_validate_json(json.dumps(fields))


_OwnLauncher = Annotated[
    LocalLauncher | KubernetesLauncher | SlurmLauncher | SshLauncher | EndpointLauncher | SimulatedLauncher | ClientPodLauncher,
    Field(discriminator="kind"),
]
_EXTENSIBLE = extensible(_OwnLauncher, LauncherBase, "plumbline.launchers")
Launcher = Annotated[_OwnLauncher, _EXTENSIBLE.validator, _EXTENSIBLE.serializer]


class LauncherDefaults(Declared):
    """Defaults of every provider whose launcher is `kubernetes`; `models_url` also of local ones."""

    images: Images | None = Field(None, description="for providers without images")
    registry: Registry | None = Field(None, description="for providers without a registry")
    env: Variables = Field(default_factory=dict, description="variables that a provider's own env does not set")
    models_url: ModelsUrl | None = Field(None, description=f"for providers without one: {_MODELS_URL}")


def apply_defaults(provider: Any, defaults: LauncherDefaults) -> list[str]:
    """Add the defaults to a provider's data, as read from its file; the fields of `launcher` that were added, of `env` each variable."""
    launcher = provider.get("launcher") if isinstance(provider, dict) else None
    if not isinstance(launcher, dict) or launcher.get("kind") not in ("kubernetes", "local"):
        return []
    mirrored = ["models_url"] if defaults.models_url is not None and "models_url" not in launcher else []
    launcher |= dict.fromkeys(mirrored, defaults.models_url)
    if launcher["kind"] == "local":
        return mirrored
    common = defaults.model_dump(mode="json", exclude_none=True)
    added: list[str] = [field for field in ("images", "registry") if field in common and field not in launcher]
    launcher |= {field: common[field] for field in added}
    own = launcher.setdefault("env", {}) if common["env"] else None
    if isinstance(own, dict):
        missing = [name for name in common["env"] if name not in own]
        launcher["env"] = own | {name: common["env"][name] for name in missing}
        added += [f"env.{name}" for name in missing]
    return added + mirrored
