"""A provider: one place to run trials, how to reach it, what it costs and what its contract promises."""

from __future__ import annotations

from datetime import date
from itertools import pairwise
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from plumbline.declarations.base import Declared, Name
from plumbline.declarations.simulation import PriceChange, SimulatedLauncher
from plumbline.declarations.units import ByteSize, Duration, HourlyPrice, Share

Purchase = Literal["on_demand", "spot", "reserved"]


class Accelerator(Declared):
    """What computes. For a CPU provider `count` is the number of cores a trial may use."""

    kind: Literal["cpu", "nvidia", "amd"]
    product: str | None = Field(None, description="as the device reports itself, such as NVIDIA-H100-80GB-HBM3")
    count: int = Field(ge=1, le=1024)


class LocalLauncher(Declared):
    """A process on this machine. Trials on the same `machine` never overlap: one Airflow pool per machine, one slot."""

    kind: Literal["local"]
    machine: Name = Field("this-machine", description="providers that share hardware name the same machine")
    cpus: tuple[Annotated[int, Field(ge=0, le=4095)], ...] = Field(min_length=1, description="cores the trial is pinned to, such as [0, 1]")
    memory: ByteSize = Field(4 * 2.0**30, description="resident memory of the trial's process tree, above which it is ended")
    timeout: Duration = Field(600.0, description="a trial that is not done by then is ended with its whole process tree")

    @model_validator(mode="after")
    def _distinct(self) -> LocalLauncher:
        if len(set(self.cpus)) != len(self.cpus):
            raise ValueError(f"cpus {list(self.cpus)} names a core twice; expected distinct cores such as [0, 1]")
        return self


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
ObjectName = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$", description="name of a Kubernetes object")]


class Images(Declared):
    """The harness images by kind of workload."""

    training: Image | None = None
    inference: Image | None = None

    @model_validator(mode="after")
    def _any(self) -> Images:
        if self.training is None and self.inference is None:
            raise ValueError("names no image; expected training, inference or both")
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


class PodResources(Declared):
    """What one pod of a trial asks for and may use at most (requests = limits: a trial never shares what it was promised)."""

    cpu: int = Field(ge=1, le=1024, description="whole cores")
    memory: ByteSize = Field(ge=2.0**28, description="such as 64GiB")
    ephemeral_storage: ByteSize | None = Field(None, description="scratch disk, such as 100GiB")
    shared_memory: ByteSize = Field(2.0**30, description="size of /dev/shm, counted against memory; NCCL and data loaders need it")
    extended: dict[Key, Annotated[int, Field(ge=1)]] = Field(default_factory=dict, description='further resources, such as {"rdma/ib": 1}')


class KubernetesLauncher(Declared):
    """Pods on a GPU cluster, reached through an Airflow connection."""

    kind: Literal["kubernetes"]
    connection: str = Field(
        pattern=r"^[A-Za-z0-9_.-]{1,200}$", description="Airflow connection id that holds the kubeconfig, such as k8s_coreweave"
    )
    namespace: Name = "plumbline"
    images: Images
    resources: PodResources
    gpu_resource: Key = Field("nvidia.com/gpu", description="the extended resource of which a trial requests its accelerators")
    node_selector: dict[Key, str] = Field(default_factory=dict, description="labels of the nodes that count as this instance type")
    tolerations: tuple[Toleration, ...] = ()
    topology: Key | None = Field(None, description="node label that a gang's pods should share, such as topology.kubernetes.io/zone")
    gang: Literal["pods", "jobset", "trainjob"] = Field(
        "pods", description="how several nodes start together; the last two need their controllers"
    )
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
    host_ipc: bool = Field(False, description="share the node's IPC namespace; only where NCCL needs it")
    parallel: int = Field(1, ge=1, le=1000, description="trials at a time, as many as the quota allows; a gang is one trial")
    schedule_timeout: Duration = Field(1800.0, description="request to a node, queue included")
    startup_timeout: Duration = Field(1800.0, description="node to running containers, image pull included")
    timeout: Duration = Field(14400.0, description="activeDeadlineSeconds of the pods: they end then, whatever became of Airflow")
    unreachable_timeout: Duration = Field(900.0, description="how long the cluster's API may not answer while a trial runs")
    retries: int = Field(
        2, ge=0, le=10, description="tries after the first, of a failure that time can mend (preempted, no capacity, quota…)"
    )
    retry_delay: Duration = Field(300.0, description="before the first retry; doubled before each further one")
    poll: Duration = Field(15.0, ge=1, description="how often the pods are looked at")
    results_url: str = Field(
        pattern=r"^(s3|gs|gcs|az|abfs|abfss)://.+|^file:///.+", description="where the pods write results, such as s3://bucket/plumbline"
    )
    results_secret: ObjectName | None = Field(None, description="Secret in the namespace with the store's credentials, read by the pods")
    results_connection: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9_.-]{1,200}$",
        description="Airflow connection with the store's credentials; the environment's if left out",
    )

    @model_validator(mode="after")
    def _carried(self) -> KubernetesLauncher:
        given = {"host_ipc": self.host_ipc, "priority_class": self.priority_class, "runtime_class": self.runtime_class}
        refused = [name for name, value in given.items() if value]
        if self.gang == "trainjob" and refused:
            raise ValueError(
                f"gang is trainjob, and a TrainJob cannot set {' or '.join(refused)}; expected gang: jobset or pods, "
                "or the value in the namespace's TrainingRuntime instead of here"
            )
        return self

    def image_for(self, kind: str) -> str | None:
        """The image that runs trials of a kind; None if the provider declares none."""
        return self.images.training if kind == "training" else self.images.inference


