"""Any program in a container: its command, and how its results are read from what it writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, field_validator, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticKnownError

from plumbline.declarations.base import Declared, DeclaredPattern, is_archived
from plumbline.declarations.workloads.container_metric import ContainerMetric, catalogue_with
from plumbline.declarations.workloads.script import OF_HARNESS, PATH, Variable
from plumbline.declarations.workloads.workload import Workload
from plumbline.formats import COMMAND_OUTPUTS, DeclaredNumbers
from plumbline.metrics import METRICS, Metric
from plumbline.metrics.units import Duration


def _registered(name: Any) -> Any:
    if name not in list(COMMAND_OUTPUTS):
        *first, last = [f"'{known}'" for known in COMMAND_OUTPUTS]
        raise PydanticKnownError("literal_error", {"expected": f"{', '.join(first)} or {last}"})
    return name


class _Listed:
    """Metadata of the name of a format: the JSON Schema lists the registered names, as of a Literal."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"enum": list(COMMAND_OUTPUTS), "type": "string"}


OutputName = Annotated[str, BeforeValidator(_registered), _Listed()]
"""The name of a registered format of a command's output."""
_EVERY_CONTAINER = ("command_time", "cost_per_run", "cost_per_finished_run")


class Results(Declared):
    """Where the numbers are: in the output, or in `file` below the folder in which the command starts. Of several nodes, those of node 0."""

    format: OutputName
    file: str | None = Field(None, pattern=PATH, description="the command's output if omitted")
    pattern: DeclaredPattern | None = Field(
        None, min_length=1, max_length=2000, description="of format regex: searched in each line, with named groups"
    )


class ContainerTask(Declared):
    """`command`: started once on each of `nodes`, in an empty folder, with OF_HARNESS set. Declared metrics need the format jsonl or regex; the
    others bring their own.

    `private`: documents, evidence and messages never hold what the command writes."""

    kind: Literal["container"]
    command: tuple[Annotated[str, Field(min_length=1, max_length=4096)], ...] = Field(min_length=1, max_length=200)
    image: str | None = Field(
        None,
        pattern=r"^[^\s@]+@sha256:[0-9a-f]{64}$",
        description="the pod's image, by digest, with the harness in it (k8s/images); the provider's own if omitted",
    )
    environment: dict[Variable, str] = Field(default_factory=dict, max_length=100, description="variables whose values results may show")
    nodes: int = Field(1, ge=1, le=1024)
    expected: Duration | None = Field(None, gt=0, description="how long the command takes, for plans and costs; the time limit if omitted")
    results: Results
    metrics: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")], ContainerMetric] = Field(default_factory=dict, max_length=100)
    private: bool = False

    @field_validator("metrics")
    @classmethod
    def _in_catalogue(cls, value: dict[str, ContainerMetric]) -> dict[str, ContainerMetric]:
        printed = {name for output in COMMAND_OUTPUTS.values() for name in output.metrics}
        for name, each in value.items():
            each.known(name)
            if name in METRICS and name not in printed and not is_archived():
                # Beside what the harness measures it would be taken for that; command_time would even come twice.
                raise ValueError(f"{name} is what the harness itself measures; expected another name for a number that the command prints")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> ContainerTask:
        if taken := sorted(set(self.environment) & set(OF_HARNESS)):
            raise ValueError(f"environment sets {taken[0]}, which the harness sets on each node; expected it omitted")
        COMMAND_OUTPUTS[self.results.format].check(self.declared_numbers)
        return self

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of its metrics."""
        return tuple(self.metrics) or COMMAND_OUTPUTS[self.results.format].metrics

    @property
    def catalogue(self) -> Mapping[str, Metric]:
        """The catalogue with its own metrics."""
        return catalogue_with(self.metrics)

    @property
    def declared_numbers(self) -> DeclaredNumbers:
        """What the format reads by."""
        return DeclaredNumbers(self.metrics, self.results.pattern)


class _TaskFirst(Declared):
    # As the last base its field is the first that is checked: criteria and thresholds may name the metrics that it declares.
    task: ContainerTask


class ContainerWorkload(Workload, _TaskFirst):
    """A file under `include/config/workloads/training/` whose `task.kind` is container. It has no steps."""

    kind: Literal["training"]

    @model_validator(mode="after")
    def _has_primary(self) -> ContainerWorkload:
        known = (*self.task.measures, *_EVERY_CONTAINER)
        if self.primary is None or self.primary.metric not in known:
            named = "is missing" if self.primary is None else f"names {self.primary.metric}"
            raise ValueError(
                f"primary {named}; expected one of {', '.join(n for n in known if self.catalogue[n].direction != 'informative')}"
            )
        return self

    def of_trial(self) -> ContainerWorkload:
        """See Workload; `primary` stays, since quality checks require it."""
        return super().of_trial().model_copy(update={"primary": self.primary})

    @property
    def nodes(self) -> int:
        """See Workload."""
        return self.task.nodes

    @property
    def own_image(self) -> str | None:
        """See Workload."""
        return self.task.image

    @property
    def started_processes(self) -> int:
        """Processes that the harness starts on a node."""
        return 1

    @property
    def task_kind(self) -> str:
        """See Workload."""
        return self.task.kind

    @property
    def own_metrics(self) -> tuple[str, ...]:
        """See Workload."""
        return self.task.measures

    @property
    def declared_metrics(self) -> Mapping[str, ContainerMetric]:
        """See Workload."""
        return self.task.metrics
