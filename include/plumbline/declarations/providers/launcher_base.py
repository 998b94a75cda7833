"""Base of all launcher declarations: what callers ask any kind of launcher."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from typing_extensions import Self

from plumbline.declarations.base import Declared

if TYPE_CHECKING:
    from plumbline.declarations.workloads.any_workload import AnyWorkload

WatchKind = Literal["uptime", "capacity"]
COLLECTIVE_LIMIT_S = 300.0


class RemoteStore(NamedTuple):
    """A result store that trials write to directly, and the Airflow connection with its credentials; None: the environment's."""

    url: str
    connection: str | None


class ModelAccess(NamedTuple):
    """How trials get checkpoints. `mirror` replaces the hub; `cache` is a folder that outlives a trial, None: the trial's own scratch disk or
    the installation's cache."""

    mirror: str | None = None
    cache: str | None = None


class Retries(NamedTuple):
    """Further attempts after a temporary failure. `doubled`: each delay is twice the last."""

    times: int
    delay_s: float
    doubled: bool


class LauncherBase(Declared):
    """Base of all launcher declarations. The defaults are those of a process on this machine."""

    if TYPE_CHECKING:
        kind: str

    implementation: ClassVar[str] = ""
    """`module:class` of the launcher, imported when it is first needed."""
    runs_pods: ClassVar[bool] = False
    """Trials are pods of a Kubernetes cluster: each sees only its own accelerators, and a retry may get another node."""
    counts_nodes: ClassVar[bool] = False
    """Its uptime is that of nodes, which are counted."""
    facts_from_api: ClassVar[bool] = False
    """Environment checks read the nodes' facts from its API; trials report only some of them in the same format."""
    outlasts_task: ClassVar[bool] = False
    """Trials go on without the task that started them: what an ended task leaves is settled, swept and counted."""
    chooses_nodes: ClassVar[bool] = False
    """A trial can be kept off named nodes, or on one."""
    hosted: ClassVar[bool] = False
    """Another party serves the model: only the client runs here."""
    simulated: ClassVar[bool] = False
    """No machine: its results never mix with measured ones."""
    watches: ClassVar[frozenset[WatchKind]] = frozenset()
    """What can be watched between campaigns: the uptime of an endpoint or a cluster, the capacity of a cluster."""
    not_provisioned: ClassVar[str | None] = None
    """Why no lead time of provisioning exists; None where trials wait for a machine."""
    not_scalable: ClassVar[str | None] = None
    """Why launches of more nodes cannot be measured; None where they can."""

    @property
    def trial_limit_s(self) -> float:
        """Seconds after which a running trial is ended; 0 where nothing runs."""
        return float(getattr(self, "timeout", 0.0))

    @property
    def start_wait_s(self) -> float | None:
        """Seconds that a launch may wait for a node and its containers; None where it waits for this machine only."""
        return None

    @property
    def unreachable_s(self) -> float:
        """Seconds that a running trial may be unreachable."""
        return float(getattr(self, "unreachable_timeout", 0.0))

    @property
    def gang_assembly_s(self) -> float:
        """Seconds that the nodes of a job wait for each other; at least as long as the launcher, which knows what is missing."""
        return 120.0 if self.start_wait_s is None else self.start_wait_s

    @property
    def retry(self) -> Retries:
        """Airflow's retries after a temporary failure."""
        return Retries(2, 5.0, doubled=False)

    @property
    def trials_at_a_time(self) -> int:
        """On one machine two trials measure each other."""
        return 1

    @property
    def machine_name(self) -> str | None:
        """The machine that providers share; None where trials of the provider share it with no other provider."""
        machine: str | None = getattr(self, "machine", None)
        return machine

    @property
    def cpus_here(self) -> tuple[int, ...]:
        """Cores of this machine that a trial is pinned to."""
        return tuple(getattr(self, "cpus", ()))

    @property
    def collective_s(self) -> float:
        """Seconds that the collectives of a hardware probe may take."""
        return float(getattr(self, "collective_timeout", COLLECTIVE_LIMIT_S))

    @property
    def remote_store(self) -> RemoteStore | None:
        """Where trials write; None for the installation's own store."""
        return None

    @property
    def model_access(self) -> ModelAccess:
        """Where trials get checkpoints from, and where they stay."""
        return ModelAccess(getattr(self, "models_url", None), getattr(self, "models_cache", None))

    @property
    def main_memory(self) -> float | None:
        """Bytes that a trial's processes may use together; None where none are declared."""
        return None

    def nodes_of_a_trial(self, rented: int) -> int:
        """Machines that a trial of the monthly rerun may take at most. `rented`: the provider's nodes."""
        return self.most_nodes

    @property
    def most_nodes(self) -> int:
        """Nodes that a trial can have on one machine."""
        return 1

    def machines(self, nodes: int) -> int:
        """Machines that so many nodes of a trial are."""
        return nodes

    @property
    def patched(self) -> bool:
        """Whether the declaration changes what a launch creates by a patch of its own."""
        return False

    @property
    def given_variables(self) -> frozenset[str]:
        """Names of the variables that are declared for what runs in a trial's pod."""
        return frozenset()

    @property
    def connections(self) -> tuple[str, ...]:
        """Airflow connections that a launch or discovery needs."""
        return ()

    @property
    def cores_per_trial(self) -> float | None:
        """Cores of a trial that a rate bills; None where none are declared."""
        return None

    @property
    def accelerator_resource(self) -> str | None:
        """The extended resource of a trial's accelerators; None where they are not requested."""
        return None

    @property
    def checkpoint_volume(self) -> bool:
        """Whether checkpoints lie on a volume that is billed."""
        return False

    @property
    def remote_memory(self) -> str | None:
        """The declared resource of adapters that reach memory themselves (RDMA, EFA); None without one."""
        return None

    @property
    def ephemeral_storage(self) -> float | None:
        """Declared scratch disk of a trial in bytes; None: no bound is declared."""
        return None

    def image_for(self, kind: str, own: str | None = None) -> str | None:
        """The image that runs trials of a kind, or a workload's `own`; None where trials run without one."""
        return None

    def repriced(self, factor: float) -> Self:
        """The declaration with every price in it multiplied by `factor`."""
        return self

    def skips(self, workload: str, at: datetime) -> bool:
        """Whether the workload is not planned at that time."""
        return False

    def price_changes(self) -> tuple[Any, ...]:
        """Declared changes of the price (`PriceChange` of a simulation), the latest first."""
        return ()

    @property
    def client_place(self) -> str | None:
        """Where the load client runs; None where it is beside the server."""
        return None

    def extend_specification(self, spec: dict[str, Any]) -> None:
        """Add to a specification what the launcher requests beyond the workload."""

    def missing(self, workload: AnyWorkload) -> str | None:
        """A need of the workload that the provider's declaration does not meet, or None."""
        return None

    def unsuitable(self, workload: AnyWorkload) -> str | None:
        """Why trials of the workload cannot be launched this way, or None. The default is that of one machine."""
        if (wrong := self.server_mismatch(workload)) is not None:
            return wrong
        if workload.pod_deletions:
            fault, kind = workload.replacing_fault, self.kind
            return f"its fault {fault} needs the kubernetes launcher, but launcher.kind is {kind}; expected rank_kill or group_kill"
        nodes, most = workload.nodes, self.most_nodes
        return f"it needs {nodes} nodes, but a {self.kind} provider has {'one' if most == 1 else most}" if nodes > most else None

    def unsent_files(self, workload: AnyWorkload, why: str, folder: str) -> str | None:
        """Why a workload with private files cannot run elsewhere, unless a variable names `folder` there; None if it has none, or one does."""
        variable = workload.folder_variable
        if variable is None or variable in self.given_variables:
            return None
        what, instead = ("task.files", "git") if workload.kind == "training" else ("requests.prompts", "url")
        return f"its {what} are private files, {why}; expected source: {instead}, or launcher.env with {variable} as {folder}"

    def server_mismatch(self, workload: AnyWorkload) -> str | None:
        """Whether the launcher starts the workload's server, with the client beside it."""
        if workload.kind == "training":
            return None
        backend, placement = workload.server.backend, workload.server.client_placement
        if backend == "external":
            return f"its server.backend is external, but a {self.kind} provider starts the server; expected an endpoint, or launcher.serving of a cluster"
        if placement != "same_node":
            where = placement.replace("_", " ")
            return f"its client is on {where} than the server, but a {self.kind} provider runs both on one node; expected same_node"
        return None