class EndpointLauncher(Declared):
    """A model that somebody else hosts behind a URL, for inference: only the client runs, on a machine of ours."""

    kind: Literal["endpoint"]
    url: str = Field(
        pattern=r"^(https?|grpcs?)://[^\s/@?#]+(/[^\s?#]*)?$",
        description="where the model answers, such as https://api.example.com/v1; no user, password or query: it is written into every result",
    )
    protocol: Literal["kserve_grpc", "kserve_http", "openai", "openai_chat"] = Field(
        description="openai: /completions, which also takes token ids; openai_chat: /chat/completions, text only"
    )
    model: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,199}$", description="the model's name at the endpoint, such as gpt or org/chat-8b"
    )
    exact_output: bool = Field(
        True, description="it makes as many tokens as asked for; false: answers may end earlier, and are then no failures but incomparable"
    )
    connection: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9_.-]{1,200}$",
        description="Airflow connection whose password is the API key; none: the endpoint asks for no key",
    )
    machine: Name = Field(
        "this-machine", description="where the client runs; its trials never overlap with others that name the machine, which would slow it"
    )
    timeout: Duration = Field(3600.0, description="a trial that is not done by then is ended")

    @model_validator(mode="after")
    def _speaks(self) -> EndpointLauncher:
        scheme = self.url.partition("://")[0]
        if (self.protocol == "kserve_grpc") != scheme.startswith("grpc"):
            raise ValueError(
                f'url has the scheme "{scheme}", which does not carry {self.protocol}; expected '
                + ("grpc:// or grpcs://" if self.protocol == "kserve_grpc" else "http:// or https://")
            )
        if self.protocol == "kserve_grpc" and self.url.count("/") > 2:
            raise ValueError(f'url "{self.url}" has a path, which gRPC has no place for; expected {scheme}://host:port')
        if self.connection is not None and scheme in ("http", "grpc") and not self.near:
            raise ValueError(
                f'url has the scheme "{scheme}", which would send the key of {self.connection} in clear; expected {scheme}s://'
            )
        return self

    @property
    def near(self) -> bool:
        """Whether the URL names the client's own machine."""
        host = urlsplit(self.url).hostname or ""
        return host in ("localhost", "::1") or host.startswith("127.")


Launcher = Annotated[LocalLauncher | KubernetesLauncher | EndpointLauncher | SimulatedLauncher, Field(discriminator="kind")]


class Price(Declared):
    """A declared price of the whole instance; `source` says who says so."""

    purchase: Purchase
    price: HourlyPrice
    since: date
    until: date | None = None
    source: str = Field(min_length=3, description="where the figure comes from, such as 'contract 2026-114' or a price page with its date")

    @model_validator(mode="after")
    def _dates(self) -> Price:
        if self.until is not None and self.until <= self.since:
            raise ValueError(f"until {self.until} is not after since {self.since}; expected a later date")
        return self


class ServiceLevel(Declared):
    """What the provider's contract promises; scorecards hold it against what was measured."""

    launch_success: Share | None = None
    provisioning_lead_time: Duration | None = None


class Provider(Declared):
    """One YAML file under `include/config/providers/`."""

    name: Name
    enabled: bool = True
    description: str = ""
    cloud: Name
    region: Name
    zone: Name | None = None
    instance_type: str = Field(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    accelerator: Accelerator
    launcher: Launcher
    prices: tuple[Price, ...] = ()
    sla: ServiceLevel = ServiceLevel()
    slots: tuple[Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")], ...] | None = Field(
        None, description='overrides the workloads\' slots for the monthly schedule (UTC), such as ["02:00"]'
    )

    @model_validator(mode="after")
    def _consistent(self) -> Provider:
        if (
            isinstance(self.launcher, LocalLauncher)
            and self.accelerator.kind == "cpu"
            and len(self.launcher.cpus) != self.accelerator.count
        ):
            raise ValueError(
                f"accelerator.count is {self.accelerator.count} but launcher.cpus lists {len(self.launcher.cpus)}; expected one core per count"
            )
        by_purchase: dict[str, list[Price]] = {}
        for price in self.prices:
            by_purchase.setdefault(price.purchase, []).append(price)
        for purchase, prices in by_purchase.items():
            ordered = sorted(prices, key=lambda p: p.since)
            for earlier, later in pairwise(ordered):
                if earlier.until is None or earlier.until > later.since:
                    raise ValueError(
                        f"two {purchase} prices hold on {later.since}; expected `until: {later.since}` or earlier on the first"
                    )
        return self

    @property
    def pool(self) -> str:
        """The Airflow pool that keeps this provider's trials apart from each other."""
        if isinstance(self.launcher, KubernetesLauncher | SimulatedLauncher):
            return f"plumbline_{self.name}"
        return f"plumbline_{self.launcher.machine}"

    @property
    def simulated(self) -> bool:
        """Whether there is no machine behind it: its results never mix with measured ones."""
        return isinstance(self.launcher, SimulatedLauncher)

    @property
    def price_list(self) -> tuple[Price, ...]:
        """Every price, what is to be believed first where two hold on a day: a simulated change, the latest first, then the declared ones."""
        if not isinstance(self.launcher, SimulatedLauncher):
            return self.prices
        changes = sorted((e for e in self.launcher.drift if isinstance(e, PriceChange)), key=lambda e: e.since, reverse=True)
        simulated = (
            Price.model_construct(purchase=e.purchase, price=e.price, since=e.since, until=e.until, source="simulated price change")
            for e in changes
        )
        return (*simulated, *self.prices)

    @property
    def dag_id(self) -> str:
        """The id of the provider's benchmark DAG."""
        return f"benchmark_{self.name.replace('-', '_')}"
