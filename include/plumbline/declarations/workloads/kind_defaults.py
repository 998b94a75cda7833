"""What kinds of workloads answer differently, with the answer of one that has none of it."""

from __future__ import annotations

from collections.abc import Mapping

from plumbline.declarations.base import Declared
from plumbline.declarations.workloads.container_metric import ContainerMetric, catalogue_with
from plumbline.metrics import Metric


class KindDefaults:
    """Base of Workload. A kind's class overrides what is true of it; each caller asks the workload, never for its class."""

    @property
    def nodes(self) -> int:
        """Nodes of one trial."""
        return 1

    @property
    def own_image(self) -> str | None:
        """The image of its pods, which replaces the provider's."""
        return None

    @property
    def folder_variable(self) -> str | None:
        """The variable that must name the folder of its private files where a trial runs elsewhere; None if the trial brings or fetches them."""
        return None

    @property
    def job(self) -> None:
        """Itself if it runs in steps, so that an interruption makes it start again."""
        return None

    @property
    def serving(self) -> None:
        """Itself if it answers requests, which the load client sends."""
        return None

    @property
    def engine_name(self) -> str:
        """What runs it, as series keys name it."""
        return str(self.task_kind)

    @property
    def task_kind(self) -> str | None:
        """The kind of its task; None of one that has no tasks."""
        return None

    def replicas_on(self, accelerators: int) -> int:
        """Servers of a node with that number of accelerators (of a CPU: cores); at least 1."""
        return 1

    def unfilled_by(self, accelerators: int) -> str | None:
        """Why its load cannot occupy a node with so many accelerators, or None."""
        return None

    @property
    def refused_by_amd(self) -> str | None:
        """Why AMD's GPUs cannot run it, or None."""
        return None

    @property
    def collective_ranks(self) -> int:
        """Ranks on a node whose collectives are probed; 1: none are."""
        return 1

    @property
    def pod_deletions(self) -> int:
        """How often the launcher deletes the trial's pod and starts another."""
        return 0

    @property
    def replacing_fault(self) -> str:
        """The declared fault for which the launcher replaces the trial's pod; empty without one."""
        return ""

    @property
    def step_count(self) -> int | None:
        """Steps of a trial; None of what has none."""
        return None

    @property
    def epoch_size(self) -> int | None:
        """One pass over the data: tokens, or images; None if it is not declared."""
        return None

    @property
    def checkpoint_every(self) -> int | None:
        """Steps between two checkpoints; None without any."""
        return None

    @property
    def number_format(self) -> str | None:
        """The precision of its matrix products, such as bf16; None if it is not declared."""
        return None

    @property
    def reference_precision(self) -> str | None:
        """The precision whose outputs its own are compared with."""
        return None

    @property
    def reference_checkpoint(self) -> Declared | None:
        """The checkpoint whose outputs its own are compared with."""
        return None

    @property
    def weight_shards(self) -> int:
        """Accelerators that each read their part of the weights of one copy of the model."""
        return 1

    @property
    def served_elsewhere(self) -> bool:
        """Whether its server is not started by its trials, so that they see only the client."""
        return False

    @property
    def client_apart(self) -> bool:
        """Whether its client is on another node than its server."""
        return False

    @property
    def scale_out(self) -> Declared | None:
        """The phase in which replicas are watched."""
        return None

    @property
    def prompts_url(self) -> str | None:
        """Where its prompts are, if each trial fetches them."""
        return None

    @property
    def reads_steps_from(self) -> str | None:
        """Where a script's steps are read, in words."""
        return None

    @property
    def own_metrics(self) -> tuple[str, ...]:
        """Names of metrics that its own results hold."""
        return ()

    @property
    def catalogue(self) -> Mapping[str, Metric]:
        """The catalogue with the metrics that it declares."""
        return catalogue_with(self.declared_metrics)

    @property
    def declared_metrics(self) -> Mapping[str, ContainerMetric]:
        """Metrics that it declares beside those of the catalogue, by name."""
        return {}
