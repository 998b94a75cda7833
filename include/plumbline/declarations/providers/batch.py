"""Launchers of machines that people log in to: a Slurm cluster behind its login node, or machines by SSH."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, field_validator

from plumbline.declarations.base import ConnectionId
from plumbline.declarations.providers.launcher_base import COLLECTIVE_LIMIT_S, LauncherBase, Retries
from plumbline.declarations.providers.pods import AbsolutePath, Variables
from plumbline.metrics.units import ByteSize, Duration

if TYPE_CHECKING:
    from plumbline.declarations.workloads.any_workload import AnyWorkload

# What becomes one word of a command line of Slurm's.
_Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:,&|!*()\[\]+-]{0,199}$")]
_Line = Annotated[str, Field(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f\x7f]+$")]
_Port = Annotated[int, Field(ge=1024, le=65535)]


class BatchLauncher(LauncherBase):
    """Trials are commands of machines that an Airflow connection of type ssh logs in to; they go on without the connection."""

    folder: AbsolutePath = Field(
        description="where the harness and the trials' files are put; of a cluster and of several machines one that all nodes share"
    )
    python: AbsolutePath = Field(
        description="the Python of an environment there with the harness's packages, such as /opt/plumbline/bin/python"
    )
    setup: tuple[_Line, ...] = Field(
        (), max_length=50, description="lines of shell before the harness starts, such as module load cuda/12.8"
    )
    env: Variables = Field(default_factory=dict, description='such as {NCCL_SOCKET_IFNAME: eth0}; values are text: "1"; never a secret')
    rendezvous_port: _Port = Field(29400, description="port of a gang's first node, where the others meet it")
    models_cache: AbsolutePath | None = Field(None, description="folder there where fetched checkpoints outlive a trial")
    schedule_timeout: Duration = Field(1800.0, description="request to a node, queue included")
    startup_timeout: Duration = Field(300.0, description="node to the harness's first sign of life")
    timeout: Duration = Field(14400.0, description="time limit of a trial, kept where it runs, also without Airflow")
    unreachable_timeout: Duration = Field(900.0, description="how long the login may be unreachable while a trial runs")
    collective_timeout: Duration = Field(
        COLLECTIVE_LIMIT_S,
        ge=1,
        description="time limit of a probe's collectives, including NCCL's start, which takes minutes on many nodes",
    )
    retries: int = Field(2, ge=0, le=10, description="tries after the first, after a temporary failure (preempted, no capacity, quota…)")
    retry_delay: Duration = Field(300.0, description="before the first retry; doubled before each further one")
    poll: Duration = Field(15.0, ge=1, description="interval of polls; one call asks for all trials of the provider")

    outlasts_task: ClassVar[bool] = True

    @property
    def start_wait_s(self) -> float:
        return float(self.schedule_timeout + self.startup_timeout)

    @property
    def retry(self) -> Retries:
        return Retries(self.retries, self.retry_delay, doubled=True)

    @property
    def given_variables(self) -> frozenset[str]:
        return frozenset(self.env)

    def unsuitable(self, workload: AnyWorkload) -> str | None:
        if (wrong := super().unsuitable(workload)) is not None:
            return wrong
        return self.unsent_files(workload, "which are not sent there", "the folder that has them")


class SlurmLauncher(BatchLauncher):
    """Jobs of a Slurm cluster; on Kubernetes (Slinky, Soperator) too."""

    implementation = "plumbline.launch.batch.launcher:SlurmJobs"
    kind: Literal["slurm"]
    connection: ConnectionId | None = Field(
        None, description="Airflow connection of type ssh to a login node; omitted where this machine has sbatch itself"
    )
    partition: _Word | None = None
    account: _Word | None = None
    qos: _Word | None = None
    reservation: _Word | None = None
    constraint: _Word | None = Field(None, description="features that a node must have, as sbatch --constraint takes them")
    exclusive: bool = Field(True, description="the whole of each node, so that no other job is measured with it")
    gres: _Word | None = Field(
        None, description="what of a node's accelerators a trial asks for, without a count: gpu, gpu:h100; gpu if omitted"
    )
    cores: int | None = Field(None, ge=1, le=4096, description="cores of each node; the declared accelerators where they are cores")
    memory: ByteSize | None = Field(None, description="of each node; the partition's default if omitted")
    image: _Line | None = Field(None, description="container image for pyxis and enroot (srun --container-image), whose Python is `python`")
    parallel: int = Field(1, ge=1, le=1000, description="trials at a time, as many as the quota allows; a gang is one trial")
    operated_by: Literal["us", "provider"] = Field(
        "us",
        description="who else fills and closes the nodes; `provider`: the provider alone, so that a long queue is its lack of capacity",
    )

    @property
    def trials_at_a_time(self) -> int:
        return self.parallel

    @property
    def connections(self) -> tuple[str, ...]:
        return () if self.connection is None else (self.connection,)

    @property
    def most_nodes(self) -> int:
        return 4096

    def nodes_of_a_trial(self, rented: int) -> int:
        return rented


class SshLauncher(BatchLauncher):
    """Machines that are logged in to by SSH; several make a gang."""

    implementation = "plumbline.launch.batch.launcher:SshMachines"
    kind: Literal["ssh"]
    logins: tuple[ConnectionId, ...] = Field(
        min_length=1, max_length=256, description="Airflow connections of type ssh, one a machine, in the order of ranks"
    )

    @field_validator("logins")
    @classmethod
    def _distinct(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(value)) != len(value):
            raise ValueError("logins names a machine twice; expected one connection for each machine")
        return value

    @property
    def connections(self) -> tuple[str, ...]:
        return self.logins

    @property
    def most_nodes(self) -> int:
        return len(self.logins)
